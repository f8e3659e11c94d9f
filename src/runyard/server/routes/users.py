"""Routes of the users of a team's server, and of the server itself.

All routes of users but `/users/me` are for admins. The server's routes answer its health and its facts, collect free
space, and stop it.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from fastapi import APIRouter, Request, Response

import runyard
from runyard.core.users import DEFAULT_LABEL, USER, User, check_role, check_token_label, check_user_name
from runyard.engine.state.spool import hash_token, mint_user_token
from runyard.server.access.permissions import RunPrincipal, UserPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import RequestContext, call_of, services_of
from runyard.server.http.openapi import DeletedName, gives, opened, takes
from runyard.server.http.requests import parse, with_json
from runyard.server.services import Services
from runyard.server.storage.collecting import CollectionRound
from runyard.server.storage.health import unhealthy

logger = logging.getLogger(__name__)
router = APIRouter(tags=["users"])
FORBID: dict[str, str] = {"extra": "forbid"}
API_VERSION = 1


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
class IssuedToken:
    user: User
    token: str


@dataclass(frozen=True)
class HealthAnswer:
    ok: bool
    parts: dict[str, str]


@dataclass(frozen=True)
class StoppingAnswer:
    stopping: bool = True


@dataclass(frozen=True)
class Me:
    """The caller: a user with a role, the owner of the server, or a run."""

    name: str | None = None
    role: str | None = None
    run_id: str | None = None


@router.get("/users/me")
@gives(Me)
def get_me(request: Request) -> Response:
    """Say who asks: a user, the owner of the server (no name), or a run's code."""
    call = call_of(request)
    call.require("read_server")
    return json_answer(_who(call))


@router.get("/users")
@gives(list[User])
def list_users(request: Request) -> Response:
    """List all users with the labels of their tokens."""
    call = call_of(request)
    call.require("manage_users")
    return json_answer(call.services.store.list_users())


@router.post("/users", status_code=201)
@gives(IssuedToken)
@takes(NewUser)
async def add_user(request: Request) -> Response:
    """Create a user; the answer holds the token, which is shown only once."""
    return await with_json(request, lambda body: _add(call_of(request), body))


@router.patch("/users/{name}")
@gives(User)
@takes(RoleChange)
async def change_role(name: str, request: Request) -> Response:
    """Give a user another role."""
    return await with_json(request, lambda body: _change_role(call_of(request), name, body))


@router.delete("/users/{name}")
@gives(DeletedName)
def remove_user(name: str, request: Request) -> Response:
    """Remove a user with all tokens and sessions; twice is fine."""
    call = call_of(request)
    call.require("manage_users")
    call.services.store.remove_user(check_user_name(name))
    _note(call, f"removed user {name}")
    return json_answer(DeletedName(name))


@router.post("/users/{name}/tokens", status_code=201)
@gives(IssuedToken)
@takes(NewToken)
async def add_user_token(name: str, request: Request) -> Response:
    """Give a user one more token, shown only once."""
    return await with_json(request, lambda body: _add_token(call_of(request), name, body))


@router.delete("/users/{name}/tokens/{label}")
@gives(User)
def remove_user_token(name: str, label: str, request: Request) -> Response:
    """Take one token from a user; twice is fine."""
    call = call_of(request)
    call.require("manage_users")
    changed = call.services.store.remove_user_token(check_user_name(name), check_token_label(label))
    _note(call, f"removed token {label} of user {name}")
    return json_answer(changed)


@router.post("/users/{name}/rotate", status_code=201)
@gives(IssuedToken)
@takes(NewToken)
async def rotate_user_tokens(name: str, request: Request) -> Response:
    """Replace all tokens of a user by a new one, shown only once."""
    return await with_json(request, lambda body: _rotate(call_of(request), name, body))


def _who(call: RequestContext) -> Me:
    if isinstance(call.principal, UserPrincipal):
        return Me(name=call.principal.name, role=call.principal.role)
    if isinstance(call.principal, RunPrincipal):
        return Me(run_id=call.principal.run_id)
    return Me(role="owner")


