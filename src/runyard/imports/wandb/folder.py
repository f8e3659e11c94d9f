"""Reads folders of offline runs of Weights & Biases; what was synchronised from this machine has the same files."""

from __future__ import annotations

import json
import os
import re
import tempfile
from array import array
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Tuple

from runyard.core.errors import InvalidArgument
from runyard.core.names import RUN_ID, SYSTEM_METRICS
from runyard.imports.folder import is_inside, list_files, open_inside
from runyard.imports.records import (
    F8,
    FAILED,
    FINISHED,
    I8,
    JSON,
    NS,
    PART_POINTS,
    UNFINISHED,
    ArtifactPoint,
    ImportedRun,
    ImportSource,
    Meta,
    Part,
    PointPart,
    RunHead,
    SourceFile,
    short_id,
)
from runyard.imports.wandb import records

ENDING = ".wandb"
CONSOLE = "user_logs/std_log.txt"
NO_PROJECT = "uncategorized"  # as its server calls it
MOST_SUMMARY = 1 << 20  # characters
_RUN_FOLDER = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-.+")
_INT64 = range(-(1 << 63), 1 << 63)
_NOT_LOGGED = ("_step", "_timestamp", "_runtime", "_wandb")


class _Place(NamedTuple):
    """A run's folder and its record file."""

    folder: str
    file: str


def open_wandb(folder: str, *, follows_links: bool = False) -> WandbFolder:
    """Return a reader of a folder with runs, of one run's folder, or of its record file.

    Args:
        follows_links: take files that `wandb.save` linked to from a run's folder, wherever they lie.

    Raises:
        InvalidArgument: there is no such folder, or no run in it.
    """
    source = WandbFolder(folder, follows_links=follows_links)
    if not source.has_runs:
        raise InvalidArgument(
            f"`{folder}` has no runs of Weights & Biases.",
            why="There are no folders like `offline-run-20260101_120000-abc123` with a file `run-abc123.wandb` in it."
            if os.path.isdir(folder)
            else "There is no such folder.",
            hint="Name the folder `wandb` that a script made beside itself (WANDB_DIR), or one run's folder in it.",
        )
    return source


