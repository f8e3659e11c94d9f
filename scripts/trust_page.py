"""The page of published figures: each comes from a file that a command wrote, with its day and machine."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import azureml_uses
import mlflow_conformance

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/results.json"

PAGE = """\
# Trust at a glance

Written by `make docs` from results that commands wrote. `make trust` measures again, and records the day, the commit
and the machine. What each promise means, and which test holds it, is in [Promises and their tests](promises.md).

"""
MISSING = (
    "No measurement is recorded yet for this version: `make trust` makes one, on a machine that does nothing else.\n"
)


def page() -> str:
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    kills = [row for row in rows if row["benchmark"] == "kills"]
    speed = [row for row in rows if row["benchmark"] != "kills"]
    return "\n".join([PAGE + _speed(speed), _kills(kills), _attacks(), _coverage()])


def _speed(rows: list[dict[str, Any]]) -> str:
    title = "## Speed, against references measured in the same run\n\n"
    note = (
        "Each file of [benchmarks](../benchmarks/README.md) measures its own reference beside it: a bare tool\n"
        "that does the same, or the other product. A figure that misses its target is shown as missed.\n\n"
    )
    return title + (note + _table(rows) if rows else MISSING)


def _kills(rows: list[dict[str, Any]]) -> str:
    title = "## Kills survived\n\n"
    faults = _ids("tests/faults/README.md", "RM")
    note = (
        "`python benchmarks/run_all.py kills --record` kills server and supervisors with `kill -9` while scripts\n"
        "log, and compares what is stored with what was logged. [tests/faults](../tests/faults/README.md) lists\n"
        f"{faults} figures and faults of this kind, each with its tests.\n\n"
    )
    return title + note + (_table(rows) if rows else MISSING)


def _attacks() -> str:
    attacks = _ids("tests/attacks/README.md", "A")
    tests = sum(
        len(re.findall(r"^def test_", path.read_text(), re.MULTILINE))
        for folder in ("attacks", "rights")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
    )
    return (
        "## Attacks tried\n\n"
        f"{attacks} numbered attacks. {tests} test functions in `tests/attacks` and `tests/rights` try them, and walk\n"
        "every route of the server as every kind of user. Each attack is also tried against something weak, where\n"
        "it must succeed. The list with its tests is in [tests/attacks](../tests/attacks/README.md). They run with\n"
        "every `make test` and `make test-external`. No outside party has audited Runyard.\n"
    )


def _coverage() -> str:
    summary = azureml_uses.summary(azureml_uses.count_stored()).splitlines()
    areas = [line for line in summary[:4] if line]
    rows = mlflow_conformance._rows(mlflow_conformance.COUNTS)
    counts: Counter[tuple[str, str, str]] = Counter()
    for release, day, _, outcome, _, number in rows:
        counts[release, day, outcome] += int(number)
    days = sorted({(release, day) for release, day, _ in counts})
    lines = ["| MLflow's tests of | measured on | passed | failed as expected | failed |", "|---|---|--:|--:|--:|"]
    for release, day in days:
        found = [counts[release, day, outcome] for outcome in ("passed", "failed as expected", "failed")]
        lines.append(f"| {release} | {day} | {' | '.join(map(str, found))} |")
    return (
        "## Coverage of real code\n\n"
        "How often code of public repositories uses a name of Azure's SDK, and how much of it works here;\n"
        "[by area, with what is missing](reference/azureml-coverage.md):\n\n"
        + "\n".join(areas)
        + "\n\nMLflow's own tests against our server; [what was left out and why](reference/mlflow-conformance.md):\n\n"
        + "\n".join(lines)
        + "\n"
    )


def _ids(page: str, letters: str) -> int:
    cells = re.findall(rf"^\| ([{letters}]\d+(?:, [{letters}]\d+)*) \|", (ROOT / page).read_text(), re.MULTILINE)
    return sum(len(cell.split(", ")) for cell in cells)


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| figure | measured | target | reference |", "|---|--:|---|---|"]
    places = []
    for row in rows:
        place = f"{row['date']}, commit `{row['commit']}`, {row['machine']}"
        if place not in places:
            places.append(place)
        mark = "" if row["ok"] else " **missed**"
        value = f"{row['value']:,.6g} {row['unit']}"
        number = f" [{places.index(place) + 1}]" if len({(each["date"], each["commit"]) for each in rows}) > 1 else ""
        lines.append(
            f"| `{row['name']}`{number} | {value} | {row['target']}{mark} | {row['reference'].replace('|', '/')} |"
        )
    notes = [f"[{number}] " if len(places) > 1 else "" for number in range(1, len(places) + 1)]
    told = "\n".join(f"- {note}{place}" for note, place in zip(notes, places))
    return "\n".join(lines) + f"\n\nMeasured:\n\n{told}\n"
