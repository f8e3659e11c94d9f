"""Turns what a program writes for TensorBoard into metrics and parameters of its run.

Metrics have the tags' names. Where several folders have event files, the shortest part of the folder's path that tells
them apart stands in front (`EventNames`); where the program itself logs under that name, `tensorboard/` does. A name
never changes while the run goes on, and holds no date, so that runs can be compared.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import threading
import time
from collections import Counter
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from runyard.core.errors import NotFound, RunyardError
from runyard.core.formats.journal import PROPERTIES, pack_long
from runyard.core.formats.tfevents import Read, Scalar, read_scalars
from runyard.core.names import MAX_METRIC_NAME
from runyard.core.specs import JobSpec
from runyard.supervisor.run_folder import RunFolder, tracked_folders
from runyard.supervisor.shipping.connection import Connection
from runyard.supervisor.shipping.loops import ShippingLoop
from runyard.supervisor.shipping.own_journal import OwnJournal, Point
from runyard.supervisor.shipping.work_tree import BROUGHT, WorkTree, is_event_file

logger = logging.getLogger(__name__)

EVERY_S = 2.0
POSITIONS = "events.json"
MOST_BYTES = 16 << 20  # of one file in one step
MOST_NAMES = 1000
_MOST_NAME_BYTES = MAX_METRIC_NAME * 6 + 16  # as JSON, with its key
CLASHING = "tensorboard"  # in front of a name that the program itself logs under
_OWN_JOURNAL = re.compile(r"(?:n\d+-)?s-\d+-.*")
_LOGGED_NAME = re.compile(rb'"name":("(?:[^"\\]|\\.)*")')
_UNIX_TIME = re.compile(r"\d{9,10}(?:\.\d+)?")  # add_hparams() of torch makes such a folder below its writer's
_STAMP = re.compile(
    r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d(?:_.*)?"  # Nov16_09-28-30_host, of torch and transformers
    r"|\d{4}-?\d\d-?\d\d(?:[T_-]?\d\d[:-]?\d\d.*)?|\d\d-\d\d-\d\d|\d{9,10}(?:\.\d+)?"
)


class EventFile(NamedTuple):
    """An event file, its folder as the run's file names have it, and its own name there."""

    path: str
    place: str
    name: str


class EventNames:
    """Names metrics by folder and tag. One thread uses it.

    `decide` is given the folders that have scalars; it labels new ones together. The first folder that is alone has no
    label, nor has one that all others lie in.
    """

    def __init__(self) -> None:
        self.labels: Dict[str, str] = {}
        self._base: Tuple[str, ...] = ()
        self._ending = 0  # how many last parts of the first folders' paths are the same

    def decide(self, places: Sequence[str]) -> None:
        """Label folders that have none yet."""
        new = {place: _parts(place) for place in sorted(places) if place not in self.labels}
        if new and not self.labels:
            self._base = _common(list(new.values()))
            self._ending = _common_ending([parts[len(self._base) :] for parts in new.values()]) if len(new) > 1 else 0
        elif self.labels and not self._base:  # recalled: another supervisor decided on them
            alone = [place for place, label in self.labels.items() if not label]
            self._base = _common([_parts(place) for place in alone or self.labels])
        rest = {place: self._rest(parts) for place, parts in new.items()}
        for place, parts in rest.items():
            others = [other for key, other in rest.items() if key != place]
            self.labels[place] = self._label(parts, others)

    def _rest(self, parts: Tuple[str, ...]) -> Tuple[str, ...]:
        if parts[: len(self._base)] == self._base:
            parts = parts[len(self._base) :]
        return parts[: len(parts) - self._ending] if len(parts) > self._ending else parts

    def _label(self, parts: Tuple[str, ...], others: Sequence[Tuple[str, ...]]) -> str:
        """Return the shortest end of the path that no other folder has; dates are counted instead."""
        if not parts and "" not in self.labels.values():
            return ""
        number = len(self.labels) + 1
        taken = set(self.labels.values())
        for count in range(1, len(parts) + 1):
            if any(other[-count:] == parts[-count:] for other in others):
                continue
            label = "/".join(f"run_{number}" if _STAMP.fullmatch(part) else part for part in parts[-count:])
            if label not in taken:
                return label
        return f"run_{number}"


