"""How a browser's session begins and ends: `POST /api/v1/signin-codes` and `POST /api/v1/signout`."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from runyard.core.errors import InvalidArgument
from runyard.server.answers import json_answer
from runyard.server.calls import call_of
from runyard.server.permissions import UserPrincipal
from runyard.server.sessions import end_session

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
    call.may("sign_in")
    token_id = call.principal.token_id if isinstance(call.principal, UserPrincipal) else None
    return SigninPath(path=request.app.state.signin.make_path(wanted.next, token_id))


@router.post("/signout")
def sign_out(request: Request) -> Response:
    """End the session of the browser that asks; its cookie is worth nothing from then on."""
    call = call_of(request)
    call.may("sign_in")
    session = request.state.session
    if session is None:
        raise InvalidArgument(
            "Only a browser's session can be ended.",
            why="The request came with a token, not with a cookie.",
            hint="`runyard users rotate NAME` ends a user's tokens.",
        )
    end_session(call.services.store, session, now=time.time())
    request.app.state.signin.end(session)
    answer = json_answer({"signed_out": True})
    answer.headers["set-cookie"] = request.app.state.signin.make_end()
    return answer
