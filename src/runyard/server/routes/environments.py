"""Environments that are built on this machine, where runs on `local` use them: what there is, and getting rid of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.config.paths import environments_folder
from runyard.core.errors import InvalidArgument
from runyard.environments.pruning import BuiltFolder, list_built, prune, remove
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import gives, takes
from runyard.server.http.requests import parse, with_json

router = APIRouter(prefix="/environments", tags=["environments"])


@dataclass(frozen=True)
class PruneBody:
    """What may stay: `keep_bytes` in all, and what was used within `unused_s` seconds. `dry_run`: only say."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    keep_bytes: Optional[int] = None
    unused_s: Optional[float] = None
    dry_run: bool = False


@router.get("")
@gives(list[BuiltFolder])
def list_environments(request: Request) -> Response:
    """List the environments that are built here, last used first."""
    call = call_of(request)
    call.may("list_environments")
    return json_answer(list_built(environments_folder(call.services.settings.home)))


@router.post("/prune")
@takes(PruneBody)
async def prune_environments(request: Request) -> Response:
    """Remove those that nobody uses, as far as the body says; answer those that went."""
    return await with_json(request, lambda body: _prune(call_of(request), body))


@router.delete("/{key}")
def remove_environment(key: str, request: Request) -> Response:
    """Remove one by its key, or by the key's beginning; 409 while a run uses it."""
    call = call_of(request)
    call.may("manage_environments")
    return json_answer(remove(environments_folder(call.services.settings.home), key))


def _prune(call: Call, body: bytes) -> Response:
    call.may("manage_environments")
    wanted = parse(PruneBody, body)
    if (wanted.keep_bytes or 0) < 0 or (wanted.unused_s or 0) < 0:
        raise InvalidArgument("keep_bytes and unused_s are zero or more.")
    root = environments_folder(call.services.settings.home)
    return json_answer(prune(root, keep_bytes=wanted.keep_bytes, unused_s=wanted.unused_s, dry_run=wanted.dry_run))