class LoggedNames:
    """The names that the program itself logs under, read from its journals as they grow. One thread uses it."""

    def __init__(self, folder: RunFolder) -> None:
        self._journals = folder.at("journal")
        self._read_to: Dict[str, int] = {}
        self._names: Set[str] = set()

    def find(self) -> Set[str]:
        """Return the names so far."""
        for entry in sorted(os.listdir(self._journals)):
            if not entry.endswith(".journal") or _OWN_JOURNAL.fullmatch(entry):
                continue
            with open(os.path.join(self._journals, entry), "rb") as file:
                file.seek(self._read_to.get(entry, 0))
                while self._take(file.read(MOST_BYTES)):
                    file.seek(-_MOST_NAME_BYTES, os.SEEK_CUR)  # a name may lie across the edge
                self._read_to[entry] = max(0, file.tell() - _MOST_NAME_BYTES)
        return self._names

    def _take(self, data: bytes) -> bool:
        """Take the names in some bytes; return whether more may follow."""
        for found in _LOGGED_NAME.findall(data):
            try:
                self._names.add(json.loads(found))
            except ValueError:
                continue
        return len(data) == MOST_BYTES


class EventFiles:
    """Reads the event files of a run into a journal.

    The main thread calls `start` at the launch and `stop` after the program's end; the thread `events` reads in
    between. `_lock` lets one of them work at a time.

    A folder is labelled one look after its first scalars were seen, because a program opens its writers one after
    another; until then its files wait, and no position is noted for them.

    In files that an earlier attempt had stored, what the server has already is passed over; `since` is the wall clock
    time before which scalars belong to other runs.
    """

    def __init__(
        self, folder: RunFolder, job: JobSpec, tree: WorkTree, connection: Connection, *, since: float = 0.0
    ) -> None:
        self._folder = folder
        self._folders = tracked_folders(folder, job)
        self._tree = tree
        self._since = since
        self._journal = OwnJournal(folder, job)
        self._positions: Dict[str, int] = {}
        self._names = EventNames()
        self._recall()
        self._logged = LoggedNames(folder)
        self._metrics: Dict[Tuple[str, str], str] = {}
        self._seen: Dict[str, int] = {}  # looks since a folder's first scalars were seen
        self._sizes: Dict[str, int] = {}  # of files without scalars, when they were last looked at
        self._earlier = _EarlierPoints(folder, job, connection)
        self._lock = threading.Lock()
        self._loop = ShippingLoop("events", self._step, every_s=EVERY_S, first_s=EVERY_S)

    def start(self) -> None:
        """Start the thread. Called once."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, then read all event files to their end."""
        self._loop.stop()
        self.catch_up()
        self._journal.close()

    def catch_up(self) -> None:
        """Read all event files to their end, now."""
        try:
            while self._step(is_last=True):
                pass
        except (OSError, RunyardError) as error:
            logger.warning("event files could not be read to their end: %s", error)

    def _step(self, *, is_last: bool = False) -> bool:
        """Read what is new in all event files; return True when a file has more."""
        with self._lock:
            return self._read_all(is_last=is_last)

    def _read_all(self, *, is_last: bool) -> bool:
        before = (dict(self._positions), dict(self._names.labels))
        files = self._find(fresh=is_last)
        self._label(files, is_last=is_last)
        more = [self._read(file) for file in files if file.place in self._names.labels]
        if (self._positions, self._names.labels) != before:
            self._folder.write(POSITIONS, {"positions": self._positions, "labels": self._names.labels})
        return any(more)

    def _recall(self) -> None:
        """Take up what an earlier supervisor of this attempt noted; up to 0.2 there were only positions."""
        known = self._folder.read_object(POSITIONS)
        positions, labels = known.get("positions", known), known.get("labels", {})
        self._positions = {str(path): int(at) for path, at in positions.items()}
        self._names.labels.update({str(place): str(label) for place, label in labels.items()})

    def _find(self, *, fresh: bool) -> List[EventFile]:
        found = [EventFile(path, _place(name), name) for path, name in iter_event_files(self._folders)]
        for index in range(len(self._tree.roots)):
            kept = self._tree.list_kept(index, fresh=fresh)
            found += [EventFile(file.path, _place(file.name), file.name) for file in kept if is_event_file(file.name)]
        return sorted(file for file in found if self._is_own(file.path))

    def _is_own(self, path: str) -> bool:
        try:
            status = os.lstat(path)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_mtime >= self._since

    def _label(self, files: Sequence[EventFile], *, is_last: bool) -> None:
        """Label the folders whose scalars were seen before; at the end, all that have some."""
        for place in sorted({file.place for file in files} - set(self._names.labels)):
            if place in self._seen or any(self._has_scalars(file) for file in files if file.place == place):
                self._seen[place] = self._seen.get(place, 0) + 1
        if is_last or any(count > 1 for count in self._seen.values()):
            for place in sorted(self._seen):
                label = self._earlier.find_label(place, [file for file in files if file.place == place])
                if label is not None:
                    self._names.labels[place] = label
            self._names.decide(list(self._seen))
            self._seen.clear()

    def _has_scalars(self, file: EventFile) -> bool:
        size = os.path.getsize(file.path)
        if self._sizes.get(file.path) == size:
            return False
        self._sizes[file.path] = size
        read = _read_part(file.path, 0)[0]
        return bool(self._own(read)) or bool(read.parameters)

    def _own(self, read: Read) -> List[Scalar]:
        return [scalar for scalar in read.scalars if scalar.wall_time >= self._since]

    def _read(self, file: EventFile) -> bool:
        position = self._positions.get(file.path, 0)
        read, size = _read_part(file.path, position)
        scalars = self._earlier.without_stored(file, position, self._own(read), self._metric)
        points = [point for scalar in scalars for point in self._points(scalar, file.place)]
        if points:
            self._journal.add_points(points)
        if read.parameters:
            self._journal.add(pack_long(PROPERTIES, {"add": {}, "parameters": dict(read.parameters)}))
        # Damaged files, and files that are no event files, are not read again.
        self._positions[file.path] = position + (size if read.is_damaged else read.end)
        return size == MOST_BYTES and read.end > 0

    def _points(self, scalar: Scalar, place: str) -> Iterator[Point]:
        name = self._metric(place, scalar.tag)
        if name:
            age_s = max(0.0, time.time() - scalar.wall_time)
            yield Point(name, scalar.step, time.monotonic_ns() - int(age_s * 1e9), scalar.value)

    def _metric(self, place: str, tag: str) -> str:
        """Return the metric's name, "" when there are too many."""
        key = (place, tag)
        if key not in self._metrics and len(self._metrics) < MOST_NAMES:
            name = metric_name(self._names.labels[place], tag)
            # Two series of one name would be one with every value twice.
            self._metrics[key] = metric_name(CLASHING, name) if name in self._logged.find() else name
        return self._metrics.get(key, "")


