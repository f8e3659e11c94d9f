"""The work folder outside of `./outputs` and `./logs`: what of it is kept, and what will be lost with it.

New is what the snapshot did not bring, or what changed since. Kept are files that fit the run's `keep`, and the event
files of TensorBoard. An interactive run works in the user's own folder: nothing there is lost, and event files are
looked for where libraries put them.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from fnmatch import translate
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Pattern, Sequence, Tuple

from runyard.core.names import EVENT_FILE_MARK
from runyard.core.specs import JobSpec
from runyard.supervisor.run_folder import RunFolder, shares_folder, work_folders

RESTORED = "restored.json"
BROUGHT = "brought.json"  # files of earlier attempts that were put back, with their sizes
INTERACTIVE = ("runs", "lightning_logs")  # where torch's SummaryWriter and Lightning write by default
CACHES = frozenset(
    {
        "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints", ".hypothesis", ".cache",
        ".git", ".tox", ".nox", "node_modules",
    }
)  # fmt: skip
LEAST_PAUSE_S, PAUSE = 2.0, 50  # a walk that took t seconds is not repeated for PAUSE × t: it must not cost a core
MOST_S = 5.0  # that the search for lost files may take
GOOD_FOR_S = 1.0  # after the program's end: uploads of large files take longer, and other nodes may still write
SHOWN = 5


class KeptFile(NamedTuple):
    """A file that is stored although it lies outside of the output folders, with its name below the work folder."""

    name: str
    path: str


class _Walk(NamedTuple):
    """What one walk over a work folder found: new files that are kept and, at the end, the others with their sizes."""

    kept: List[KeptFile]
    lost: List[Tuple[str, int]]
    is_whole: bool
    ended_at: float


def is_event_file(name: str) -> bool:
    """Return whether the file is one of TensorBoard's, by its name."""
    return EVENT_FILE_MARK in os.path.basename(name)


class Restored:
    """What the snapshot brought: names alone, and when it was in place. Sizes and times would cost a stat per file."""

    def __init__(self, names: Sequence[str], at_ns: int) -> None:
        self.names = frozenset(names)
        self.at_ns = at_ns

    def is_new(self, name: str, status: os.stat_result) -> bool:
        """Return whether the file was made or changed since."""
        return name not in self.names or status.st_mtime_ns > self.at_ns


