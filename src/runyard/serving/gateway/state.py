"""The gateway's memory on disk: the services it was told about, so that a new process goes on with them."""

from __future__ import annotations

import json
from pathlib import Path

from runyard.core.machine.files import read_private, replace_private
from runyard.serving.config import ServiceConfig

_FILE = "state.json"
CODE = "code.json"  # with which code the keeper starts the serving process, once a server of another version said so
ORPHANED = 76  # exit code: the keeper is gone; this process becomes it
RENEW = 75  # exit code: start the serving process again, with that code


class StateFile:
    """Holds digests of keys, and secrets of tokens: only its owner may read it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._services: dict[str, ServiceConfig] = {}

    def load(self) -> list[ServiceConfig]:
        """Return the services of the process before.

        Raises:
            UserError: others can read the file, or it is damaged.
            InvalidArgument: a record cannot be used.
        """
        plain = read_private(self._path)
        found = [ServiceConfig.from_plain(one) for one in plain.get("services", ())]
        self._services = {one.name: one for one in found}
        return found

    def write_code(self, python: str, path: str) -> None:
        replace_private(self._path.with_name(CODE), json.dumps({"python": python, "path": path}).encode() + b"\n")

    def put(self, service: ServiceConfig) -> None:
        if self._services.get(service.name) != service:
            self._services[service.name] = service
            self._write()

    def delete(self, name: str) -> None:
        if self._services.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        plain = {"services": [one.to_plain() for one in self._services.values()]}
        replace_private(self._path, json.dumps(plain).encode() + b"\n")
