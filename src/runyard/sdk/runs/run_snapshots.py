"""Snapshots of a run from outside: store a folder with it, get the stored one back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional

from runyard.core.errors import Conflict
from runyard.core.records import SNAPSHOT_PROPERTY
from runyard.sdk.errors import translates_errors
from runyard.sdk.exceptions import SnapshotException, UserErrorException
from runyard.sdk.runs.files import RunFiles

if TYPE_CHECKING:
    from runyard.sdk.runs.source import StoredSource


@translates_errors
class RunSnapshots(RunFiles):
    def get_snapshot_id(self) -> str:
        """Return the id of the stored source folder.

        Raises:
            UserErrorException: the run has none.
        """
        found = self._snapshot_id()
        if not found:
            raise UserErrorException(
                f"Run {self._run_id} has no snapshot. run.take_snapshot(path) stores a folder with it."
            )
        return found

    def take_snapshot(self, file_or_folder_path: str, **_kwargs: Any) -> str:
        """Store a folder, or one file, as the run's snapshot and return its id.

        Raises:
            SnapshotException: the run has one already, or the folder cannot be stored.
        """
        self._refresh()
        if self._snapshot_id():
            raise self._has_one()
        source = self._store(os.fspath(file_or_folder_path))
        known = self._facts.properties
        new = {name: value for name, value in source.properties.items() if name not in known}
        try:
            self._record = self._client.runs.update(self._run_id, properties_add=new, snapshot_id=source.snapshot_id)
        except Conflict as error:
            raise self._has_one() from error
        self._keep_patch(source)
        return source.snapshot_id

    def restore_snapshot(self, snapshot_id: Optional[str] = None, path: Optional[str] = None) -> str:
        """Write a snapshot as `<path>/<snapshot id>.zip` and return that path.

        Args:
            snapshot_id: the run's own when not given.
            path: a folder, made when missing; a new temporary one when not given.

        Raises:
            UserErrorException: the run has no snapshot, or there is none of that id.
        """
        from runyard.core.names import check_snapshot_id  # most processes restore nothing
        from runyard.sdk.runs.snapshot_archive import write_zip

        wanted = check_snapshot_id(snapshot_id) if snapshot_id else self.get_snapshot_id()
        root = self._client.content.find_root(wanted)
        target = os.path.join(path or _temporary_folder(), f"{wanted}.zip")
        write_zip(root, self._client.content, target)
        return target

    def _snapshot_id(self) -> Optional[str]:
        return self._facts.snapshot_id or self._facts.properties.get(SNAPSHOT_PROPERTY)

    def _store(self, path: str) -> StoredSource:
        from runyard.sdk.runs.source import store_file, store_source  # loads what walks folders

        return store_file(self._client, path) if os.path.isfile(path) else store_source(self._client, path)

    def _keep_patch(self, source: StoredSource) -> None:
        from runyard.sdk.runs.source import store_git_patch

        store_git_patch(self._client, self._run_id, source)

    def _has_one(self) -> SnapshotException:
        return SnapshotException(
            f"Run {self._run_id} has a snapshot already ({self._refresh().snapshot_id}); a run keeps its first. "
            "Start another run for another state of the folder."
        )


def _temporary_folder() -> str:
    from tempfile import mkdtemp

    return mkdtemp(prefix="snapshot-")