def _add(call: RequestContext, body: bytes) -> Response:
    call.require("manage_users")
    wanted = parse(NewUser, body)
    name, role, label = check_user_name(wanted.name), check_role(wanted.role), check_token_label(wanted.label)
    token = mint_user_token()
    made = call.services.store.add_user(name, role=role, label=label, token_hash=hash_token(token))
    _note(call, f"added user {name} in the role {role}")
    return _told(made, token)


def _change_role(call: RequestContext, name: str, body: bytes) -> Response:
    call.require("manage_users")
    role = check_role(parse(RoleChange, body).role)
    changed = call.services.store.set_user_role(check_user_name(name), role)
    _note(call, f"gave user {name} the role {role}")
    return json_answer(changed)


def _add_token(call: RequestContext, name: str, body: bytes) -> Response:
    call.require("manage_users")
    label, token = check_token_label(parse(NewToken, body).label), mint_user_token()
    changed = call.services.store.add_user_token(check_user_name(name), label=label, token_hash=hash_token(token))
    _note(call, f"added token {label} of user {name}")
    return _told(changed, token)


def _rotate(call: RequestContext, name: str, body: bytes) -> Response:
    call.require("manage_users")
    label, token = check_token_label(parse(NewToken, body or b"{}").label), mint_user_token()
    changed = call.services.store.replace_user_tokens(check_user_name(name), label=label, token_hash=hash_token(token))
    _note(call, f"rotated the tokens of user {name}")
    return _told(changed, token)


def _told(user: User, token: str) -> Response:
    return json_answer(IssuedToken(user, token), status=201)


def _note(call: RequestContext, what: str) -> None:
    who = f"user {call.principal.name}" if isinstance(call.principal, UserPrincipal) else "the owner"
    logger.info("%s %s.", who.capitalize(), what)


@router.get("/health")
@gives(HealthAnswer)
@opened
async def get_health(request: Request) -> Response:
    """Say without a token whether the server can store anything: 503 names the part that does not work."""
    parts = await services_of(request).health.look()
    error = unhealthy(parts)
    if error is not None:
        raise error
    return json_answer(HealthAnswer(True, dict(parts)))


@dataclass(frozen=True)
class ServerFacts:
    id: str
    version: str
    api: int
    pid: int
    host: str
    started_at: datetime
    url: str
    home: str
    time_ns: int
    runs_live: int
    idle_stop_s: float
    listens_on: list[str]
    database: str
    team: bool
    health: dict[str, str]


@router.get("/server")
@gives(ServerFacts)
def get_server(request: Request) -> Response:
    """Say what this server is."""
    call = call_of(request)
    call.require("read_server")
    services = call.services
    return json_answer(
        ServerFacts(
            id=services.server_id,
            version=runyard.__version__,
            api=API_VERSION,
            pid=os.getpid(),
            host=socket.gethostname(),
            started_at=services.started_at,
            url=services.address.get("web_url") or "",
            home=str(services.settings.home),
            time_ns=time.time_ns(),
            runs_live=services.engine.live_runs(),
            idle_stop_s=services.settings.idle_stop_s,
            listens_on=list(services.listens_on),
            database="PostgreSQL" if services.server_settings.database else "SQLite",
            team=services.server_settings.is_team,
            health=_health(services),
        )
    )


def _health(services: Services) -> dict[str, str]:
    """Return what `/health` says, and of a fault that a person must mend what to do: not for everybody to read."""
    fault = services.store.find_fault()
    words = {} if fault is None else {"database": f"{fault.what} {fault.why} {fault.hint}"}
    return {**services.health.look_now(), **words}


@router.post("/server/collect")
@gives(CollectionRound)
def collect_free_space(request: Request, everything: bool = False) -> Response:
    """Free the bytes that nothing refers to any more; with `everything` what lies aside and unfinished uploads, too."""
    call = call_of(request)
    call.require("collect")
    services = call.services
    collect_now = services.collecting.collect_now
    return json_answer(services.engine.reserve.spend(lambda: collect_now(everything=everything)))


@router.post("/server/stop", status_code=202)
@gives(StoppingAnswer)
def stop_server(request: Request) -> Response:
    """Stop the server; live runs continue."""
    call = call_of(request)
    call.require("stop_server")
    call.services.stop()
    return json_answer(StoppingAnswer(), status=202)
