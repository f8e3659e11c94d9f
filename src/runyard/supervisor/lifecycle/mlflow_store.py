"""Brings in what a program logged into an MLflow store of its own: someone gave MLflow's client a file address.

As with our plug-in, the store's first run is the run itself, and the others are child runs. Loaded at the end of a run
that left such a store.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence

from runyard.core.errors import InvalidArgument
from runyard.core.formats import journal
from runyard.core.names import MAX_METRIC_NAME
from runyard.core.records import MLFLOW_NAME, MLFLOW_NOTE
from runyard.core.specs import JobSpec
from runyard.imports.mlflow import open_mlflow
from runyard.imports.records import (
    FINISHED,
    MS,
    UNFINISHED,
    ImportedRun,
    ImportSource,
    PointPart,
    RunHead,
    SourceFile,
    in_order,
)
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.own_journal import OwnJournal, Point
from runyard.supervisor.shipping.work_tree import BROUGHT, WorkTree

logger = logging.getLogger(__name__)

_CHOSEN_BY_MLFLOW = re.compile(r"[a-z]+-[a-z]+-\d+")  # the name of a run that its program did not name
_FACTS = ("mlflow.source.", "mlflow.user", "mlflow.parentRunId", "mlflow.gitRepoURL", "mlflow.databricks")
_ASIDE = "mlflow"  # where journals are written before they are whole
_SAMPLE = 3
Warn = Callable[[str, str], None]


class _Planned(NamedTuple):
    """A run of the store and the run here that it becomes; `journal` names the segment that holds it."""

    head: RunHead
    run_id: str
    journal: str
    children: List[_Planned]


def bring_in(
    folder: RunFolder, job: JobSpec, tree: WorkTree, root: str, store: str, *, kept: Dict[str, int], warn: Warn
) -> None:
    """Bring in the runs that the program made in a store. May be repeated: what is there already stays as it is.

    A store may have come with the snapshot, or from an earlier attempt: its runs of before are left out.

    Args:
        root: the work folder.
        store: the store's path below it.
        kept: files that are not called lost, with their sizes; those of the store are added.
    """
    try:
        source = open_mlflow(os.path.join(root, store))
    except InvalidArgument as error:
        logger.info("%s is not read: %s", store, error)
        return
    try:
        earlier = [*tree.restored(root).names, *folder.read_object(BROUGHT)]
        heads = in_order(source.list_heads())
        if any(name == store or name.startswith(f"{store}/") for name in earlier):
            heads = [head for head in heads if head.created_ns // MS >= tree.restored(root).at_ns // MS]
        if heads:
            _Bringing(folder, job, store, source, warn).run(heads)
            for path in _files_at(os.path.join(os.path.realpath(root), store)):
                kept[path] = os.lstat(path).st_size
    finally:
        source.close()


class _Bringing:
    """One store on its way into the run."""

    def __init__(self, folder: RunFolder, job: JobSpec, store: str, source: ImportSource, warn: Warn) -> None:
        self._folder = folder
        self._job = job
        self._store = store
        self._source = source
        self._warn = warn
        self._counts: Dict[str, int] = {}
        self._notes: List[str] = []

    def run(self, heads: Sequence[RunHead]) -> None:
        own = self._plan(heads)
        waiting = [own]
        while waiting:
            planned = waiting.pop(0)
            self._write(planned, is_own=planned is own)
            waiting += planned.children
        self._tell(len(heads) - 1)

    def _plan(self, heads: Sequence[RunHead]) -> _Planned:
        """Return the run itself with its children, each below its parent."""
        own = _Planned(heads[0], self._job.run_id, self._journal_of(heads[0]), [])
        known = {own.head.id: own}
        for head in heads[1:]:
            planned = _Planned(head, f"{self._job.run_id[:200]}_{head.id[:24]}", self._journal_of(head), [])
            known[head.id] = planned
            known.get(head.parent_id or "", own).children.append(planned)
        return own

    def _journal_of(self, head: RunHead) -> str:
        """Return a segment's name that is the same whenever this store is brought in, so that nothing is twice."""
        node = f"n{self._job.node_rank}-" if self._job.node_rank > 0 else ""
        return f"{node}s-0-mlflow-{re.sub('[^a-z0-9]', '', head.id.lower())[:32]}.0.journal"

    @contextmanager
    def _journal(self, run_id: str, path: str) -> Iterator[OwnJournal]:
        """Give a journal that is at `path` after the block, as a whole; nothing is there after an error."""
        aside = RunFolder(self._folder.at(_ASIDE))
        shutil.rmtree(aside.path, ignore_errors=True)
        os.makedirs(aside.at("journal"), 0o700)
        with OwnJournal(aside, self._job, run_id=run_id) as own:
            yield own
        for name in os.listdir(aside.at("journal")):  # none where nothing was written
            os.rename(aside.at("journal", name), path)
        shutil.rmtree(aside.path, ignore_errors=True)

    def _write(self, planned: _Planned, *, is_own: bool) -> None:
        path = self._folder.at("journal", planned.journal)
        if os.path.lexists(path):
            return
        try:
            run = self._source.read_run(planned.head)
        except ValueError as error:
            self._notes.append(f"run {planned.head.id[:40]}: {error}")
            return
        with self._journal(planned.run_id, path) as own:
            self._count("parameter", len(run.parameters))
            for key, value in run.parameters.items():
                own.add(journal.pack_long(journal.PARAM, {"key": key, "value": value}))
            if is_own:
                self._add_facts(own, run)
            for part in run.read_points():
                if isinstance(part, PointPart):  # MLflow has no tables
                    self._count("metric value", len(part))
                    own.add_points(list(_points(part)))
            for file in run.files:
                self._add_file(own, file)
            for child in planned.children:
                own.add(journal.pack_long(journal.CHILD, self._child(child)))
            if not is_own and run.status != UNFINISHED:  # one that is still open is ended with the run
                end = {"status": run.status, "error": None, "t": time.monotonic_ns()}
                own.add(journal.pack_long(journal.END, end))
        self._notes += run.notes

    def _add_facts(self, own: OwnJournal, run: ImportedRun) -> None:
        properties = dict(run.properties)
        if run.status not in (FINISHED, UNFINISHED):
            properties["mlflow.status"] = "FAILED" if run.status == "Failed" else "KILLED"
        if properties:
            own.add(journal.pack_long(journal.PROPERTIES, {"add": properties}))
        tags = _tags(run)
        if tags:
            own.add(journal.pack_long(journal.TAGS, {"set": tags, "remove": []}))

    def _child(self, planned: _Planned) -> journal.Payload:
        try:
            run = self._source.read_run(planned.head)
            name, tags = run.name, _tags(run)
        except ValueError:  # told when its turn comes
            name, tags = "", {}
        return {"run_id": planned.run_id, "name": name, "tags": tags, "t": time.monotonic_ns()}

    def _add_file(self, own: OwnJournal, file: SourceFile) -> None:
        """Have a file of the store uploaded from where it lies; from a copy where that is outside of the run folder."""
        try:
            with file.open() as content:
                path = os.readlink(f"/proc/self/fd/{content.fileno()}")
                source = path
                if not path.startswith(os.path.realpath(self._folder.path) + os.sep):
                    path = self._folder.at("uploads", os.urandom(16).hex())
                    with open(path, "wb") as copy:
                        shutil.copyfileobj(content, copy)
        except (OSError, ValueError) as error:
            self._notes.append(f"{file.name[:200]}: {error}")
            return
        below = os.path.relpath(path, os.path.realpath(self._folder.path) if path == source else self._folder.path)
        self._count("file", 1)
        size = os.stat(path).st_size
        own.add(journal.pack_long(journal.FILE, {"name": file.name, "path": below, "size": size, "source": source}))

    def _count(self, what: str, number: int) -> None:
        self._counts[what] = self._counts.get(what, 0) + number

    def _tell(self, children: int) -> None:
        counted = [_counted(number, what) for what, number in self._counts.items() if number]
        brought = ", ".join(counted) or "no values"
        more = f" {children:,} further runs of it are child runs." if children > 1 else ""
        more = " A further run of it is a child run." if children == 1 else more
        self._warn(
            "mlflow",
            f"The script logged into an MLflow store of its own, {self._store}, because its tracking address was a "
            f"file. That store was brought into this run at its end: {brought}.{more} "
            "To see values while the run goes on, leave MLflow's tracking address as the run has it.",
        )
        if self._notes:
            shown = "; ".join(self._notes[:_SAMPLE])
            rest = f" and {len(self._notes) - _SAMPLE} more" if len(self._notes) > _SAMPLE else ""
            self._warn("mlflow", f"Not all of the MLflow store {self._store} could be brought in: {shown}{rest}.")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _files_at(place: str) -> Iterator[str]:
    if not os.path.isdir(place):
        yield place
    for parent, _, names in os.walk(place):
        yield from (os.path.join(parent, name) for name in names)


def _tags(run: ImportedRun) -> Dict[str, str]:
    """Return what the program said about a run; the run has its own facts of user and source."""
    tags = {key: value or "" for key, value in run.tags.items() if not key.startswith(_FACTS)}
    if run.name and not _CHOSEN_BY_MLFLOW.fullmatch(run.name):
        tags[MLFLOW_NAME] = run.name
    if run.description:
        tags[MLFLOW_NOTE] = run.description
    return tags


def _points(part: PointPart) -> Iterator[Point]:
    name = part.metric[:MAX_METRIC_NAME].replace("\0", "")
    offset = time.time_ns() - time.monotonic_ns() - MS // 2  # the same millisecond is read, whatever is rounded
    for step, wall_ns, value in zip(part.steps, part.times_ns, part.values):
        yield Point(name, step, wall_ns - offset, value)