class KeepRules:
    """The run's `keep`: paths and globs below the work folder. One without a slash fits at any depth."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._anywhere: List[Pattern[str]] = []
        self._from_top: List[Pattern[str]] = []
        for pattern in patterns:
            for one in {pattern, pattern[3:] if pattern.startswith("**/") else pattern}:
                (self._from_top if "/" in one else self._anywhere).append(re.compile(translate(one)))

    def fit(self, name: str) -> bool:
        """Return whether the file or folder is kept, by itself or by a folder above it."""
        parts = name.split("/") if self._anywhere or self._from_top else []
        for end in range(1, len(parts) + 1):
            if any(rule.match(parts[end - 1]) for rule in self._anywhere):
                return True
            above = "/".join(parts[:end])
            if any(rule.match(above) for rule in self._from_top):
                return True
        return False


class WorkTree:
    """The work folders of the nodes that run here, in the order of `tracked_folders`. Threads share it.

    `remember` is called when the snapshot is in place; before it nothing is new. `list_kept` walks anew only now and
    then, unless asked; after `end` a walk also finds what will be lost, and is good for all who ask within a second.
    """

    def __init__(self, folder: RunFolder, job: JobSpec) -> None:
        self._folder = folder
        self._job = job
        self._rules = KeepRules(job.spec.keep)
        self._lock = threading.Lock()
        self.roots = self._find_roots()
        self._known: Optional[Dict[str, Restored]] = None
        self._found: Dict[str, List[KeptFile]] = {}
        self._again_at: Dict[str, float] = {}
        self._is_over = False
        self._last: Dict[str, _Walk] = {}

    def remember(self) -> None:
        """Note what the snapshot brought. Raises OSError."""
        found = {os.path.basename(root): [name for name, _ in self._iter_files(root)] for root in self.roots}
        times = {os.path.basename(root): _now_ns(root) for root in self.roots}
        self._folder.write(RESTORED, {key: {"at_ns": times[key], "names": names} for key, names in found.items()})

    def list_kept(self, index: int, *, fresh: bool) -> List[KeptFile]:
        """Return the new files of a work folder that are stored with the run; `fresh`: after a walk of now."""
        if index >= len(self.roots) or not self._is_ready():
            return []
        root = self.roots[index]
        with self._lock:
            if self._is_over:
                return self._walk_at_end(root, GOOD_FOR_S).kept
            began = time.monotonic()
            if fresh or began >= self._again_at.get(root, 0.0):
                self._found[root] = self._walk(root, began).kept
                self._again_at[root] = began + max(LEAST_PAUSE_S, PAUSE * (time.monotonic() - began))
            return self._found[root]

    def end(self) -> None:
        """Note that the program has ended. May be repeated."""
        with self._lock:
            self._is_over = True

    def describe_lost(self, uploaded: Mapping[str, int]) -> str:
        """Return one line about the new files that are not stored, and how to keep them; "" when there are none.

        Called after `end`.

        Args:
            uploaded: paths that the script gave to `upload_file` and its like, with their sizes then.
        """
        if self._job.interactive_pid is not None or not self._is_ready():
            return ""
        lost: Dict[str, Tuple[int, int]] = {}  # number and size by the first part of the name
        is_whole = True
        for root in self.roots:
            with self._lock:
                walk = self._walk_at_end(root)
            is_whole = is_whole and walk.is_whole
            for name, size in walk.lost:
                if uploaded.get(os.path.join(os.path.realpath(root), name)) != size:
                    top = name.split("/")[0] + ("/" if "/" in name else "")
                    count, total = lost.get(top, (0, 0))
                    lost[top] = (count + 1, total + size)
        return _sentence(lost, self._job, is_whole=is_whole) if lost else ""

    def fits(self, name: str) -> bool:
        """Return whether a file of an earlier attempt belongs back into the work folder."""
        return self._rules.fit(name) or is_event_file(name)

    def _find_roots(self) -> List[str]:
        if self._job.interactive_pid is not None:
            logs = self._job.interactive_folders.get("logs", "")
            return [os.path.dirname(logs)] if logs else []
        if shares_folder(self._job) and self._job.node_rank > 0:
            return []  # node 0 stores the files of all nodes
        return work_folders(self._folder, self._job)

    def _walk_at_end(self, root: str, good_for_s: float = float("inf")) -> _Walk:
        now, last = time.monotonic(), self._last.get(root)
        if last is None or now > last.ended_at + good_for_s:
            last = self._last[root] = self._walk(root, now, with_lost=self._job.interactive_pid is None)
        return last

    def _walk(self, root: str, began: float, *, with_lost: bool = False) -> _Walk:
        """Look at all files once. Those that will be lost cost a stat each, so only the last walk counts them."""
        restored, kept, is_whole = self.restored(root), [], True
        lost: List[Tuple[str, int]] = []
        for name, path in self._iter_files(root):
            if self.fits(name):
                if self._is_new(restored, name, path):
                    kept.append(KeptFile(name, path))
            elif with_lost and is_whole:
                size = self._size_if_lost(restored, name, path)
                lost += [(name, size)] if size is not None else []
                is_whole = time.monotonic() < began + MOST_S
        return _Walk(kept, lost, is_whole, time.monotonic())

    def _is_new(self, restored: Restored, name: str, path: str) -> bool:
        try:
            return restored.is_new(name, os.lstat(path))
        except OSError:
            return False

    def _size_if_lost(self, restored: Restored, name: str, path: str) -> Optional[int]:
        if name.endswith((".pyc", ".pyo")):
            return None
        try:
            status = os.lstat(path)
        except OSError:
            return None
        has_content = stat.S_ISREG(status.st_mode) and status.st_size > 0
        return status.st_size if has_content and restored.is_new(name, status) else None

    def _is_ready(self) -> bool:
        """Return whether the work folder is there, and what the snapshot brought is known."""
        return self._known is not None or self._job.interactive_pid is not None or self._folder.has(RESTORED)

    def restored(self, root: str) -> Restored:
        """Return what the snapshot brought into a work folder."""
        if self._known is None:
            stored = self._folder.read_object(RESTORED)
            self._known = {key: Restored(known["names"], int(known["at_ns"])) for key, known in stored.items()}
        return self._known.get(os.path.basename(root), Restored([], 0))

    def _iter_files(self, root: str) -> Iterator[Tuple[str, str]]:
        """Yield name and path of all files outside of the output folders, of caches and of virtual environments."""
        waiting = [("", root)]
        if self._job.interactive_pid is not None:
            waiting = [(f"{name}/", os.path.join(root, name)) for name in INTERACTIVE]
        passed_over = {os.path.join(root, name) for name in self._job.spec.output_folders} | self._data_folders(root)
        while waiting:
            prefix, path = waiting.pop()
            try:
                entries = list(os.scandir(path))
            except OSError:
                continue
            if prefix and any(entry.name == "pyvenv.cfg" for entry in entries) and not self._rules.fit(prefix[:-1]):
                continue
            for entry in entries:
                name = prefix + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield name, entry.path
                elif entry.path not in passed_over and not (entry.name in CACHES and not self._rules.fit(name)):
                    waiting.append((f"{name}/", entry.path))

    def _data_folders(self, root: str) -> set[str]:
        """Return the folders of the run's data: what lies there is a datastore's, or goes to one."""
        spec = self._job.spec
        paths = [reference.path_on_compute for reference in spec.data_references.values()]
        paths += [given.path_on_compute for given in spec.datasets.values()]
        paths += [output.source for output in spec.outputs.values()]
        return {os.path.normpath(os.path.join(root, path)) for path in paths if path}


def _now_ns(folder: str) -> int:
    """Return the time by the clock of the folder's file system, which may be another machine's."""
    path = os.path.join(folder, f".runyard-{os.urandom(4).hex()}")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(fd).st_mtime_ns
    finally:
        os.close(fd)
        os.unlink(path)


def _sentence(lost: Dict[str, Tuple[int, int]], job: JobSpec, *, is_whole: bool) -> str:
    import shlex  # only for the one line at the end

    from runyard.core.machine.progress import shown_size

    ordered = sorted(lost, key=lambda top: (-lost[top][1], top))
    count, size = sum(found[0] for found in lost.values()), sum(found[1] for found in lost.values())
    shown = ", ".join(ordered[:SHOWN]) + (f" and {len(ordered) - SHOWN} more" if len(ordered) > SHOWN else "")
    outputs = " and ".join(f"./{name}" for name in job.spec.output_folders)
    where = f" outside {outputs}" if outputs else ""
    where += f" on node {job.node_rank}" if job.node_rank > 0 else ""
    files, were, them = ("1 file", "was", "it") if count == 1 else (f"{count:,} files", "were", "them")
    least = "" if is_whole else "At least "
    names = [top.rstrip("/") for top in ordered[:SHOWN]]
    options = " ".join(f"--keep {shlex.quote(name)}" for name in names)
    return (
        f"{least}{files} ({shown_size(size)}){where} {were} not kept: {shown}. "
        f"Keep {them} with `runyard submit {options}` or ScriptRunConfig(keep=[{', '.join(map(repr, names))}])."
    )
