"""Reads a log folder of TensorBoard: each folder that has event files is a run.

Numbers are points, texts are points too, hyperparameters are parameters. The event files themselves are files of the
run, so that images, histograms and the rest are shown by TensorBoard as before.
"""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from runyard.core.errors import InvalidArgument
from runyard.core.formats.tfevents import OtherValue, Read, Scalar, describe_other, first_time, read_scalars
from runyard.core.names import EVENT_FILE_MARK, stored_file_name
from runyard.imports.folder import iter_names, open_inside
from runyard.imports.records import (
    FINISHED,
    JSON,
    NS,
    PART_POINTS,
    ImportedRun,
    ImportSource,
    PointPart,
    RunHead,
    SourceFile,
    short_id,
)

LOGS = "logs"  # where TensorBoard of our SDK looks for a run's event files
PART_BYTES = 16 << 20
FIRST_BYTES = 1 << 16  # the first record is a short one
_UNIX_TIME = re.compile(r"\d{9,10}(?:\.\d+)?")  # add_hparams() of torch makes such a folder below its writer's
_WORDS = {"images": "images", "histograms": "histograms", "audio": "audio", "graph": "graphs", "pr_curves": "PR curves"}
_NO_VALUES = ("hparams", "custom_scalars")  # how pages are laid out; hyperparameters are read
_INT64 = range(-(1 << 63), 1 << 63)


class _EventFile(NamedTuple):
    """An event file: its path, its name below the log folder, its size and time of change."""

    path: str
    name: str
    size: int
    stamp: str


def open_tensorboard(folder: str) -> EventFolder:
    """Return a reader of a log folder.

    Raises:
        InvalidArgument: there is no such folder, or it has no event files.
    """
    source = EventFolder(folder)
    if not source.has_runs:
        is_folder = os.path.isdir(folder)
        raise InvalidArgument(
            f"`{folder}` is no log folder of TensorBoard.",
            why="No file in it or below is an event file (`events.out.tfevents.…`)."
            if is_folder
            else "There is no such folder.",
            hint="Name the folder that `tensorboard --logdir` is started with.",
        )
    return source


class EventFolder(ImportSource):
    kind = "tensorboard"

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._root = os.path.realpath(folder)
        self._name = os.path.basename(self._root) or "tensorboard"
        self._folders = self._find()
        self._heads: List[RunHead] = []

    @property
    def has_runs(self) -> bool:
        """Whether there is an event file."""
        return bool(self._folders)

    @property
    def id(self) -> str:
        return f"tensorboard-{short_id(self._name, *(head.id for head in self.list_heads()))}"

    def list_heads(self) -> List[RunHead]:
        if not self._heads:
            for place, files in sorted(self._folders.items()):
                began = self._begin(files)
                if began is None:
                    self.skip(place, "its event files are empty or damaged from the start")
                    continue
                run_id = f"tensorboard_{short_id(self._name, place, str(began))}"
                self._heads.append(RunHead(run_id, self._name, began, None, (place, files)))
        return self._heads

    def read_run(self, head: RunHead) -> ImportedRun:
        place, files = head.place
        notes: List[str] = []
        found = _EventsOfRun()
        for file in files:
            self._read(file, found, notes)
        found.note_others(notes)
        return ImportedRun(
            id=head.id,
            experiment=head.experiment,
            created_ns=head.created_ns,
            started_ns=head.created_ns,
            ended_ns=max(found.last_ns, head.created_ns),
            status=FINISHED,
            name=self._name if place == "." else place,
            parameters=found.parameters,
            properties={"tensorboard.folder": place},
            notes=notes,
            read_points=found.iter_points,
            files=[self._file(file, place) for file in files],
        )

    def _find(self) -> Dict[str, List[_EventFile]]:
        """Return the event files by their folders; other files are counted."""
        found: Dict[str, List[_EventFile]] = {}
        others = 0
        if not os.path.isdir(self._root):
            return found
        for name, status in iter_names(self._root, self._root, lambda why: self.skip("a file", why)):
            if EVENT_FILE_MARK not in name.rpartition("/")[2]:
                others += 1
                continue
            file = _EventFile(os.path.join(self._root, name), name, status.st_size, str(status.st_mtime_ns))
            found.setdefault(_place(name), []).append(file)
        if found and others:
            self.skip(f"{others:,} other files", "they are no event files")
        return found

    def _begin(self, files: List[_EventFile]) -> Optional[int]:
        """Return ns of the first event; None when no event can be read."""
        for file in files:
            try:
                with open_inside(self._root, file.path) as content:
                    time = first_time(content.read(FIRST_BYTES))
                if time is not None:
                    return int(time * NS)
            except (OSError, ValueError, OverflowError):
                continue
        return None

    def _read(self, file: _EventFile, found: _EventsOfRun, notes: List[str]) -> None:
        base, rest = 0, b""
        try:
            with open_inside(self._root, file.path) as content:
                while True:
                    data = rest + content.read(PART_BYTES)
                    read = read_scalars(data, with_others=True)
                    found.add(read)
                    if read.is_damaged:
                        notes.append(
                            f"{file.name} is damaged from byte {base + read.end:,} on; what comes before is here"
                        )
                        return
                    if len(data) - len(rest) < PART_BYTES:
                        if read.end < len(data):
                            notes.append(f"{file.name}: its last record is not whole")
                        return
                    base, rest = base + read.end, data[read.end :]
        except (OSError, ValueError) as error:
            notes.append(f"{file.name}: {error}")

    def _file(self, file: _EventFile, place: str) -> SourceFile:
        below = file.name if place == "." else file.name[len(place) + 1 :]
        path = file.path
        return SourceFile(
            stored_file_name(f"{LOGS}/{below}"), file.size, lambda: open_inside(self._root, path), file.stamp
        )


