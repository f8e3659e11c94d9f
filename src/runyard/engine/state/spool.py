"""Keeps what a run needs to start and no database may hold: variables, and arguments with secrets.

It also makes the tokens of runs and users: 256 random bits, of which only the SHA-256 is ever stored.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runyard.core.errors import StoreUnavailable, SubmissionLost
from runyard.core.machine.disk import NO_SPACE
from runyard.core.machine.files import sync_folder, write_new, write_whole
from runyard.core.names import check_run_id
from runyard.core.users import TOKEN_PREFIX

PREFIX = "ryr_"


@dataclass(frozen=True)
class Spooled:
    """What a run needs to start and the database does not hold."""

    submitter: Mapping[str, str] = field(default_factory=dict)
    interactive_pid: int | None = None
    interactive_start_ticks: int | None = None
    interactive_folders: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] | None = None  # the whole one, where the stored one has secrets left out
    handed: int | None = None  # the attempt that its target has taken, where the file stays for further ones
    slots: tuple[int, ...] = ()  # and the slots that it has there


class Spool:
    """One 0600 file per run below `<home>/server/spool`, written before the run is committed.

    It is removed once the run is started; if further attempts may follow, or nodes of a cluster ask for their job, when
    the run has ended. Files are written under the run's lock.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, run_id: str, spooled: Spooled) -> None:
        """Write the file; it survives a loss of power when this returns."""
        plain = {
            "run": run_id,
            "submitter": dict(spooled.submitter),
            "interactive_pid": spooled.interactive_pid,
            "interactive_start_ticks": spooled.interactive_start_ticks,
            "interactive_folders": dict(spooled.interactive_folders),
            "spec": spooled.spec,
            "handed": spooled.handed,
            "slots": list(spooled.slots),
        }
        text = json.dumps({**plain, "sha256": _digest(plain)}).encode()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_durably(str(self._path(run_id)), text)
        except OSError as error:
            raise StoreUnavailable(
                f"Run `{run_id}` could not be taken in.",
                why="The server's disk is full."
                if error.errno in NO_SPACE
                else f"The server could not write its spool file: {error.strerror}.",
                hint="Make room (`runyard runs delete --now RUN`, `runyard environments prune`) and submit again.",
            ) from error

    def read(self, run_id: str) -> Spooled | None:
        """Return what the file holds; None when it is missing, cannot be read, or is damaged."""
        try:
            return self.get(run_id)
        except (SubmissionLost, StoreUnavailable):
            return None

    def get(self, run_id: str) -> Spooled:
        """Return what the file holds.

        Raises:
            SubmissionLost: the file is missing or damaged; its `why` says which.
            StoreUnavailable: it cannot be read now.
        """
        path = self._path(run_id)
        try:
            data = path.read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise _lost(run_id, f"Its spool file `{path}` is gone") from None
        except OSError as error:
            raise StoreUnavailable(
                f"Run `{run_id}` cannot be started now.",
                why=f"The server cannot read its spool file `{path}`: {error.strerror}.",
                hint="Give the server's user back what it may read below RUNYARD_HOME; the run starts by itself then.",
            ) from error
        found = _parse(run_id, data)
        if found is None:
            raise _lost(run_id, f"Its spool file `{path}` is damaged ({len(data)} bytes)")
        return found

    def note_handed(self, run_id: str, attempt: int, slots: tuple[int, ...] = ()) -> None:
        """Note that the target has taken this attempt, and which slots it holds."""
        known = self.read(run_id)
        if known is not None:
            self.write(run_id, replace(known, handed=attempt, slots=slots))

    def remove(self, run_id: str) -> None:
        """Remove the run's file. It may be repeated."""
        try:
            self._path(run_id).unlink()
        except OSError:
            return

    def list_runs(self) -> list[str]:
        """Return the ids of runs that have a file."""
        try:
            return sorted(path.stem for path in self._folder.glob("*.json"))
        except OSError:
            return []

    def _path(self, run_id: str) -> Path:
        return self._folder / f"{check_run_id(run_id)}.json"


def _parse(run_id: str, data: bytes) -> Spooled | None:
    """Return what a spool file holds; None when it is not what was written for this run."""
    try:
        loaded = json.loads(data)
        digest = loaded.pop("sha256", None)
        # A server of 0.2 or earlier wrote neither; JSON that is cut off cannot be read.
        if digest is not None and (digest != _digest(loaded) or loaded["run"] != run_id):
            return None
        watched = loaded["interactive_pid"], loaded["interactive_start_ticks"]
        folders = loaded.get("interactive_folders") or {}
        spec, handed, slots = loaded.get("spec"), loaded.get("handed"), tuple(loaded.get("slots") or ())
        return Spooled(loaded["submitter"], *watched, folders, spec=spec, handed=handed, slots=slots)
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _lost(run_id: str, why: str) -> SubmissionLost:
    return SubmissionLost(
        f"Run `{run_id}` was not started.",
        why=f"{why}. Only there were the variables of the process that submitted it, and the values that its record "
        "shows as ********: no database holds them.",
        hint="Submit it again from where it was submitted: `runyard submit`, or experiment.submit(…).",
    )


def _write_durably(path: str, data: bytes) -> None:
    """Write a file that a loss of power leaves whole.

    The file systems of Linux store the name of a new file when that file is synced: one sync is enough for a submit.
    What a crash leaves before that is of a run that nobody has committed, and its checksum tells.
    """
    try:
        write_new(path, data, sync=True)
    except FileExistsError:
        write_whole(path, data, sync=True)
        sync_folder(os.path.dirname(path))


def mint_run_token() -> str:
    """Return a new token for processes of a run."""
    return PREFIX + secrets.token_hex(32)


def mint_user_token() -> str:
    """Return a new token for a user."""
    return TOKEN_PREFIX + secrets.token_hex(32)


def hash_token(token: str) -> str:
    """Return the form in which a token is stored."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
