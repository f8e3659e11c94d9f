"""MLflow's artifact repository for `azureml://`: files of runs, logged models and registered models.

What a process logs to its own run is copied into the run folder, and the supervisor sends it. All else is a request.
"""

from __future__ import annotations

import os
import posixpath
import shutil
from typing import Any, Dict, List, Optional, Tuple

from mlflow.entities import FileInfo
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repo import ArtifactRepository

from runyard.mlflow.address import place_of, split_place
from runyard.mlflow.door import Door
from runyard.mlflow.journal_runs import JournalRun, journal_runs

_FLUSH_S = 30.0
Files = Dict[str, Any]  # path: MLflow's FileInfo


class AzuremlArtifactRepository(ArtifactRepository):  # type: ignore[misc]  # MLflow is not there when types are checked
    """One place of files, or all of a kind: MLflow asks the folder above a run's files for those of the run."""

    def __init__(self, artifact_uri: str, *more: Any, **options: Any) -> None:
        super().__init__(artifact_uri, *more, **options)
        self._door = Door(artifact_uri)
        self._place = place_of(artifact_uri)
        self._runs = journal_runs(self._door)

    def log_artifact(self, local_file: str, artifact_path: Optional[str] = None) -> None:
        self._store(local_file, _joined(artifact_path, os.path.basename(local_file)))

    def log_artifacts(self, local_dir: str, artifact_path: Optional[str] = None) -> None:
        for root, folders, names in os.walk(local_dir):
            folders.sort()
            below = os.path.relpath(root, local_dir)
            parts = [] if below == os.curdir else below.split(os.sep)
            for name in sorted(names):
                self._store(os.path.join(root, name), _joined(artifact_path, *parts, name))

    def list_artifacts(self, path: Optional[str] = None) -> List[Any]:
        """Return what is right below `path`; nothing where it is a file."""
        folder = _joined(path)
        found = self._own_files(folder)
        if self._locate(folder)[0] is None:
            served: Optional[Files] = self._served_files(folder)
        else:
            served = self._door.try_quickly(lambda: self._served_files(folder))
        found = {**(served or {}), **found}
        return [found[name] for name in sorted(found)]

    def delete_artifacts(self, artifact_path: Optional[str] = None) -> None:
        folder = _joined(artifact_path)
        run, inside = self._locate(folder)
        if run is not None:
            run.flush(_FLUSH_S)
            for name in [name for name in run.files if _is_at_or_below(name, inside)]:
                del run.files[name]
        self._door.delete_files(_joined(self._place, folder))

    def _download_file(self, remote_file_path: str, local_path: str) -> None:
        run, name = self._locate(remote_file_path)
        own = None if run is None else run.files.get(name)
        if own is not None:
            try:
                shutil.copyfile(own.path, local_path)
                return
            except FileNotFoundError:
                pass  # the supervisor sent it and let the copy go
        self._door.download(_joined(self._place, remote_file_path), local_path)

    def _store(self, path: str, name: str) -> None:
        run, inside = self._locate(name)
        if run is not None:
            run.upload(inside, path)
        else:
            self._door.put_file(_joined(self._place, name), path)

    def _locate(self, path: str) -> Tuple[Optional[JournalRun], str]:
        """Return the run that this process logs to and whose file `path` is, if any, and its path among those files."""
        run_id, inside = split_place(_joined(self._place, path))
        return None if self._runs is None else self._runs.find(run_id), inside

    def _own_files(self, folder: str) -> Files:
        """Return what this process logged right below `folder`, folders once."""
        found: Files = {}
        run, inside = self._locate(folder)
        if run is None:
            return found
        for name, file in run.files.items():
            if name == inside or not _is_at_or_below(name, inside):
                continue
            first, slash, _ = (name[len(inside) + 1 :] if inside else name).partition("/")
            shown = _joined(folder, first)
            found[shown] = FileInfo(shown, bool(slash), None if slash else file.size)
        return found

    def _served_files(self, folder: str) -> Files:
        try:
            listed = self._door.list_files(_joined(self._place, folder))
        except MlflowException as error:
            is_new = error.error_code in ("RESOURCE_DOES_NOT_EXIST", "PERMISSION_DENIED")
            if not is_new or self._locate(folder)[0] is None:
                raise
            return {}  # a child that the server does not know yet
        paths = [(_joined(folder, str(item["path"])), item) for item in listed]
        return {
            path: FileInfo(path, bool(item.get("is_dir")), None if item.get("is_dir") else int(item["file_size"]))
            for path, item in paths
        }


def _joined(*parts: Optional[str]) -> str:
    return posixpath.join("", *[part.strip("/") for part in parts if part and part.strip("/")])


def _is_at_or_below(name: str, folder: str) -> bool:
    return not folder or name == folder or name.startswith(f"{folder}/")
