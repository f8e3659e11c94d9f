"""What a reader of another tracker's history yields: runs with columns of points, files that can be opened, models.

A reader lists the heads of all its runs first, so that runs can be made in the order of their creation with parents
before children, and reads each run when its turn comes. What a reader leaves out it names in `skipped` or in the
run's `notes`; nothing is left out in silence.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

F8, I8, JSON = "f8", "i8", "json"
PART_POINTS = 100_000  # of one part: what is held in memory at a time
FINISHED, FAILED, KILLED, UNFINISHED = "Completed", "Failed", "Canceled", "Unfinished"
Meta = Dict[str, Any]  # a document of the source, whatever it holds
NS = 1_000_000_000
MS = 1_000_000  # ns

Numbers = Union["array[float]", "array[int]"]  # an array takes no brackets when the program runs


class RunHead(NamedTuple):
    """What is known of a run before it is read. `place` is the reader's own."""

    id: str
    experiment: str
    created_ns: int
    parent_id: Optional[str] = None
    place: Any = None


@dataclass
class PointPart:
    """Consecutive points of one metric, in the source's order; a long series comes in several parts."""

    metric: str
    steps: array[int]
    times_ns: array[int]
    values: Union[Numbers, List[Any]]
    kind: str = F8

    def __len__(self) -> int:
        return len(self.steps)


@dataclass
class TableRows:
    """Rows of a table metric: every column has one value per row, None where the row has none."""

    metric: str
    columns: Dict[str, List[Any]]
    times_ns: List[int]

    def __len__(self) -> int:
        return len(self.times_ns)


@dataclass
class ArtifactPoint:
    """A metric that is a file of the run, such as an image. `kind`: image, confusion_matrix, …"""

    metric: str
    kind: str
    file: str
    time_ns: int

    def __len__(self) -> int:
        return 1


Part = Union[PointPart, TableRows, ArtifactPoint]


class SourceFile(NamedTuple):
    """A file of a run by the name it gets there. `stamp` changes when the content does.

    Any thread may call `open`, which gives a regular file of this machine.
    """

    name: str
    size: int
    open: Callable[[], BinaryIO]
    stamp: str = ""


@dataclass
class ImportedRun:
    """A run of the source. PointPart and files are read when they are asked for."""

    id: str
    experiment: str
    created_ns: int
    status: str = FINISHED  # FINISHED, FAILED, KILLED, or UNFINISHED: the source says that it still runs
    name: str = ""
    description: str = ""
    started_ns: Optional[int] = None
    ended_ns: Optional[int] = None
    parent_id: Optional[str] = None
    user: str = ""
    type: str = "imported"
    archived: bool = False
    tags: Dict[str, Optional[str]] = field(default_factory=dict)
    parameters: Dict[str, str] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    error: str = ""
    error_code: str = ""
    notes: List[str] = field(default_factory=list)  # what was left out of this run, and why
    read_points: Callable[[], Iterator[Part]] = field(default=lambda: iter(()))
    files: List[SourceFile] = field(default_factory=list)
    snapshot_zip: Optional[SourceFile] = None
    definition: Meta = field(default_factory=dict)  # Azure's `runDefinition`

    def describe(self) -> bytes:
        """Return all but points and content as bytes that are equal for equal runs."""
        plain = {
            name: getattr(self, name)
            for name in (
                "id", "experiment", "created_ns", "status", "name", "description", "started_ns", "ended_ns",
                "parent_id", "user", "type", "archived", "tags", "parameters", "properties", "error", "error_code",
            )
        }  # fmt: skip
        files = sorted((file.name, file.size, file.stamp) for file in self.files)
        more: List[Any] = [self.definition] if self.definition else []
        more += [self.snapshot_zip.name] if self.snapshot_zip is not None else []
        return json.dumps([plain, files, *more], sort_keys=True).encode()


@dataclass
class ImportedModel:
    """One version of a registered model. Its content is files of a run at `run_path`, or `files` of its own."""

    name: str
    version: int
    created_ns: int
    updated_ns: int
    description: str = ""
    tags: Dict[str, str] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    aliases: List[str] = field(default_factory=list)
    run_id: Optional[str] = None
    run_path: str = ""
    files: List[SourceFile] = field(default_factory=list)
    user: str = ""
    framework: str = ""
    framework_version: str = ""
    experiment: str = ""
    datasets: List[List[str]] = field(default_factory=list)  # [what it was for, the dataset's id]
    about: str = ""  # the description of the name


@dataclass
class ImportedAsset:
    """One version of another named thing: `kind` is `environment`, `dataset` or `datastore`.

    `version` 0: the source has none, or one that is no number; `document` is the source's own.
    """

    kind: str
    name: str
    version: int
    document: Meta
    created_ns: int = 0


class ImportedExperiment(NamedTuple):
    """What a source says of an experiment, beyond its runs."""

    name: str
    tags: Dict[str, str]
    is_archived: bool = False


class Skipped(NamedTuple):
    name: str
    why: str


class ImportSource(ABC):
    """A history that can be read. One thread uses it; `close` may be repeated."""

    kind = ""  # mlflow, tensorboard, wandb, azureml
    version = ""  # of the program that wrote it, as far as it is known

    def __init__(self) -> None:
        self.skipped: List[Skipped] = []

    @property
    @abstractmethod
    def id(self) -> str:
        """What names this source on every machine: no path and no host is in it."""

    @abstractmethod
    def list_heads(self) -> List[RunHead]:
        """Return the heads of all runs; those that cannot be read are named in `skipped`."""

    @abstractmethod
    def read_run(self, head: RunHead) -> ImportedRun:
        """Return one run. Raises OSError or ValueError when it cannot be read; the next can be read all the same."""

    def iter_experiments(self) -> Iterator[ImportedExperiment]:
        """Yield the experiments of which more is known than their names."""
        return iter(())

    def iter_models(self) -> Iterator[ImportedModel]:
        """Yield the registered models, versions in order."""
        return iter(())

    def iter_assets(self) -> Iterator[ImportedAsset]:
        """Yield environments and datasets."""
        return iter(())

    def close(self) -> None:  # noqa: B027  # most sources hold nothing open
        """Let go of what is open."""

    def skip(self, name: str, why: str) -> None:
        self.skipped.append(Skipped(name, why))


def in_order(heads: List[RunHead]) -> List[RunHead]:
    """Return heads by creation, each parent before its children; a parent that is not there does not matter."""
    by_id = {head.id: head for head in heads}
    done: Dict[str, None] = {}
    for head in sorted(heads, key=lambda head: (head.created_ns, head.id)):
        line: List[str] = []
        at: Optional[str] = head.id
        while at is not None and at in by_id and at not in done and at not in line:
            line.append(at)
            at = by_id[at].parent_id
        for run_id in reversed(line):
            done[run_id] = None
    return [by_id[run_id] for run_id in done]


def short_id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


class PointCollector:
    """Collects points of one metric and gives them out in parts."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self._rows: List[Tuple[int, int, float]] = []

    def add(self, step: int, time_ns: int, value: float) -> Optional[PointPart]:
        """Add a point; return a part when enough are there."""
        self._rows.append((step, time_ns, value))
        return self.flush() if len(self._rows) >= PART_POINTS else None

    def flush(self) -> Optional[PointPart]:
        if not self._rows:
            return None
        steps, times, values = zip(*self._rows)
        self._rows = []
        return PointPart(self.metric, array("q", steps), array("q", times), array("d", values))