class _EarlierPoints:
    """What earlier attempts read from the event files that were brought back, as the server has it."""

    def __init__(self, folder: RunFolder, job: JobSpec, connection: Connection) -> None:
        self._sizes: Dict[str, int] = dict(folder.read_object(BROUGHT)) if job.attempt > 1 else {}
        self._labels: Dict[Tuple[str, ...], str] = {}  # by what a folder's name is without its numbers
        self._run_id = job.run_id
        self._connection = connection
        self._stored: Dict[str, Counter[Tuple[int, str]]] = {}

    def find_label(self, place: str, files: Sequence[EventFile]) -> Optional[str]:
        """Return the label under which an earlier attempt stored the folder's scalars; None when none did.

        A library that finds the folder of the earlier attempt opens the next one (`version_1`, or one with the date of
        now): the series goes on there.
        """
        shape = _shape(place)
        for file in files:
            if file.name not in self._sizes:
                continue
            scalars = _read_part(file.path, 0)[0].scalars[:20]
            for label in _labels(place):
                if any(_key(one) in self._points(metric_name(label, one.tag)) for one in scalars):
                    return self._labels.setdefault(shape, label)
        return self._labels.get(shape)

    def without_stored(
        self, file: EventFile, position: int, scalars: List[Scalar], metric: Callable[[str, str], str]
    ) -> List[Scalar]:
        """Return the scalars without those that the server has."""
        if position >= self._sizes.get(file.name, 0):
            return scalars
        left = []
        for scalar in scalars:
            points = self._points(metric(file.place, scalar.tag))
            if points[_key(scalar)] > 0:
                points[_key(scalar)] -= 1
            else:
                left.append(scalar)
        return left

    def _points(self, metric: str) -> Counter[Tuple[int, str]]:
        if metric not in self._stored:
            self._stored[metric] = self._connection.insist(lambda: self._ask(metric))
        return self._stored[metric]

    def _ask(self, metric: str) -> Counter[Tuple[int, str]]:
        try:
            points = self._connection.client.runs.metric_series(self._run_id, metric)
        except NotFound:
            return Counter()
        return Counter((int(step), repr(value)) for step, value in zip(points.steps, points.values))


