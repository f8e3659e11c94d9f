"""MLflow's artifact repository for `azureml://`: the files of the process's own run, at their own path."""

from __future__ import annotations

import os
import posixpath
from typing import Any, List, Optional

from mlflow.entities import FileInfo
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import NOT_IMPLEMENTED
from mlflow.store.artifact.artifact_repo import ArtifactRepository

from runyard.runtime.context import find_context
from runyard.runtime.mlflow.address import split_artifact_uri
from runyard.runtime.mlflow.runs import JournalRun, journal_runs


class AzuremlArtifactRepository(ArtifactRepository):  # type: ignore[misc]  # MLflow is not there when types are checked
    """`log_artifact` copies the file into the run folder; the supervisor sends it."""

    def __init__(self, artifact_uri: str, *more: Any, **options: Any) -> None:
        super().__init__(artifact_uri, *more, **options)
        self._run_id, self._path = split_artifact_uri(artifact_uri)

    def log_artifact(self, local_file: str, artifact_path: Optional[str] = None) -> None:
        self._run().upload(self._name(artifact_path, os.path.basename(local_file)), local_file)

    def log_artifacts(self, local_dir: str, artifact_path: Optional[str] = None) -> None:
        run = self._run()
        for root, folders, names in os.walk(local_dir):
            folders.sort()
            below = os.path.relpath(root, local_dir)
            parts = [] if below == os.curdir else below.split(os.sep)
            for name in sorted(names):
                run.upload(self._name(artifact_path, *parts, name), os.path.join(root, name))

    def list_artifacts(self, path: Optional[str] = None) -> List[Any]:
        """Return what this process logged below `path`, folders once."""
        folder = self._name(path)
        found = {}
        for name, size in self._run().files.items():
            if folder and not name.startswith(f"{folder}/"):
                continue
            rest = name[len(folder) + 1 :] if folder else name
            first, slash, _ = rest.partition("/")
            shown = self._name(path, first)[len(self._path) :].lstrip("/")
            found[shown] = FileInfo(shown, bool(slash), None if slash else size)
        return [found[name] for name in sorted(found)]

    def _download_file(self, remote_file_path: str, local_path: str) -> None:
        raise self._not_here("Downloading a run's artifacts")

    def delete_artifacts(self, artifact_path: Optional[str] = None) -> None:
        raise self._not_here("Deleting a run's artifacts")

    def _name(self, *parts: Optional[str]) -> str:
        return posixpath.join(self._path, *[part.strip("/") for part in parts if part])

    def _run(self) -> JournalRun:
        runs = journal_runs(find_context(), self.artifact_uri)
        run = None if runs is None else runs.find(self._run_id)
        if run is None:
            raise self._not_here(f"Using the artifacts of run {self._run_id}, which this process is no part of,")
        return run

    def _not_here(self, what: str) -> MlflowException:
        return MlflowException(
            f"{what} does not work through azureml:// yet. `Run.get_context().download_file(...)` and "
            "`runyard runs download` read a run's files.",
            error_code=NOT_IMPLEMENTED,
        )
