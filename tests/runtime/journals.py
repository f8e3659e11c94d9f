"""Reads journals back as plain values, and finds interpreters to run scripts with."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runyard.core.formats import journal

SOURCE = Path(__file__).resolve().parents[2] / "src"


@dataclass(frozen=True)
class Point:
    """One value of a metric. `writer` is the file's name less `.journal`."""

    writer: str
    name: str
    value: Any
    step: int | None
    time: int


@dataclass
class Segment:
    path: Path
    header: dict[str, Any] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    records: list[tuple[int, dict[str, Any]]] = field(default_factory=list)  # all but header, names and values


def read_segment(path: Path) -> Segment:
    data = path.read_bytes()
    segment = Segment(path)
    names: dict[int, str] = {}
    for part in journal.iter_parts(data):
        if isinstance(part, journal.Span):
            segment.points += [_point(path, data, at, names) for at in range(part.offset, part.end, journal.CELL)]
        elif part.kind == journal.HEADER:
            assert not segment.header, "a second header"
            segment.header = part.payload
        elif part.kind == journal.NAME:
            assert part.payload["id"] not in names, "an id defined twice"
            names[part.payload["id"]] = part.payload["name"]
        elif part.kind == journal.VALUES:
            told = part.payload
            segment.points += [Point(path.stem, told["name"], v, told["step"], told["t"]) for v in told["values"]]
        else:
            segment.records.append((part.kind, part.payload))
    assert segment.header or not (segment.points or segment.records), "records without a header"
    return segment


def read_segments(run_folder: Path) -> list[Segment]:
    return [read_segment(path) for path in sorted((run_folder / "journal").glob("*.journal"))]


def read_points(run_folder: Path) -> list[Point]:
    """Return all points in the order of reading: by monotonic time, then writer, segment and offset."""
    points = [point for segment in read_segments(run_folder) for point in segment.points]
    return sorted(points, key=lambda point: point.time)


def read_values(run_folder: Path, name: str) -> list[Any]:
    return [point.value for point in read_points(run_folder) if point.name == name]


def read_records(run_folder: Path) -> list[tuple[int, dict[str, Any]]]:
    return [record for segment in read_segments(run_folder) for record in segment.records]


def make_run_folder(path: Path) -> Path:
    (path / "journal").mkdir(parents=True)
    return path


def run_script(
    script: str, *arguments: object, python: str = sys.executable, rc: int | None = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh process with our source on its path."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RUNYARD_"))}
    done = subprocess.run(
        [python, "-c", script, *map(str, arguments)],
        env={**environ, "PYTHONPATH": str(SOURCE), **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert rc is None or done.returncode == rc, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def _point(path: Path, data: bytes, at: int, names: dict[int, str]) -> Point:
    kind = data[at]
    packed = journal.NUMBER if kind == journal.FLOAT else journal.INTEGER
    _kind, flags, zero, name_id, step, time, value = packed.unpack_from(data, at)
    assert zero == 0
    value = bool(value) if kind == journal.BOOL else value
    return Point(path.stem, names[name_id], value, step if flags & journal.HAS_STEP else None, time)