def iter_event_files(folders: Sequence[Dict[str, str]]) -> Iterator[Tuple[str, str]]:
    """Yield path and name of each event file in the output folders."""
    for of_node in folders:
        for name, root in of_node.items():
            for parent, _, files in os.walk(root):
                place = os.path.join(name, os.path.relpath(parent, root)) if parent != root else name
                yield from ((os.path.join(parent, file), f"{place}/{file}") for file in files if is_event_file(file))


def metric_name(label: str, tag: str) -> str:
    """Return the name of a tag's metric."""
    return (f"{label}/{tag}" if label else tag)[:MAX_METRIC_NAME].replace("\0", "")


def _read_part(path: str, position: int) -> Tuple[Read, int]:
    with open(path, "rb") as file:
        file.seek(position)
        data = file.read(MOST_BYTES)
    return read_scalars(data), len(data)


def _key(scalar: Scalar) -> Tuple[int, str]:
    return scalar.step, repr(scalar.value)


def _place(name: str) -> str:
    """Return the folder of an event file; that of hyperparameters belongs to the folder above it."""
    parts = name.split("/")[:-1]
    return "/".join(parts[:-1] if parts and _UNIX_TIME.fullmatch(parts[-1]) else parts)


def _parts(place: str) -> Tuple[str, ...]:
    return tuple(part for part in place.split("/") if part not in ("", "."))


def _shape(place: str) -> Tuple[str, ...]:
    return tuple("@" if _STAMP.fullmatch(part) else re.sub(r"\d+", "#", part) for part in _parts(place))


def _labels(place: str) -> List[str]:
    """Return the labels that a folder can have had, the shortest first."""
    parts = _parts(place)
    spans = [(start, end) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)]
    return ["", *("/".join(parts[start:end]) for start, end in sorted(spans, key=lambda span: span[1] - span[0]))]


def _common(paths: Sequence[Tuple[str, ...]]) -> Tuple[str, ...]:
    first = min(paths, key=len)
    count = 0
    while count < len(first) and all(path[count] == first[count] for path in paths):
        count += 1
    return first[:count]


def _common_ending(paths: Sequence[Tuple[str, ...]]) -> int:
    """Return how many last parts all paths share, so that each keeps one part at least."""
    most = min(map(len, paths)) - 1
    count = 0
    while count < most and len({path[-1 - count] for path in paths}) == 1:
        count += 1
    return count