class _TagSeries:
    """The points of one tag, in the order in which they were written."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.times = array("q")
        self.values = array("d")

    def add(self, scalar: Scalar) -> None:
        self.steps.append(scalar.step if scalar.step in _INT64 else 0)
        self.times.append(int(scalar.wall_time * NS))
        self.values.append(scalar.value)

    def purge(self, step: int) -> int:
        """Leave out the points from that step on; return how many they were."""
        kept = [at for at, known in enumerate(self.steps) if known < step]
        gone = len(self.steps) - len(kept)
        if gone:
            self.steps = array("q", [self.steps[at] for at in kept])
            self.times = array("q", [self.times[at] for at in kept])
            self.values = array("d", [self.values[at] for at in kept])
        return gone


class _EventsOfRun:
    """What the event files of one run hold."""

    def __init__(self) -> None:
        self.parameters: Dict[str, str] = {}
        self.last_ns = 0
        self._series: Dict[str, _TagSeries] = {}
        self._texts: Dict[str, List[Tuple[int, int, str]]] = {}
        self._others: Dict[str, Set[str]] = {}
        self._plugins: Dict[str, str] = {}  # a tag's first value alone says what it is
        self._purged = 0
        self._unreadable: Counter[str] = Counter()

    def add(self, read: Read) -> None:
        restarts = list(read.restarts)
        for at, scalar in enumerate(read.scalars):
            while restarts and restarts[0].at <= at:
                self._purge(restarts.pop(0).step)
            series = self._series.get(scalar.tag)
            if series is None:
                series = self._series[scalar.tag] = _TagSeries()
            try:
                series.add(scalar)
            except (OverflowError, ValueError):
                self._unreadable[scalar.tag] += 1
        for restart in restarts:
            self._purge(restart.step)
        if read.scalars:
            self.last_ns = max(self.last_ns, int(read.scalars[-1].wall_time * NS))
        self.parameters.update(read.parameters)
        for other in read.others:
            self._add_other(other)

    def iter_points(self) -> Iterator[PointPart]:
        for tag, series in self._series.items():
            for at in range(0, len(series.steps), PART_POINTS):
                end = at + PART_POINTS
                yield PointPart(tag, series.steps[at:end], series.times[at:end], series.values[at:end])
        for tag, rows in self._texts.items():
            name = f"{tag} (text)" if tag in self._series else tag
            steps, times, values = zip(*rows)
            yield PointPart(name, array("q", steps), array("q", times), list(values), JSON)

    def note_others(self, notes: List[str]) -> None:
        """Say what is in the event files and no point here."""
        for kind, tags in sorted(self._others.items()):
            notes.append(
                f"{_WORDS.get(kind, kind or 'values of other kinds')} of {len(tags):,} tags are in the event files, "
                "which are files of this run"
            )
        if self._purged:
            notes.append(
                f"{self._purged:,} points that a restart of the program replaced were left out, as TensorBoard does"
            )
        for tag, count in sorted(self._unreadable.items()):
            notes.append(f"metric {tag[:200]}: {count:,} points have no time or step that can be kept")

    def _purge(self, step: int) -> None:
        self._purged += sum(series.purge(step) for series in self._series.values())

    def _add_other(self, other: OtherValue) -> None:
        try:
            tag, kind, texts = describe_other(other.message)
        except (ValueError, IndexError):
            tag, kind, texts = "", "", None
        kind = self._plugins.setdefault(tag, kind) if tag else kind
        if kind in _NO_VALUES or tag.startswith("_hparams_/"):
            return
        if texts and kind in ("text", ""):
            self._texts.setdefault(tag, []).append((other.step, int(other.wall_time * NS), "\n".join(texts)))
        else:
            self._others.setdefault(kind, set()).add(tag)


def _place(name: str) -> str:
    """Return the folder of an event file; that of hyperparameters belongs to the folder above it."""
    parts = name.split("/")[:-1]
    if len(parts) > 1 and _UNIX_TIME.fullmatch(parts[-1]):
        parts = parts[:-1]
    return "/".join(parts) or "."