class WandbFolder(ImportSource):
    kind = "wandb"

    def __init__(self, folder: str, *, follows_links: bool = False) -> None:
        super().__init__()
        self._follows_links = follows_links
        self._root = os.path.realpath(os.path.dirname(folder) if os.path.isfile(folder) else folder)
        self._places = self._find()
        self._heads: List[RunHead] = []

    @property
    def has_runs(self) -> bool:
        """Whether a record file was found."""
        return bool(self._places)

    @property
    def id(self) -> str:
        return f"wandb-{short_id(*sorted(head.id for head in self.list_heads()))}"

    def list_heads(self) -> List[RunHead]:
        if not self._heads:
            found: Dict[str, RunHead] = {}
            for place in self._places:  # by time: a run that was resumed has several folders
                name = os.path.basename(place.file)
                try:
                    facts = self._facts(place)
                except (OSError, ValueError, IndexError) as error:
                    self.skip(name, str(error))
                    continue
                run_id = f"wandb_{re.sub(r'[^A-Za-z0-9_-]', '_', facts.project or NO_PROJECT)}_{facts.id}"
                if not RUN_ID.fullmatch(run_id):
                    self.skip(name, f"{run_id[:200]!r} is no run id")
                    continue
                head = found.setdefault(
                    run_id, RunHead(run_id, facts.project or NO_PROJECT, facts.started_ns, None, [])
                )
                head.place.append(place)
            self._heads = [*found.values()]
        return self._heads

    def read_run(self, head: RunHead) -> ImportedRun:
        notes: List[str] = []
        read = _RunRecords()
        files: Dict[str, SourceFile] = {}
        for place in head.place:
            self._read(place, read, notes)
            for file in self._files(place, notes):
                files[file.name] = file
        if read.console:
            text = b"".join(read.console)
            files[CONSOLE] = SourceFile(CONSOLE, len(text), lambda: _as_file(text), short_id(str(len(text))))
        facts = read.facts
        status = UNFINISHED if read.exit_code is None else FAILED if read.exit_code else FINISHED
        summary_points = [*read.iter_summary_points()]

        def points() -> Iterator[Part]:
            yield from read.iter_points({*files}, notes)
            yield from summary_points

        return ImportedRun(
            id=head.id,
            experiment=head.experiment,
            created_ns=head.created_ns,
            started_ns=head.created_ns,
            ended_ns=max(read.last_ns, head.created_ns),
            status=status,
            name=facts.name,
            description=facts.notes,
            tags=dict.fromkeys(facts.tags, ""),
            parameters={key: _shown(value) for key, value in _flat(read.config)},
            properties=self._properties(read),
            error=f"The program ended with exit code {read.exit_code}." if status == FAILED else "",
            notes=notes,
            read_points=points,
            files=[*files.values()],
        )

    def _find(self) -> List[_Place]:
        """Return the runs in the folder itself, in it, or in the folder `wandb` in it; by time."""
        found = []
        for folder in (self._root, os.path.join(self._root, "wandb")):
            found += self._record_files(folder)
            try:
                with os.scandir(folder) as entries:
                    names = sorted(entry.name for entry in entries if _RUN_FOLDER.fullmatch(entry.name))
            except OSError:
                continue
            for name in names:
                place = os.path.join(folder, name)
                if os.path.islink(place) and not is_inside(self._root, os.path.realpath(place)):
                    self.skip(name, "a link out of the folder")
                    continue
                inside = self._record_files(place)
                found += inside
                if not inside:
                    self.skip(name, "it has no record file (run-….wandb): of an old client that was online")
        return found

    def _record_files(self, folder: str) -> List[_Place]:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return []
        return [_Place(folder, os.path.join(folder, name)) for name in names if name.endswith(ENDING)]

    def _facts(self, place: _Place) -> records.RunFacts:
        with open_inside(self._root, place.file) as file:
            for record in records.iter_records(file, lambda why: None):
                kind, message = records.kind_of(record)
                if kind == records.RUN:
                    return records.read_run(message)
        raise ValueError("it does not say which run it is of: the program ended before it began")

    def _read(self, place: _Place, found: _RunRecords, notes: List[str]) -> None:
        name = os.path.basename(place.folder)

        def note(why: str) -> None:
            notes.append(f"{name}: {why}")

        unread = 0
        with open_inside(self._root, place.file) as file:
            for record in records.iter_records(file, note):
                try:
                    found.add(*records.kind_of(record))
                except (ValueError, IndexError, OverflowError):
                    unread += 1
        if unread:
            note(f"{unread:,} records cannot be read")

    def _files(self, place: _Place, notes: List[str]) -> List[SourceFile]:
        """Return the files of a run: media, and what was saved."""
        folder = os.path.join(place.folder, "files")

        def note(why: str) -> None:
            hint = " (--links takes it)" if "link out" in why else ""
            notes.append(why + hint)

        return list_files(os.sep if self._follows_links else self._root, folder, note)

    def _properties(self, read: _RunRecords) -> Dict[str, str]:
        facts = read.facts
        found = {
            "wandb.id": facts.id,
            "wandb.entity": facts.entity,
            "wandb.group": facts.group,
            "wandb.job_type": facts.job_type,
            "wandb.host": facts.host,
            "wandb.sweep": facts.sweep,
            "wandb.version": read.version,
        }
        summary = json.dumps({key: value for key, value in read.summary.items() if key != "_wandb"}, sort_keys=True)
        if read.summary and len(summary) <= MOST_SUMMARY:
            found["wandb.summary"] = summary
        return {key: value for key, value in found.items() if value}


