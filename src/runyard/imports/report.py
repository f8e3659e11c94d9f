"""What became of an import, counted while it goes on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Dict, List

from runyard.imports.records import Skipped

NEW, GROWN, SAME = "new", "grown", "unchanged"


@dataclass
class ImportReport:
    """Counts by outcome, and what was left out. Any thread adds to it."""

    runs: Dict[str, int] = field(default_factory=lambda: {NEW: 0, GROWN: 0, SAME: 0})
    points: int = 0  # stored by this import
    files: int = 0
    bytes: int = 0
    models: Dict[str, int] = field(default_factory=lambda: {NEW: 0, SAME: 0})
    assets: Dict[str, int] = field(default_factory=lambda: {NEW: 0, SAME: 0})
    snapshots: int = 0
    noted: int = 0  # runs with notes of what was left out of them
    skipped: List[Skipped] = field(default_factory=list)  # what the source holds and is no run: by its reader
    failed: List[Skipped] = field(default_factory=list)  # what should be here and is not
    verified: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, counts: Dict[str, int], outcome: str, number: int = 1) -> None:
        with self._lock:
            counts[outcome] = counts.get(outcome, 0) + number

    def add(self, *, points: int = 0, files: int = 0, size: int = 0, noted: int = 0, snapshots: int = 0) -> None:
        with self._lock:
            self.snapshots += snapshots
            self.points += points
            self.files += files
            self.bytes += size
            self.noted += noted

    def note(self, name: str, why: str) -> None:
        """Say what was left out of something that is here."""
        with self._lock:
            self.skipped.append(Skipped(name, why))

    def fail(self, name: str, why: str) -> None:
        with self._lock:
            self.failed.append(Skipped(name, why))
