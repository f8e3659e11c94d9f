"""`POST /api/v1/signin-codes`: the answer's path signs a browser in."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict

from runyard.server.permissions import require_owner

router = APIRouter(tags=["server"])


class SigninRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    next: str = "/"


class SigninPath(BaseModel):
    path: str


@router.post("/signin-codes")
async def make_signin_path(request: Request, wanted: SigninRequest) -> SigninPath:
    """Make a one-time path that signs a browser in and then shows `next`."""
    require_owner(request.state.principal, "sign_in")
    return SigninPath(path=request.app.state.signin.make_path(wanted.next))
