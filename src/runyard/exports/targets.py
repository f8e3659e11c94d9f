"""What an export writes to, and what became of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional

from runyard.client.client import Client
from runyard.core.records import Experiment, ModelVersion
from runyard.exports.runs import ExportedRun

NEW, CHANGED, SAME = "new", "changed", "unchanged"


class Left(NamedTuple):
    """Something that is not there, and why."""

    name: str
    why: str


@dataclass
class ExportReport:
    runs: Dict[str, int] = field(default_factory=lambda: {NEW: 0, CHANGED: 0, SAME: 0})
    models: Dict[str, int] = field(default_factory=lambda: {NEW: 0, CHANGED: 0, SAME: 0})
    points: int = 0
    files: int = 0
    bytes: int = 0
    notes: Dict[str, List[str]] = field(default_factory=dict)  # what has no place there → the runs
    failed: List[Left] = field(default_factory=list)

    def note(self, run_id: str, why: str) -> None:
        self.notes.setdefault(why, []).append(run_id)

    def fail(self, name: str, why: str) -> None:
        self.failed.append(Left(name, why))


class ExportTarget(ABC):
    """A tracker that runs are written to. One thread uses it; every call may be repeated."""

    @abstractmethod
    def put_experiment(self, experiment: Experiment) -> str:
        """Return the id of the experiment of that name there, made when there is none."""

    @abstractmethod
    def find_mark(self, experiment_id: str, run_id: str) -> Optional[str]:
        """Return the digest of the run that is there, "" when it is not whole; None when there is none.

        Raises:
            Conflict: a run of that id is there, and was not exported from here.
        """

    @abstractmethod
    def put_run(self, client: Client, experiment_id: str, exported: ExportedRun, report: ExportReport) -> None:
        """Write the run, in place of an earlier export of it.

        Raises:
            OSError, ValueError: it cannot be written; the next can all the same.
        """

    @abstractmethod
    def put_model(self, client: Client, model: ModelVersion, report: ExportReport) -> str:
        """Write a version of a registered model; return NEW, CHANGED or SAME."""

    def close(self) -> None:  # noqa: B027  # a folder is not open
        """Let go of what is open."""
