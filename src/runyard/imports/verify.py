"""Compares what is stored with its source: every series by count, first, last, least and greatest; files by hash."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from runyard.client.client import Client
from runyard.core.errors import NotFound
from runyard.core.names import MAX_METRIC_NAME
from runyard.core.records import MetricInfo
from runyard.imports.frames import NameFitter
from runyard.imports.records import ArtifactPoint, ImportedRun, ImportSource, PointPart, RunHead, SourceFile, TableRows
from runyard.imports.report import ImportReport
from runyard.imports.snapshots import read_archive
from runyard.imports.uploads import ALL, wanted_files

_PIECE = 1 << 20


@dataclass(frozen=True)
class SeriesFacts:
    """What is compared of a series. NaN is None, so that it equals itself."""

    count: int
    first: Any
    last: Any
    least: Any
    greatest: Any


Facts = Union[SeriesFacts, int, str]


def verify_run(client: Client, source: ImportSource, head: RunHead, which_files: str, report: ImportReport) -> None:
    """Read one run of the source and here, and put differences into the report."""
    run = source.read_run(head)
    try:
        here = {info.name: info for wanted in (False, True) for info in client.runs.metrics(run.id, system=wanted)}
        stored = {file.name: file for file in client.runs.files(run.id)}
    except NotFound:
        report.fail(f"run {run.id}", "it is not here")
        return
    faults = _compare_series(client, run, here)
    for file in wanted_files(run.files, which_files):
        found = stored.get(file.name)
        if found is None:
            faults.append(f"file {file.name[:200]} is not here")
            continue
        digest, size = hashlib.sha256(), 0
        with file.open() as content:
            for piece in iter(lambda: content.read(_PIECE), b""):
                digest.update(piece)
                size += len(piece)
        if (found.sha256, found.size) != (digest.hexdigest(), size):
            faults.append(f"file {file.name[:200]} has other content here")
    if run.snapshot_zip is not None and which_files == ALL:
        faults += _compare_snapshot(client, run.id, run.snapshot_zip)
    for fault in faults:
        report.fail(f"run {run.id}", fault)
    if not faults:
        report.verified += 1


def _compare_snapshot(client: Client, run_id: str, archive: SourceFile) -> List[str]:
    """Compare the source folder by the hash of its tree."""
    found = client.runs.get(run_id).snapshot_root
    try:
        return [] if read_archive(archive).root == found else ["its snapshot is not here"]
    except (OSError, ValueError) as error:
        return [f"its snapshot: {error}"]


def _compare_series(client: Client, run: ImportedRun, here: Mapping[str, MetricInfo]) -> List[str]:
    faults = []
    for name, wanted in _series_of(run).items():
        if name not in here:
            faults.append(f"metric {name[:200]} is not here")
            continue
        if isinstance(wanted, int):
            if here[name].count != wanted:
                faults.append(f"metric {name[:200]} has {here[name].count:,} rows here and {wanted:,} there")
            continue
        if isinstance(wanted, str):
            if here[name].artifact != wanted:
                faults.append(f"metric {name[:200]} is the file {here[name].artifact} here and {wanted} there")
            continue
        found = facts_of(client.runs.metric_series(run.id, name).values)
        if found != wanted:
            faults.append(f"metric {name[:200]} has {found} here and {wanted} there")
    return faults


def _series_of(run: ImportedRun) -> Dict[str, Facts]:
    """Return the facts of each series, of a table its number of rows, of an artifact the name of its file."""
    names = NameFitter(MAX_METRIC_NAME)
    notes: List[str] = []
    found: Dict[str, Facts] = {}
    for part in run.read_points():
        name = names.fit(part.metric, notes)
        known = found.get(name)
        if isinstance(part, ArtifactPoint):
            found[name] = part.file
        elif isinstance(part, TableRows):
            found[name] = len(part) + (known if isinstance(known, int) else 0)
        elif len(part):
            found[name] = _joined(known, part)
    return found


def _joined(known: Optional[Facts], part: PointPart) -> SeriesFacts:
    new = facts_of(part.values)
    if not isinstance(known, SeriesFacts):
        return new
    least, greatest = _extremes([known.least, known.greatest, new.least, new.greatest])
    return SeriesFacts(known.count + new.count, known.first, new.last, least, greatest)


def facts_of(values: Sequence[Any]) -> SeriesFacts:
    least, greatest = _extremes(values)
    return SeriesFacts(len(values), _plain(values[0]), _plain(values[-1]), least, greatest)


def _extremes(values: Sequence[Any]) -> Any:
    numbers = [value for value in values if isinstance(value, (int, float)) and not math.isnan(value)]
    return (min(numbers), max(numbers)) if numbers else (None, None)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
