"""What a submit needs until its job is handed over and no database may hold: variables, and arguments with secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runyard.core.errors import StoreUnavailable
from runyard.core.names import check_run_id


@dataclass(frozen=True)
class Spooled:
    submitter: Mapping[str, str] = field(default_factory=dict)
    interactive_pid: int | None = None
    interactive_start_ticks: int | None = None
    interactive_folders: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] | None = None  # the whole one, where the stored one has secrets left out
    handed: int | None = None  # the attempt that its target has taken, where the file stays for further ones
    slots: tuple[int, ...] = ()  # and the places that it has there


class Spool:
    """One 0600 file a run below `<home>/server/spool`, written before the run is committed. Removed once submitted,
    or, where further attempts may follow or nodes of a cluster ask for their job, when the run has ended.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, run_id: str, spooled: Spooled) -> None:
        text = json.dumps(
            {
                "submitter": dict(spooled.submitter),
                "interactive_pid": spooled.interactive_pid,
                "interactive_start_ticks": spooled.interactive_start_ticks,
                "interactive_folders": dict(spooled.interactive_folders),
                "spec": spooled.spec,
                "handed": spooled.handed,
                "slots": spooled.slots,
            }
        ).encode()
        path = self._path(run_id)
        beside = path.with_suffix(f".{os.getpid()}.new")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_private(beside, text)
            os.replace(beside, path)
        except OSError as error:
            raise StoreUnavailable(
                f"Run `{run_id}` could not be taken in.",
                why=f"The server could not write its spool file: {error.strerror}.",
                hint="Free space below RUNYARD_HOME and submit again.",
            ) from error

    def read(self, run_id: str) -> Spooled | None:
        try:
            loaded = json.loads(self._path(run_id).read_bytes())
            watched = loaded["interactive_pid"], loaded["interactive_start_ticks"]
            folders = loaded.get("interactive_folders") or {}
            spec, handed, slots = loaded.get("spec"), loaded.get("handed"), tuple(loaded.get("slots") or ())
            return Spooled(loaded["submitter"], *watched, folders, spec=spec, handed=handed, slots=slots)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note_handed(self, run_id: str, attempt: int, slots: tuple[int, ...] = ()) -> None:
        """Remember that the target has this attempt, at these places."""
        known = self.read(run_id)
        if known is not None:
            self.write(run_id, replace(known, handed=attempt, slots=slots))

    def remove(self, run_id: str) -> None:
        try:
            self._path(run_id).unlink()
        except OSError:
            return

    def list_runs(self) -> list[str]:
        try:
            return sorted(path.stem for path in self._folder.glob("*.json"))
        except OSError:
            return []

    def _path(self, run_id: str) -> Path:
        return self._folder / f"{check_run_id(run_id)}.json"


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
