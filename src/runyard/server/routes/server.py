"""The server itself: is it there, what is it, leave."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request, Response

import runyard
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import call_of, services_of
from runyard.server.http.openapi import gives
from runyard.server.services import Services
from runyard.server.storage.health import unhealthy

API_VERSION = 1
router = APIRouter(tags=["server"])


@router.get("/health")
async def health(request: Request) -> Response:
    """Say without a token whether the server can store anything: 503 names the part that does not work."""
    parts = await services_of(request).health.look()
    error = unhealthy(parts)
    if error is not None:
        raise error
    return json_answer({"ok": True, "parts": parts})


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
    call.may("read_server")
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
def collect(request: Request, everything: bool = False) -> Response:
    """Free the bytes that nothing refers to any more; with `everything` what lies aside and unfinished uploads, too."""
    call = call_of(request)
    call.may("collect")
    services = call.services
    collect_now = services.collecting.collect_now
    return json_answer(services.engine.reserve.spend(lambda: collect_now(everything=everything)))


@router.post("/server/stop", status_code=202)
def stop_server(request: Request) -> Response:
    """Leave; live runs go on."""
    call = call_of(request)
    call.may("stop_server")
    call.services.stop()
    return json_answer({"stopping": True}, status=202)
