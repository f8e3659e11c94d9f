"""The files of a datastore that lies on the server's machine."""

from __future__ import annotations

import os
from typing import List, Tuple

from runyard.client.client import Client
from runyard.client.decoding import read_answer
from runyard.client.http1 import quote
from runyard.core.errors import ProtocolError
from runyard.core.formats.plain import to_plain
from runyard.core.machine.whole_files import written_beside


class DatastoreFiles:
    """What `data.base.Remote` asks for."""

    def __init__(self, client: Client, workspace: str, name: str) -> None:
        self._client = client
        self._path = f"/workspaces/{quote(workspace)}/datastores/{quote(name)}/files"

    def list(self, path: str) -> List[Tuple[str, int]]:
        answer = self._client.transport.request("GET", self._path, query={"path": path}, timeout_s=120.0)
        return read_answer(answer, lambda plain: [(str(file["name"]), int(file["size"])) for file in plain])

    def put(self, source: str, name: str) -> None:
        """Send what the server lacks of the file; it appears there whole."""
        file = self._client.content.upload_file(source, name=name)
        self._client.transport.request("POST", self._path, json={"file": to_plain(file)}, timeout_s=600.0)

    def fetch(self, name: str, target: str) -> None:
        """Write the file to `target`: beside it first, and renamed when all of it is there."""
        path = f"{self._path}/{quote(name, safe=b'/')}"
        with written_beside(target) as beside:
            with self._client.transport.stream("GET", path, timeout_s=120.0) as answer, open(beside, "xb") as out:
                for piece in answer.iter_bytes():
                    out.write(piece)
            due, came = answer.headers.get("x-runyard-size", ""), os.path.getsize(beside)
            if due != str(came):
                raise ProtocolError(f"The file `{name}` came with {came} bytes; {due or '?'} were due.")
