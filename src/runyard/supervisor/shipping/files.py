"""Ships new and changed files of the output folders while the run goes on, and all of them at its end."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from itertools import chain
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from runyard.core.errors import RunyardError, SystemFailure
from runyard.core.names import stored_file_name
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.file_ledger import FileLedger
from runyard.supervisor.shipping.refusals import Refusals, explain
from runyard.supervisor.shipping.uploads import (
    ExplicitUploads,
    Signature,
    Uploader,
    UploadRequest,
    is_passing,
    iter_batches,
    signature,
)
from runyard.supervisor.shipping.work_tree import WorkTree, is_event_file

logger = logging.getLogger(__name__)

SETTLED_S = 2.0  # an output that did not change for this long counts as complete
LIVE_FOLDER = "logs"  # followed by TensorBoard: shipped at once
PASSES = 3  # over the files after the program's end, because other processes may still change them
REST = 10  # a file whose upload took t seconds is left alone for REST × t: a growing file must not eat a core
SHOWN_NAMES = 5
FOLDER = "folder that cannot be read"
BAD_NAME = "name that cannot be used"
FILE = "file that cannot be looked at"
VANISHED = "vanished before it was read"
SPECIAL = {
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFDIR: "link to a folder",
}


class WorkFile(NamedTuple):
    """A file that a scan found: its name on the server, its path, its work folder, and its signature."""

    name: str
    path: str
    root: str
    signature: Signature


class WatchedFile:
    """What is known about one file: its stored, last seen and refused signatures, and when to look again."""

    def __init__(self) -> None:
        self.stored: Optional[Signature] = None
        self.seen: Optional[Signature] = None
        self.refused: Optional[Signature] = None
        self.rest_until = 0.0


class OutputFiles:
    """Uploads the files of a run's output folders.

    The thread `files` calls `step`; at the end the main thread calls `finish`. `_lock` lets one of them work at a time.

    `folders` has one dict for each work folder: the path of each output folder by the name that its files get; the path
    ends with that name. `tree` lists what is kept of the rest of the work folders, in the same order. A file of a later
    node whose name is taken gets `node_<rank>/` in front, and all names get `prefix`. In `logs`, and among event files,
    those that were last changed before `since` do not belong to the run.
    """

    def __init__(
        self,
        folder: RunFolder,
        run_id: str,
        folders: Sequence[Dict[str, str]],
        *,
        since: float = 0.0,
        prefix: str = "",
        tree: WorkTree,
        uploader: Uploader,
        explicit: ExplicitUploads,
        refusals: Refusals,
        warn: Callable[[str, str], None],
    ) -> None:
        self._run_id = run_id
        self._folders = folders
        self._uploader = uploader
        self._explicit = explicit
        self._refusals = refusals
        self._warn = warn
        self._since = since
        self._prefix = prefix
        self._tree = tree
        self._files: Dict[str, WatchedFile] = {}
        self._ledger = FileLedger(folder)
        self._left_out: Dict[str, List[str]] = {}  # by kind: entries that the last scan found and that cannot be stored
        self._kept: List[str] = []  # those of them that are among the refusals
        self._rest_until = 0.0  # a folder that takes long to scan is scanned less often
        self._lock = threading.Lock()
        self._load()

    def step(self) -> None:
        """Upload files that are new and settled. Files in `logs` go at once. Raises outages."""
        with self._lock:
            began = time.monotonic()
            if began < self._rest_until:
                return
            self._left_out.clear()
            changed = [found for found in self._iter_changed() if self._is_due(found)]
            self._rest_until = time.monotonic() + REST * (time.monotonic() - began)
            self._store(changed)

    def finish(self) -> None:
        """Upload all files that are left after the program's end, and warn about those that cannot be stored.

        An outage is raised: call it again.
        """
        with self._lock:
            self._left_out.clear()
            for _ in range(PASSES):
                self._forget_left_out()
                changed = list(self._iter_changed(fresh=True))
                if not self._store(changed):
                    break
            self._warn_of_left_out()

    def try_refused_again(self) -> None:
        """Let the next `finish` upload refused files once more."""
        for watched in self._files.values():
            watched.refused = None

    def _iter_changed(self, *, fresh: bool = False) -> Iterator[WorkFile]:
        for found in self._iter_files(fresh):
            watched = self._files.setdefault(found.name, WatchedFile())
            if found.signature not in (watched.stored, watched.refused) and not self._is_older(found):
                yield found

    def _is_due(self, found: WorkFile) -> bool:
        watched = self._files[found.name]
        is_settled = watched.seen == found.signature and time.time() - found.signature.mtime_ns / 1e9 > SETTLED_S
        watched.seen = found.signature
        is_live = found.name.startswith(f"{self._prefix}{LIVE_FOLDER}/") or is_event_file(found.name)
        return (is_live or is_settled) and time.monotonic() >= watched.rest_until

    def _is_older(self, found: WorkFile) -> bool:
        """Return whether `upload_file` stored a later content under this name."""
        return found.signature.mtime_ns / 1e9 < self._explicit.uploaded_at.get(found.name, 0.0)

    def _store(self, changed: Sequence[WorkFile]) -> bool:
        """Upload these files; return whether one of them changed meanwhile."""
        is_changed = False
        held: Optional[Exception] = None
        wanted = [UploadRequest(found.name, found.path, found.root, found.signature.size) for found in changed]
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
                    is_changed = is_changed or outcome != changed[index].signature
                    self._refusals.settle("files", _called(name))
                elif is_passing(outcome):  # other files are stored meanwhile
                    held = outcome
                elif isinstance(outcome, FileNotFoundError):
                    self._leave_out(VANISHED, name)
                else:
                    self._refuse(changed[index], explain(outcome))
                self._files[name].rest_until = time.monotonic() + rest_s
            self._ledger.add(stored)
        if held is not None:
            raise (
                held if isinstance(held, RunyardError) else SystemFailure("A file cannot be opened now.", why=str(held))
            )
        return is_changed

    def _refuse(self, found: WorkFile, why: str) -> None:
        self._files[found.name].refused = found.signature
        logger.warning("%s: %s", found.name, why)
        self._refusals.add("files", _called(found.name), why)

    def _leave_out(self, kind: str, name: str, error: Optional[OSError] = None) -> None:
        shown = repr(name if len(name) <= 200 else f"{name[:120]}…{name[-60:]}")
        self._left_out.setdefault(kind, []).append(f"{shown}: {error.strerror}" if error is not None else shown)

    def _forget_left_out(self) -> None:
        """Forget what the last scan could not store; vanished files stay, because the next scan cannot find them."""
        for kind in [kind for kind in self._left_out if kind != VANISHED]:
            del self._left_out[kind]

    def _warn_of_left_out(self) -> None:
        """Show on the run which entries of its folders are not stored."""
        for what in self._kept:
            self._refusals.settle("files", what)
        self._kept.clear()
        for kind, names in sorted(self._left_out.items()):
            shown = ", ".join(sorted(names)[:SHOWN_NAMES])
            more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
            count = "1 entry" if len(names) == 1 else f"{len(names)} entries"
            if kind == FOLDER or kind.startswith(BAD_NAME):  # it has content: the run folder is kept for it
                self._kept.append(f"{count} of the work folder ({kind})")
                self._refusals.add("files", self._kept[-1], f"{shown}{more}.")
            else:
                verb = "is" if len(names) == 1 else "are"
                self._warn("files", f"{count} of the work folder {verb} not stored ({kind}): {shown}{more}.")

    def _iter_files(self, fresh: bool) -> Iterator[WorkFile]:
        taken: Set[str] = set()
        for rank, folders in enumerate(self._folders):
            for found in chain(self._iter_node(folders), self._iter_kept(rank, fresh)):
                name = f"node_{rank}/{found.name}" if found.name in taken else found.name
                taken.add(found.name)
                yield found._replace(name=self._prefix + name)

    def _iter_node(self, folders: Dict[str, str]) -> Iterator[WorkFile]:
        for folder, top in folders.items():
            root = top[: -len(folder) - 1]
            if os.path.islink(top) and not _is_inside(top, root):
                self._warn("files", f"`{folder}` is a link out of the work folder; nothing in it is stored.")
                continue
            yield from self._iter_below(folder, top, root)

    def _iter_kept(self, index: int, fresh: bool) -> Iterator[WorkFile]:
        for kept in self._tree.list_kept(index, fresh=fresh):
            found = self._find(kept.name, kept.path, os.path.islink(kept.path), self._tree.roots[index])
            if found is not None:
                yield found

    def _iter_below(self, folder: str, top: str, root: str) -> Iterator[WorkFile]:
        waiting: List[Tuple[str, str]] = [(folder, top)]
        while waiting:
            prefix, path = waiting.pop()
            try:
                entries = list(os.scandir(path))
            except OSError as error:
                if prefix != folder or os.path.lexists(path):  # a missing output folder is no fault
                    self._leave_out(FOLDER, prefix, error)
                continue
            for entry in entries:
                name = f"{prefix}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((name, entry.path))
                    continue
                found = self._find(name, entry.path, entry.is_symlink(), root)
                if found is not None:
                    yield found

    def _find(self, name: str, path: str, is_link: bool, root: str) -> Optional[WorkFile]:
        try:
            if is_link and not _is_inside(path, root):
                self._warn("files", f"{name!r} is a link out of the work folder and was not stored.")
                return None
            status = os.stat(path)
            if self._is_before(name, status):
                return None
            if not stat.S_ISREG(status.st_mode):
                is_twin = stat.S_ISDIR(status.st_mode) and _is_inside(path, os.path.join(root, name.split("/")[0]))
                if not is_twin:  # a link to a folder that is stored anyway loses nothing
                    self._leave_out(SPECIAL.get(stat.S_IFMT(status.st_mode), "special file"), name)
                return None
            return WorkFile(stored_file_name(name), path, root, signature(status))
        except OSError as error:
            self._leave_out(FILE, name, error)
            return None
        except RunyardError as error:
            self._leave_out(f"{BAD_NAME}; {error.why.rstrip('.')}", name)
            return None

    def _is_before(self, name: str, status: os.stat_result) -> bool:
        return (name.startswith(LIVE_FOLDER + "/") or is_event_file(name)) and status.st_mtime < self._since

    def _load(self) -> None:
        """Take the stored signatures from the ledger: a restarted supervisor does not read these files again."""
        for name, stored in self._ledger.load().items():
            watched = self._files[name] = WatchedFile()
            watched.stored = stored


def _called(name: str) -> str:
    return f"the file {name!r}"


def _is_inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(root) + os.sep)
