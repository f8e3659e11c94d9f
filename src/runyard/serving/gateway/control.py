"""The control socket: JSON lines by which the server's engine tells the gateway what to serve, and asks how it goes.

→ {"id": 1, "do": "put", "service": {…}}          ← {"id": 1, "ok": {…}} or {"id": 1, "error": {…}}
→ {"id": 2, "do": "watch"}                        ← {"id": 2, "ok": {}}, then {"event": …} lines as they happen
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from typing import Any

from runyard import __version__
from runyard.core.errors import InvalidArgument, NotFound, RunyardError
from runyard.serving.config import ServiceConfig
from runyard.serving.gateway.services import ScoringService, ServiceTable
from runyard.serving.gateway.state import RENEW, StateFile
from runyard.serving.protocol import Json

logger = logging.getLogger(__name__)

MOST_LINE = 8 << 20
_MOST_UNREAD = 16 << 20


class Control:
    """`on_ports` opens and closes listeners of services; `leave` ends the gateway."""

    def __init__(
        self, services: ServiceTable, state: StateFile, *, on_ports: Callable[[], Any], leave: Callable[[int], None]
    ) -> None:
        self._services = services
        self._state = state
        self._on_ports = on_ports
        self._leave = leave

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends."""

        def pass_on(event: Json) -> None:
            if writer.transport.get_write_buffer_size() > _MOST_UNREAD:
                writer.transport.abort()  # it can ask for state and rows later
            else:
                writer.write(json.dumps(event).encode() + b"\n")

        try:
            while line := await reader.readline():
                answer = await self._answer(line, pass_on)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.LimitOverrunError) as error:
            logger.debug("A control connection ended: %s", error)
        finally:
            self._services.listeners.discard(pass_on)
            writer.close()

    async def _answer(self, line: bytes, pass_on: Callable[[Json], None]) -> Json:
        number: Any = None
        try:
            request = json.loads(line)
            number = request.get("id")
            if request.get("do") == "watch":
                self._services.listeners.add(pass_on)
                return {"id": number, "ok": {}}
            return {"id": number, "ok": await self._do(str(request.get("do")), request)}
        except RunyardError as error:
            return {"id": number, "error": error.to_plain()}
        except (ValueError, AttributeError, TypeError, OSError) as error:
            return {"id": number, "error": InvalidArgument("The gateway cannot do that.", why=f"{error}.").to_plain()}

    async def _do(self, what: str, request: Json) -> Json:
        if what == "put":
            config = ServiceConfig.from_plain(request["service"])
            service = self._services.put(config)
            await self._on_ports()
            self._state.put(config)
            return service.state()
        if what == "delete":
            name = str(request.get("service"))
            self._state.delete(name)
            is_there = self._services.delete(name)
            await self._on_ports()
            return {"deleted": is_there}
        if what == "state":
            return {"services": [one.state() for one in self._services.by_name.values()]}
        if what == "rows":
            after = int(request.get("after", 0))
            return {"rows": [row for row in self._find(request).rows if row["row"] > after]}
        if what == "end_row":
            return {"row": self._find(request).end_row(float(request["now"]))}
        if what == "replace":
            return {"asked": self._replace(request)}
        if what == "hello":
            return {"version": __version__, "pid": os.getpid()}
        if what == "renew":
            self._state.write_code(str(request["python"]), str(request["path"]))
            self._leave(RENEW)
            return {}
        if what == "stop":
            self._leave(0)
            return {}
        raise InvalidArgument(
            f"The gateway cannot {what!r}.",
            hint="It knows: hello, put, delete, state, rows, watch, replace, renew, stop.",
        )

    def _find(self, request: Json) -> ScoringService:
        name = str(request.get("service"))
        service = self._services.by_name.get(name)
        if service is None:
            raise NotFound(f"The gateway has no service `{name}`.")
        return service

    def _replace(self, request: Json) -> int:
        """Ask the hosts of a service to replace a worker; return how many were asked."""
        revisions = self._find(request).revisions.values()
        hosts = [link for revision in revisions for link in revision.links if link.role == "host"]
        for host in hosts:
            host.note(do="replace", pid=int(request["pid"]), why=str(request.get("why", "asked to")))
        return len(hosts)
