"""Routes of a browser's session: `signin-codes` begins it, `download-tickets` serves downloads, `signout` ends it."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from runyard.core.errors import InvalidArgument
from runyard.server.access.credentials import end_session
from runyard.server.access.permissions import UserPrincipal
from runyard.server.access.signin import SigninSession
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import call_of
from runyard.server.http.openapi import gives

router = APIRouter(tags=["server"])


class SigninRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    next: str = "/"


class SigninPath(BaseModel):
    path: str


@router.post("/signin-codes")
async def make_signin_path(request: Request, wanted: SigninRequest) -> SigninPath:
    """Make a one-time path that signs a browser in as who asks, and then shows `next`."""
    call = call_of(request)
    call.require("sign_in")
    token_id = call.principal.token_id if isinstance(call.principal, UserPrincipal) else None
    return SigninPath(path=request.app.state.signin.make_path(wanted.next, token_id))


class TicketRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str = Field("", max_length=4096)  # as the browser will ask for it, without the query


class Ticket(BaseModel):
    ticket: str


@router.post("/download-tickets")
def make_ticket(request: Request, wanted: TicketRequest) -> Ticket:
    """Make what the browser's next download of that path says in its query: `ticket=…`, good for a minute."""
    call_of(request).require("sign_in")
    path = wanted.path.encode("utf-8", "replace")
    return Ticket(ticket=request.app.state.signin.make_ticket(_session_of(request, "needs a ticket"), path))


@dataclass(frozen=True)
class SignedOut:
    signed_out: bool = True


@router.post("/signout")
@gives(SignedOut)
def sign_out(request: Request) -> Response:
    """End the session of the browser that asks; its cookie is worth nothing from then on."""
    call = call_of(request)
    call.require("sign_in")
    session = _session_of(request, "can be ended")
    request.app.state.signin.end(session)
    end_session(call.services.store, session)
    answer = json_answer(SignedOut())
    answer.headers["set-cookie"] = request.app.state.signin.make_end()
    return answer


def _session_of(request: Request, what: str) -> SigninSession:
    session: SigninSession | None = request.state.session
    if session is None:
        raise InvalidArgument(
            f"Only a browser's session {what}.",
            why="The request came with a token, not with a cookie.",
            hint="`runyard users rotate NAME` ends a user's tokens.",
        )
    return session