class _LoggedSeries:
    """The values of one metric, in the order in which they were logged."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.times = array("q")
        self.values: List[Any] = []

    def add(self, step: int, time_ns: int, value: Any) -> None:
        self.steps.append(step)
        self.times.append(time_ns)
        self.values.append(value)


class _RunRecords:
    """What the record files of one run hold."""

    def __init__(self) -> None:
        self.facts = records.RunFacts("")
        self.config: Meta = {}
        self.summary: Meta = {}
        self.console: List[bytes] = []
        self.exit_code: Optional[int] = None
        self.version = ""
        self.last_ns = 0
        self._step = 0
        self._series: Dict[str, _LoggedSeries] = {}
        self._media: Dict[str, List[Tuple[str, str, int]]] = {}  # kind, file, time
        self._stats = 0

    def add(self, kind: int, message: bytes) -> None:
        """Take one record."""
        if kind == records.HISTORY:
            self._add_history(message)
        elif kind in (records.CONFIG, records.SUMMARY):
            self._add_items(self.config if kind == records.CONFIG else self.summary, message)
        elif kind == records.STATS:
            self._add_stats(message)
        elif kind == records.OUTPUT:
            self.console.append(records.read_line(message))
        elif kind == records.RUN:
            self.facts = records.read_run(message)
            self.exit_code = None  # it was resumed
            for path, value in self.facts.config:
                records.put(self.config, path, value)
        elif kind == records.EXIT:
            self.exit_code, seconds = records.read_exit(message)
            self.last_ns = max(self.last_ns, self.facts.started_ns + seconds * NS)
        elif kind == records.HEADER:
            self.version = records.read_version(message)

    def iter_points(self, files: Any, notes: List[str]) -> Iterator[Part]:
        """Yield the series, then media: a metric whose values are files is a file."""
        for name, series in self._series.items():
            kind = _kind_of(series.values)
            for at in range(0, len(series.values), PART_POINTS):
                end = at + PART_POINTS
                values: Any = series.values[at:end]
                if kind != JSON:
                    values = array("d" if kind == F8 else "q", values)
                yield PointPart(name, series.steps[at:end], series.times[at:end], values, kind)
        for name, found in self._media.items():
            metric = name if name not in self._series else f"{name} (files)"
            missing = 0
            for kind, file, time_ns in found:
                if file in files:
                    yield ArtifactPoint(metric, kind, file, time_ns)
                else:
                    missing += 1
            if missing:
                notes.append(f"metric {metric[:200]}: {missing:,} of its files are not in the folder")

    def iter_summary_points(self) -> Iterator[PointPart]:
        """Yield what the summary has and the history has not, each as a metric of one value."""
        for name, value in _flat({key: value for key, value in self.summary.items() if key not in _NOT_LOGGED}):
            if name not in self._series and name not in self._media and not isinstance(value, (dict, list)):
                kind = _kind_of([value])
                values: Any = [value] if kind == JSON else array("d" if kind == F8 else "q", [value])
                yield PointPart(name, array("q", [self._step]), array("q", [self.last_ns]), values, kind)

    def _add_items(self, tree: Meta, message: bytes) -> None:
        updates, removed = records.read_items(message)
        for path, value in updates:
            records.put(tree, path, value)
        for path in removed:
            records.drop(tree, path)

    def _add_history(self, message: bytes) -> None:
        values, number = records.read_history(message)
        step, seconds = values.get("_step", number), values.get("_timestamp")
        self._step = step if isinstance(step, int) and step in _INT64 else self._step + 1
        if isinstance(seconds, (int, float)):
            self.last_ns = max(self.last_ns, int(seconds * NS))
        time_ns = int(seconds * NS) if isinstance(seconds, (int, float)) else self.last_ns or self.facts.started_ns
        for name in _NOT_LOGGED:
            values.pop(name, None)
        for name, value in _flat(values):
            self._add_value(name, value, time_ns)

    def _add_value(self, name: str, value: Any, time_ns: int) -> None:
        files = _files_of(value)
        if files:
            kind = str(value["_type"]).replace("-file", "").partition("/")[0]
            self._media.setdefault(name, []).extend((kind, file, time_ns) for file in files)
            return
        if isinstance(value, (dict, list)):
            value = json.dumps(value, sort_keys=True)  # a histogram, say
        series = self._series.get(name)
        if series is None:
            series = self._series[name] = _LoggedSeries()
        series.add(self._step, time_ns, value)

    def _add_stats(self, message: bytes) -> None:
        at, found = records.read_stats(message)
        for path, value in found:
            if isinstance(value, (int, float)):
                name = SYSTEM_METRICS + ".".join(path)
                self._series.setdefault(name, _LoggedSeries()).add(self._stats, at, float(value))
        self._stats += 1


def _flat(tree: Meta, before: str = "") -> Iterator[Tuple[str, Any]]:
    """Yield (name with dots, value) of a tree of dicts; what has a type of theirs is a value."""
    for key, value in tree.items():
        name = f"{before}.{key}" if before else key
        if key == "_wandb" and not before:
            continue
        if isinstance(value, dict) and value and "_type" not in value:
            yield from _flat(value, name)
        else:
            yield name, value


def _files_of(value: Any) -> List[str]:
    """Return the files that a value of theirs names: an image, a table, several images."""
    if not isinstance(value, dict) or not isinstance(value.get("_type"), str):
        return []
    path, several = value.get("path"), value.get("filenames")
    if isinstance(path, str):
        return [path]
    return [name for name in several if isinstance(name, str)] if isinstance(several, list) else []


def _kind_of(values: List[Any]) -> str:
    """Return what the values are: newer clients write 1.0 as 1, so whole numbers among floats are floats."""
    types = set(map(type, values))
    if types == {int} and all(value in _INT64 for value in values):
        return I8
    return F8 if types and types <= {float, int} and _are_floats(values) else JSON


def _are_floats(values: List[Any]) -> bool:
    try:
        return all(float(value) is not None for value in values)
    except OverflowError:
        return False


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _as_file(text: bytes) -> BinaryIO:
    """Return some bytes as a file of this machine."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  # its reader closes it
    file.write(text)
    file.seek(0)
    return file
