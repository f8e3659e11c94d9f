"""Turns the scalars that a program writes for TensorBoard into metrics of its run."""

from __future__ import annotations

import logging
import os
import time
from typing import Dict, Iterator, List, Sequence, Tuple

from runyard.core.formats.tfevents import Scalar, read_scalars
from runyard.core.names import MAX_METRIC_NAME
from runyard.core.specs import JobSpec
from runyard.supervisor.run_folder import RunFolder, tracked_folders
from runyard.supervisor.shipping.loops import ShippingLoop
from runyard.supervisor.shipping.own_journal import OwnJournal, Point

logger = logging.getLogger(__name__)

EVERY_S = 2.0
MARK = "tfevents"  # in the name of every such file
POSITIONS = "events.json"
MOST_BYTES = 16 << 20  # of one file in one step
MOST_NAMES = 1000


class EventFiles:
    """Reads the event files in a run's output folders into a journal. A metric is named by folder and tag: `logs/loss`.

    The main thread calls `start` at the launch and `stop` after the program's end; the thread `events` reads in
    between.
    """

    def __init__(self, folder: RunFolder, job: JobSpec) -> None:
        self._folder = folder
        self._folders = tracked_folders(folder, job)
        self._journal = OwnJournal(folder, job)
        self._positions: Dict[str, int] = {
            str(path): int(position) for path, position in folder.read_object(POSITIONS).items()
        }
        self._names: Dict[Tuple[str, str], str] = {}
        self._loop = ShippingLoop("events", self._step, every_s=EVERY_S, first_s=EVERY_S)

    def start(self) -> None:
        """Start the thread. Called once."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, then read all event files to their end."""
        self._loop.stop()
        try:
            while self._step():
                pass
        except OSError as error:
            logger.warning("event files could not be read to their end: %s", error)
        self._journal.close()

    def _step(self) -> bool:
        """Read what is new in all event files; return True when a file has more."""
        before = dict(self._positions)
        more = [self._read(path, place) for path, place in find_event_files(self._folders)]
        if self._positions != before:
            self._folder.write(POSITIONS, self._positions)
        return any(more)

    def _read(self, path: str, place: str) -> bool:
        position = self._positions.get(path, 0)
        with open(path, "rb") as file:
            file.seek(position)
            data = file.read(MOST_BYTES)
        read = read_scalars(data)
        points = [point for scalar in read.scalars for point in self._points(scalar, place)]
        if points:
            self._journal.add_points(points)
        # Damaged files, and files that are no event files, are not read again.
        self._positions[path] = position + (len(data) if read.is_damaged else read.end)
        return len(data) == MOST_BYTES and read.end > 0

    def _points(self, scalar: Scalar, place: str) -> Iterator[Point]:
        key = (place, scalar.tag)
        if key not in self._names and len(self._names) < MOST_NAMES:
            self._names[key] = f"{place}/{scalar.tag}"[:MAX_METRIC_NAME].replace("\0", "")
        if key in self._names:
            age_s = max(0.0, time.time() - scalar.wall_time)
            yield Point(self._names[key], scalar.step, time.monotonic_ns() - int(age_s * 1e9), scalar.value)


def find_event_files(folders: Sequence[Dict[str, str]]) -> List[Tuple[str, str]]:
    """Return (path, folder as the run's file names have it) of each event file, ordered by path."""
    found = []
    for of_node in folders:
        for name, root in of_node.items():
            for parent, _, files in os.walk(root):
                place = os.path.join(name, os.path.relpath(parent, root)) if parent != root else name
                found += [(os.path.join(parent, file), place) for file in files if MARK in file]
    return sorted((path, place) for path, place in found if os.path.isfile(path) and not os.path.islink(path))
