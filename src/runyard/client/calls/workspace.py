"""Calls about a workspace and what it holds, one class per resource.

The order is: workspaces, experiments, assets, compute targets, files of datastores on the server's machine, built
environments, models and secrets. A built environment is an `environments.pruning.BuiltFolder` as a dict.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, cast

from runyard.client.client import Client
from runyard.client.decoding import (
    Deletion,
    read_answer,
    read_record,
    read_records,
    repeatable_delete,
    restored_runs,
)
from runyard.client.http1 import quote, quote_name
from runyard.client.transport import Transport
from runyard.core.compute import ComputeSpec, ComputeTarget
from runyard.core.errors import ProtocolError
from runyard.core.formats.plain import to_plain
from runyard.core.machine.files import atomic_write
from runyard.core.names import clean_file_name
from runyard.core.records import Asset, Experiment, ModelSpec, ModelVersion, RunFile, Workspace

if TYPE_CHECKING:
    from runyard.core.formats.documents import CachedEnvironment

ATTACH_S = 120.0  # the server checks the cluster of an attached target first
_SLOW_S = 600.0  # sizes are counted, and gigabytes of small files removed


class WorkspaceCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> List[Workspace]:
        return read_records(Workspace, self._transport.request("GET", "/workspaces"))

    def get(self, name: str) -> Workspace:
        return read_record(Workspace, self._transport.request("GET", f"/workspaces/{quote(name)}"))

    def delete(self, name: str) -> List[str]:
        """Delete the workspace, its assets, experiments and runs; return the runs' ids.

        Raises:
            Conflict: one of its runs has not ended; nothing was deleted.
        """
        gone = repeatable_delete(
            lambda: self.get(name),
            lambda: self._transport.request("DELETE", f"/workspaces/{quote(name)}", timeout_s=600.0),
            now=False,
        )
        return gone.deleted

    def put(
        self,
        name: str,
        *,
        subscription_id: str = "",
        resource_group: str = "",
        location: str = "",
        tags: Optional[Mapping[str, str]] = None,
    ) -> Workspace:
        """Return the workspace of that name, made from the rest when there is none."""
        body = {
            "subscription_id": subscription_id,
            "resource_group": resource_group,
            "location": location,
            "tags": dict(tags or {}),
        }
        return read_record(Workspace, self._transport.request("PUT", f"/workspaces/{quote(name)}", json=body))


class ExperimentCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str, *, view: str = "ActiveOnly", name: Optional[str] = None) -> List[Experiment]:
        """`view` is ActiveOnly, ArchivedOnly, All (both), or DeletedOnly: those that can be restored."""
        path = f"/workspaces/{quote(workspace)}/experiments"
        return read_records(Experiment, self._transport.request("GET", path, query={"view": view, "name": name}))

    def get(self, workspace: str, name: str) -> Experiment:
        return read_record(Experiment, self._transport.request("GET", _experiment_path(workspace, name)))

    def count_runs(self, workspace: str, name: str) -> Dict[str, int]:
        """Return how many of its runs, without children and archived ones, have which status."""
        query = {"experiment": name}
        answer = self._transport.request("GET", f"/workspaces/{quote(workspace)}/tally", query=query)
        return read_answer(answer, lambda tallies: dict(tallies[0]["statuses"]) if tallies else {})

    def put(self, workspace: str, name: str) -> Experiment:
        """Return the experiment of that name, made now when there is none."""
        return read_record(Experiment, self._transport.request("PUT", _experiment_path(workspace, name)))

    def update(
        self,
        workspace: str,
        name: str,
        *,
        archived: Optional[bool] = None,
        tags_set: Optional[Mapping[str, Optional[str]]] = None,
        tags_remove: Sequence[str] = (),
        title: Optional[str] = None,
    ) -> Experiment:
        body: Dict[str, object] = {} if title is None else {"title": title}
        if archived is not None:
            body["archived"] = archived
        if tags_set:
            body["tags_set"] = dict(tags_set)
        if tags_remove:
            body["tags_remove"] = list(tags_remove)
        return read_record(Experiment, self._transport.request("PATCH", _experiment_path(workspace, name), json=body))

    def delete(self, workspace: str, name: str, *, now: bool = False) -> Deletion:
        """Delete the experiment and all its runs; with `now` for good, also one that is deleted already.

        Raises:
            Conflict: one of its runs has not ended; nothing was deleted.
        """
        query = {"now": "true"} if now else None
        return repeatable_delete(
            lambda: self.get(workspace, name),
            lambda: self._transport.request("DELETE", _experiment_path(workspace, name), query=query, timeout_s=600.0),
            now=now,
        )

    def restore(self, workspace: str, name: str) -> List[str]:
        """Bring back a deleted experiment and the runs that were deleted with it; return their ids."""
        path = f"{_experiment_path(workspace, name)}/restore"
        return read_answer(self._transport.request("POST", path, timeout_s=600.0), restored_runs)


def _experiment_path(workspace: str, name: str) -> str:
    return f"/workspaces/{quote(workspace)}/experiments/{quote_name(name)}"


class AssetCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str, kind: str, *, name: Optional[str] = None) -> List[Asset]:
        """The newest version of each name, by name; with `name` all its versions, oldest first."""
        return read_records(Asset, self._transport.request("GET", _asset_path(workspace, kind), query={"name": name}))

    def get(self, workspace: str, kind: str, name: str, *, version: Optional[int] = None) -> Asset:
        """Return that version, the newest by default.

        Raises:
            NotFound: there is none.
        """
        query = {"version": None if version is None else str(version)}
        return read_record(Asset, self._transport.request("GET", _asset_path(workspace, kind, name), query=query))

    def put(self, workspace: str, kind: str, name: str, document: Mapping[str, Any], *, key: str = "") -> Asset:
        """Return the next version, or the newest one when it has the same key."""
        body = {"document": dict(document), "key": key}
        return read_record(Asset, self._transport.request("POST", _asset_path(workspace, kind, name), json=body))

    def update(self, workspace: str, kind: str, name: str, *, version: int, document: Mapping[str, Any]) -> Asset:
        path = f"{_asset_path(workspace, kind, name)}/{version}"
        return read_record(Asset, self._transport.request("PUT", path, json={"document": dict(document)}))

    def delete(self, workspace: str, kind: str, name: str) -> None:
        """Delete all versions; twice is fine."""
        self._transport.request("DELETE", _asset_path(workspace, kind, name))


def _asset_path(workspace: str, kind: str, name: Optional[str] = None) -> str:
    path = f"/workspaces/{quote(workspace)}/assets/{quote(kind)}"
    return path if name is None else f"{path}/{quote_name(name)}"


class ComputeCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str) -> List[ComputeTarget]:
        return read_records(ComputeTarget, self._transport.request("GET", _compute_path(workspace)))

    def get(self, workspace: str, name: str) -> ComputeTarget:
        """Return a target as it stands now.

        Raises:
            NotFound: the workspace has none of that name.
        """
        return read_record(ComputeTarget, self._transport.request("GET", _compute_path(workspace, name)))

    def create(self, workspace: str, name: str, spec: ComputeSpec) -> ComputeTarget:
        """Make or attach a target, or return the same one.

        Raises:
            Conflict: there is another of that name.
        """
        path = _compute_path(workspace, name)
        answer = self._transport.request("PUT", path, json=to_plain(spec), timeout_s=ATTACH_S)
        return read_record(ComputeTarget, answer)

    def update(self, workspace: str, name: str, **changes: Any) -> ComputeTarget:
        """Change fields of its ComputeSpec; those that are None stay."""
        body = {field: value for field, value in changes.items() if value is not None}
        return read_record(ComputeTarget, self._transport.request("PATCH", _compute_path(workspace, name), json=body))

    def delete(self, workspace: str, name: str) -> None:
        """Delete it; twice is fine.

        Raises:
            Conflict: unfinished runs name it.
        """
        self._transport.request("DELETE", _compute_path(workspace, name))


def _compute_path(workspace: str, name: str = "") -> str:
    path = f"/workspaces/{quote(workspace)}/compute"
    return f"{path}/{quote(name)}" if name else path


class DatastoreFiles:
    """What `data.base.Remote` asks for."""

    def __init__(self, client: Client, workspace: str, name: str) -> None:
        self._client = client
        self._path = f"/workspaces/{quote(workspace)}/datastores/{quote(name)}/files"

    def list(self, path: str) -> List[Tuple[str, int]]:
        answer = self._client.transport.request("GET", self._path, query={"path": path}, timeout_s=120.0)
        return read_answer(answer, lambda plain: [(str(file["name"]), int(file["size"])) for file in plain])

    def put(self, source: str, name: str, count: Callable[[int], None] = lambda size: None) -> None:
        """Send what the server lacks of the file; it appears there whole."""
        file = self._client.content.upload_file(source, name=name, progress=lambda size, _: count(size))
        self._client.transport.request("POST", self._path, json={"file": to_plain(file)}, timeout_s=600.0)

    def fetch(self, name: str, target: str, count: Callable[[int], None] = lambda size: None) -> None:
        """Write the file to `target`: beside it first, and renamed when all of it is there."""
        path = f"{self._path}/{quote(name, safe=b'/')}"
        with atomic_write(target) as beside:
            with self._client.transport.stream("GET", path, timeout_s=120.0) as answer, open(beside, "xb") as out:
                for piece in answer.iter_bytes():
                    out.write(piece)
                    count(len(piece))
            due, came = answer.headers.get("x-runyard-size", ""), os.path.getsize(beside)
            if due != str(came):
                raise ProtocolError(f"The file `{name}` came with {came} bytes; {due or '?'} were due.")


class EnvironmentCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> List[CachedEnvironment]:
        """Last used first."""
        return read_answer(self._transport.request("GET", "/environments", timeout_s=_SLOW_S), _folders)

    def prune(
        self, *, keep_bytes: Optional[int] = None, unused_s: Optional[float] = None, dry_run: bool = False
    ) -> List[CachedEnvironment]:
        """Remove unused environments beyond the given age or size; return the removed ones."""
        body = {"keep_bytes": keep_bytes, "unused_s": unused_s, "dry_run": dry_run}
        return read_answer(
            self._transport.request("POST", "/environments/prune", json=body, timeout_s=_SLOW_S), _folders
        )

    def remove(self, key: str) -> CachedEnvironment:
        """Remove one; `key` may be its beginning.

        Raises:
            NotFound: there is none, or several begin so.
            Conflict: a run uses it.
        """
        answer = self._transport.request("DELETE", f"/environments/{quote(key)}", timeout_s=_SLOW_S)
        return read_answer(answer, lambda found: _folders([found])[0])


def _folders(found: Any) -> List[CachedEnvironment]:
    return cast("List[CachedEnvironment]", [dict(one) for one in found])


class ModelCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str, *, name: Optional[str] = None) -> List[ModelVersion]:
        """Return all versions, oldest first within a name."""
        return read_records(ModelVersion, self._transport.request("GET", _model_path(workspace), query={"name": name}))

    def get(self, workspace: str, name: str, *, version: Optional[int] = None) -> ModelVersion:
        """Raises NotFound."""
        query = {"version": None if version is None else str(version)}
        return read_record(ModelVersion, self._transport.request("GET", _model_path(workspace, name), query=query))

    def register(self, workspace: str, name: str, spec: ModelSpec, *, run_path: str = "") -> ModelVersion:
        """Keep the next version, of uploaded files or of run `spec.run_id`'s at `run_path`.

        Raises:
            NotFound: the run has nothing there.
            MissingContent: the server lacks some of the files' content.
        """
        body: Dict[str, object] = {"spec": to_plain(spec), "run_path": run_path}
        return read_record(ModelVersion, self._transport.request("POST", _model_path(workspace, name), json=body))

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
        path = f"{_model_path(workspace, name)}/{version}"
        return read_record(ModelVersion, self._transport.request("PATCH", path, json=body))

    def delete(self, workspace: str, name: str, version: int) -> None:
        """Twice is fine."""
        self._transport.request("DELETE", f"{_model_path(workspace, name)}/{version}")

    def download(
        self, model: ModelVersion, file: RunFile, target: str, *, progress: Optional[Callable[[int], None]] = None
    ) -> None:
        """Write one of the model's files to `target`: beside it first, then renamed when its SHA-256 is right.

        `progress` is called with the bytes of each piece.
        """
        name = clean_file_name(file.name)
        path = f"{_model_path(model.workspace, model.name)}/{model.version}/files/{quote(name, safe=b'/')}"
        digest = sha256()
        with atomic_write(target) as beside:
            with self._transport.stream("GET", path, timeout_s=120.0) as response, open(beside, "xb") as out:
                for piece in response.iter_bytes():
                    digest.update(piece)
                    out.write(piece)
                    if progress is not None:
                        progress(len(piece))
            if file.sha256 and digest.hexdigest() != file.sha256:
                raise ProtocolError(
                    f"The file `{name}` of model `{model.name}:{model.version}` came damaged.",
                    hint="Download it again.",
                )


def _model_path(workspace: str, name: Optional[str] = None) -> str:
    path = f"/workspaces/{quote(workspace)}/models"
    return path if name is None else f"{path}/{quote_name(name)}"


class SecretCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str) -> List[str]:
        return read_answer(
            self._transport.request("GET", _secret_path(workspace)), lambda plain: [str(one) for one in plain]
        )

    def get(self, workspace: str, name: str) -> str:
        """Raises NotFound: there is none of that name."""
        answer = self._transport.request("GET", _secret_path(workspace, name))
        return read_answer(answer, lambda plain: str(plain["value"]))

    def put(
        self, workspace: str, name: str, value: Optional[str] = None, *, readers: Optional[Sequence[str]] = None
    ) -> None:
        """Set the value, the users who read it ("*": all of the team), or both; what is None stays."""
        body: Dict[str, object] = {} if value is None else {"value": value}
        if readers is not None:
            body["readers"] = [*readers]
        self._transport.request("PUT", _secret_path(workspace, name), json=body)

    def delete(self, workspace: str, name: str) -> None:
        """Twice is fine."""
        self._transport.request("DELETE", _secret_path(workspace, name))


def _secret_path(workspace: str, name: Optional[str] = None) -> str:
    path = f"/workspaces/{quote(workspace)}/secrets"
    return path if name is None else f"{path}/{quote(name)}"
