"""Calls about the models of a workspace."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Dict, List, Optional, Sequence

from runyard.client.decoding import read_record, read_records
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.errors import ProtocolError
from runyard.core.formats.plain import to_plain
from runyard.core.machine.whole_files import written_beside
from runyard.core.models import ModelSpec, ModelVersion
from runyard.core.names import clean_file_name
from runyard.core.records import RunFile


class ModelCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str, *, name: Optional[str] = None) -> List[ModelVersion]:
        """Return all versions, oldest first within a name."""
        return read_records(ModelVersion, self._transport.request("GET", _path(workspace), query={"name": name}))

    def get(self, workspace: str, name: str, *, version: Optional[int] = None) -> ModelVersion:
        """Raises NotFound."""
        query = {"version": None if version is None else str(version)}
        return read_record(ModelVersion, self._transport.request("GET", _path(workspace, name), query=query))

    def register(self, workspace: str, name: str, spec: ModelSpec, *, run_path: str = "") -> ModelVersion:
        """Keep the next version, of uploaded files or of run `spec.run_id`'s at `run_path`.

        Raises:
            NotFound: the run has nothing there.
            MissingContent: the server lacks some of the files' content.
        """
        body: Dict[str, Any] = {"spec": to_plain(spec), "run_path": run_path}
        return read_record(ModelVersion, self._transport.request("POST", _path(workspace, name), json=body))

    def change(
        self,
        workspace: str,
        name: str,
        version: int,
        *,
        description: Optional[str] = None,
        tags_set: Optional[Dict[str, str]] = None,
        tags_remove: Sequence[str] = (),
        properties_add: Optional[Dict[str, str]] = None,
    ) -> ModelVersion:
        body = {
            "description": description,
            "tags_set": tags_set or {},
            "tags_remove": [*tags_remove],
            "properties_add": properties_add or {},
        }
        path = f"{_path(workspace, name)}/{version}"
        return read_record(ModelVersion, self._transport.request("PATCH", path, json=body))

    def delete(self, workspace: str, name: str, version: int) -> None:
        """Twice is fine."""
        self._transport.request("DELETE", f"{_path(workspace, name)}/{version}")

    def download(self, model: ModelVersion, file: RunFile, target: str) -> None:
        """Write one of the model's files to `target`: beside it first, then renamed when its SHA-256 is right."""
        name = clean_file_name(file.name)
        path = f"{_path(model.workspace, model.name)}/{model.version}/files/{quote(name, safe=b'/')}"
        digest = sha256()
        with written_beside(target) as beside:
            with self._transport.stream("GET", path, timeout_s=120.0) as response, open(beside, "xb") as out:
                for piece in response.iter_bytes():
                    digest.update(piece)
                    out.write(piece)
            if file.sha256 and digest.hexdigest() != file.sha256:
                raise ProtocolError(
                    f"The file `{name}` of model `{model.name}:{model.version}` came damaged.",
                    hint="Download it again.",
                )


def _path(workspace: str, name: Optional[str] = None) -> str:
    path = f"/workspaces/{quote(workspace)}/models"
    return path if name is None else f"{path}/{quote(name)}"
