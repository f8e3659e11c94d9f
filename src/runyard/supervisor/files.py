"""Ships new and changed files of ./outputs and ./logs while the run goes on, and everything at its end."""

from __future__ import annotations

import logging
import os
import stat
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from runyard.core.errors import InvalidArgument, RunyardError
from runyard.core.names import clean_file_name
from runyard.supervisor.file_ledger import FileLedger
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.uploads import (
    MOST_TRIES,
    ExplicitUploads,
    Signature,
    Uploader,
    Wanted,
    iter_batches,
    signature,
)

logger = logging.getLogger(__name__)

SETTLED_S = 2.0  # an output that was not touched for so long counts as written
LIVE_FOLDER = "logs"  # followed by TensorBoard: shipped at once
REST = 10  # a file whose upload took t seconds is left alone for REST × t: a growing file must not eat a core


class Found(NamedTuple):
    name: str
    path: str
    root: str
    signature: Signature


class WatchedFile:
    """What is known about one file of the work folder."""

    def __init__(self) -> None:
        self.stored: Optional[Signature] = None
        self.seen: Optional[Signature] = None
        self.tries = 0
        self.rest_until = 0.0


class OutputFiles:
    """Its loop calls `step`; at the end the supervisor calls `finish`.

    `folders`: the path of each by the name that its files get, the path ends with it; once for each node that has
    a work folder of its own. A file of a later node whose name is taken gets `node_<rank>/` in front, and all get
    `prefix`. Of what lies in `logs`, files that were last changed before `since` belong to somebody else.
    """

    def __init__(
        self,
        folder: RunFolder,
        run_id: str,
        folders: Sequence[Dict[str, str]],
        *,
        since: float = 0.0,
        prefix: str = "",
        uploader: Uploader,
        explicit: ExplicitUploads,
        warn: Callable[[str, str], None],
    ) -> None:
        self._run_id = run_id
        self._folders = folders
        self._uploader = uploader
        self._explicit = explicit
        self._warn = warn
        self._since = since
        self._prefix = prefix
        self._files: Dict[str, WatchedFile] = {}
        self._ledger = FileLedger(folder)
        self._rest_until = 0.0  # a folder that takes long to look through is looked through less often
        self._load()

    def step(self) -> None:
        """Upload what is new and settled."""
        began = time.monotonic()
        if began < self._rest_until:
            return
        changed = [found for found in self._iter_changed() if self._is_due(found)]
        self._rest_until = time.monotonic() + REST * (time.monotonic() - began)
        self._store(changed)

    def finish(self) -> None:
        """Upload all that is left. The program has ended: what fails three times is given up with a warning."""
        for _ in range(MOST_TRIES):
            changed = list(self._iter_changed())
            if not changed:
                return
            self._store(changed)

    def _iter_changed(self) -> Iterator[Found]:
        for found in self._iter_files():
            watched = self._files.setdefault(found.name, WatchedFile())
            if watched.seen != found.signature:
                watched.tries = 0
            if watched.stored != found.signature and watched.tries < MOST_TRIES and not self._is_older(found):
                yield found

    def _is_due(self, found: Found) -> bool:
        watched = self._files[found.name]
        is_settled = watched.seen == found.signature and time.time() - found.signature.mtime_ns / 1e9 > SETTLED_S
        watched.seen = found.signature
        is_live = found.name.startswith(f"{self._prefix}{LIVE_FOLDER}/")
        return (is_live or is_settled) and time.monotonic() >= watched.rest_until

    def _is_older(self, found: Found) -> bool:
        """Whether `upload_file` gave this name a content later than this file's."""
        return found.signature.mtime_ns / 1e9 < self._explicit.uploaded_at.get(found.name, 0.0)

    def _store(self, changed: Sequence[Found]) -> None:
        wanted = [Wanted(found.name, found.path, found.root, found.signature.size) for found in changed]
        for batch in iter_batches(wanted):
            began = time.monotonic()
            for index in batch:
                self._files[changed[index].name].seen = changed[index].signature
            outcomes = self._uploader.upload_many(self._run_id, [wanted[index] for index in batch])
            rest_s = REST * (time.monotonic() - began) / len(batch)
            stored: Dict[str, Signature] = {}
            for index, outcome in zip(batch, outcomes):
                name = changed[index].name
                if isinstance(outcome, Signature):
                    stored[name] = self._files[name].stored = outcome
                else:
                    self._failed(name, outcome)
                self._files[name].rest_until = time.monotonic() + rest_s
            self._ledger.add(stored)

    def _failed(self, name: str, error: Exception) -> None:
        """Count what refused one file; the last try is named on the run."""
        if isinstance(error, FileNotFoundError):
            return
        watched = self._files[name]
        watched.tries += 1
        logger.warning("%s: %s", name, error)
        if watched.tries >= MOST_TRIES or isinstance(error, InvalidArgument):
            watched.tries = MOST_TRIES
            self._warn("files", f"The file {name!r} could not be stored: {error}")

    def _iter_files(self) -> Iterator[Found]:
        taken: Set[str] = set()
        for rank, folders in enumerate(self._folders):
            for found in self._iter_node(folders):
                name = f"node_{rank}/{found.name}" if found.name in taken else found.name
                taken.add(found.name)
                yield found._replace(name=self._prefix + name)

    def _iter_node(self, folders: Dict[str, str]) -> Iterator[Found]:
        for folder, top in folders.items():
            root = top[: -len(folder) - 1]
            if os.path.islink(top) and not _is_inside(top, root):
                self._warn("files", f"`{folder}` is a link out of the work folder; nothing in it is stored.")
                continue
            yield from self._iter_below(folder, top, root)

    def _iter_below(self, folder: str, top: str, root: str) -> Iterator[Found]:
        waiting: List[Tuple[str, str]] = [(folder, top)]
        while waiting:
            prefix, path = waiting.pop()
            try:
                entries = list(os.scandir(path))
            except OSError:
                continue
            for entry in entries:
                name = f"{prefix}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((name, entry.path))
                    continue
                found = self._find(name, entry, root)
                if found is not None:
                    yield found

    def _find(self, name: str, entry: os.DirEntry[str], root: str) -> Optional[Found]:
        try:
            if entry.is_symlink() and not _is_inside(entry.path, root):
                self._warn("files", f"{name!r} is a link out of the work folder and was not stored.")
                return None
            status = entry.stat()
            if not stat.S_ISREG(status.st_mode) or self._is_before(name, status):
                return None
            return Found(clean_file_name(name), entry.path, root, signature(status))
        except OSError:
            return None
        except RunyardError as error:
            self._warn("files", str(error))
            return None

    def _is_before(self, name: str, status: os.stat_result) -> bool:
        return name.startswith(LIVE_FOLDER + "/") and status.st_mtime < self._since

    def _load(self) -> None:
        """A restarted supervisor need not read again what was stored."""
        for name, stored in self._ledger.load().items():
            watched = self._files[name] = WatchedFile()
            watched.stored = stored


def _is_inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(root) + os.sep)
