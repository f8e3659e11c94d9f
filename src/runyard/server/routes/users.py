"""Users of a team's server: who there is, in which role, with which tokens. For admins, but for `/users/me`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter, Request, Response

from runyard.core.users import DEFAULT_LABEL, USER, User, check_role, check_token_label, check_user_name
from runyard.engine.state.tokens import hash_token, mint_user_token
from runyard.server.access.permissions import RunPrincipal, UserPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import gives, takes
from runyard.server.http.requests import parse, with_json

logger = logging.getLogger(__name__)
router = APIRouter(prefix="/users", tags=["users"])
FORBID: dict[str, str] = {"extra": "forbid"}


@dataclass(frozen=True)
class NewUser:
    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    name: str
    role: str = USER
    label: str = DEFAULT_LABEL


@dataclass(frozen=True)
class RoleChange:
    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    role: str


@dataclass(frozen=True)
class NewToken:
    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    label: str = DEFAULT_LABEL


@dataclass(frozen=True)
class Me:
    """The caller: a user with a role, the owner of the server, or a run."""

    name: str | None = None
    role: str | None = None
    run_id: str | None = None


@router.get("/me")
@gives(Me)
def get_me(request: Request) -> Response:
    """Say who asks: a user, the owner of the server (no name), or a run's code."""
    call = call_of(request)
    call.may("read_server")
    return json_answer(_who(call))


@router.get("")
def list_users(request: Request) -> Response:
    """List all users with the labels of their tokens."""
    call = call_of(request)
    call.may("manage_users")
    return json_answer(call.services.store.list_users())


@router.post("", status_code=201)
@takes(NewUser)
async def add_user(request: Request) -> Response:
    """Make a user; the answer holds the token, which is told this once."""
    return await with_json(request, lambda body: _add(call_of(request), body))


@router.patch("/{name}")
@takes(RoleChange)
async def change_role(name: str, request: Request) -> Response:
    """Give a user another role."""
    return await with_json(request, lambda body: _change_role(call_of(request), name, body))


@router.delete("/{name}")
def remove_user(name: str, request: Request) -> Response:
    """Remove a user with all tokens and sessions; twice is fine."""
    call = call_of(request)
    call.may("manage_users")
    call.services.store.remove_user(check_user_name(name))
    _note(call, f"removed user {name}")
    return json_answer({"deleted": name})


@router.post("/{name}/tokens", status_code=201)
@takes(NewToken)
async def add_token(name: str, request: Request) -> Response:
    """Give a user one more token, told this once."""
    return await with_json(request, lambda body: _add_token(call_of(request), name, body))


@router.delete("/{name}/tokens/{label}")
def remove_token(name: str, label: str, request: Request) -> Response:
    """Take one token from a user; twice is fine."""
    call = call_of(request)
    call.may("manage_users")
    changed = call.services.store.remove_user_token(check_user_name(name), check_token_label(label))
    _note(call, f"removed token {label} of user {name}")
    return json_answer(changed)


@router.post("/{name}/rotate", status_code=201)
@takes(NewToken)
async def rotate(name: str, request: Request) -> Response:
    """Put one new token, told this once, in the place of all that a user has."""
    return await with_json(request, lambda body: _rotate(call_of(request), name, body))


def _who(call: Call) -> Me:
    if isinstance(call.principal, UserPrincipal):
        return Me(name=call.principal.name, role=call.principal.role)
    if isinstance(call.principal, RunPrincipal):
        return Me(run_id=call.principal.run_id)
    return Me(role="owner")


def _add(call: Call, body: bytes) -> Response:
    call.may("manage_users")
    wanted = parse(NewUser, body)
    name, role, label = check_user_name(wanted.name), check_role(wanted.role), check_token_label(wanted.label)
    token = mint_user_token()
    made = call.services.store.add_user(name, role=role, label=label, token_hash=hash_token(token))
    _note(call, f"added user {name} in the role {role}")
    return _told(made, token)


def _change_role(call: Call, name: str, body: bytes) -> Response:
    call.may("manage_users")
    role = check_role(parse(RoleChange, body).role)
    changed = call.services.store.set_user_role(check_user_name(name), role)
    _note(call, f"gave user {name} the role {role}")
    return json_answer(changed)


def _add_token(call: Call, name: str, body: bytes) -> Response:
    call.may("manage_users")
    label, token = check_token_label(parse(NewToken, body).label), mint_user_token()
    changed = call.services.store.add_user_token(check_user_name(name), label=label, token_hash=hash_token(token))
    _note(call, f"added token {label} of user {name}")
    return _told(changed, token)


def _rotate(call: Call, name: str, body: bytes) -> Response:
    call.may("manage_users")
    label, token = check_token_label(parse(NewToken, body or b"{}").label), mint_user_token()
    changed = call.services.store.replace_user_tokens(check_user_name(name), label=label, token_hash=hash_token(token))
    _note(call, f"rotated the tokens of user {name}")
    return _told(changed, token)


def _told(user: User, token: str) -> Response:
    return json_answer({"user": user, "token": token}, status=201)


def _note(call: Call, what: str) -> None:
    who = f"user {call.principal.name}" if isinstance(call.principal, UserPrincipal) else "the owner"
    logger.info("%s %s.", who.capitalize(), what)
