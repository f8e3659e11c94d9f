"""The page of figures of MLflow's own tests, and of the comparison with its server, as Markdown."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
COUNTS = ROOT / "scripts/mlflow_conformance.tsv"
LEFT_OUT = ROOT / "tests/mlflow/left_out.tsv"
DIFFERENCES = ROOT / "tests/mlflow/alike/differences.tsv"
OUTCOMES = ("passed", "failed as expected", "failed", "left out")
PAGE = """\
# Conformance with MLflow

Written by `make docs` from the figures of `make mlflow-conformance` and the lists that the tests use.

Two checks hold the REST API below `/mlflow/<workspace>` to what MLflow's clients are used to:

- **MLflow's own tests** of its tracking REST API, its model registry and its tracking store run against a server of
  ours. Each runs against MLflow's own server first: a test that this one fails is left out. MLflow's source releases on
  the package index have no tests, so the check needs a checkout of MLflow's repository:
  `make mlflow-conformance MLFLOW_SRC=folder`. The store's tests talk to the server through MLflow's REST client;
  those that look into a database are skipped.
- **The same calls to both servers.** `make test-external` asks a stock `mlflow server` and a server of ours the same
  things, over 900, by MLflow's clients 2.22.5 and 3.17.2 and by plain requests: every endpoint, the grammar of
  filters, orders, pages, odd names and numbers, files, the registry, logged models. Values and error codes must be
  equal, but for the list at the end of this page.

## MLflow's own tests

"""
SECOND = """
## Tests that are left out

Beside these: tests that MLflow skips itself, and those that fail against MLflow's own server too. A pattern is a
regular expression for the names of tests.

| tests | why | releases |
|---|---|---|
"""
THIRD = """
## Answers that differ from those of MLflow's server

A pattern is a regular expression for the names of calls in `tests/mlflow/alike`.

| calls | why |
|---|---|
"""


def page() -> str:
    counts: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(OUTCOMES, 0))
    reasons: dict[str, dict[str, int]] = defaultdict(dict)
    for release, day, suite, outcome, reason, number in _rows(COUNTS):
        counts[release, day, suite][outcome] += int(number)
        if reason:
            reasons[reason][release] = reasons[reason].get(release, 0) + int(number)
    releases = sorted({release for release, _, _ in counts})
    lines = [
        "| tests of MLflow | on | suite | passed | failed as expected | failed | left out |",
        "|---|---|---|---|---|---|---|",
    ]
    for (release, day, suite), found in sorted(counts.items()):
        lines.append(f"| {release} | {day} | {suite} | {' | '.join(str(found[outcome]) for outcome in OUTCOMES)} |")
    lines += ["", f"| why tests are left out | {' | '.join(releases)} |", f"|---|{'---|' * len(releases)}"]
    for reason, found in sorted(reasons.items(), key=lambda item: -sum(item[1].values())):
        lines.append(f"| {_cell(reason)} | {' | '.join(str(found.get(release, 0)) for release in releases)} |")
    left_out = [
        f"| {_code(pattern)} | {_cell(reason)} | {f'{only[0]}x' if only else 'all'} |"
        for pattern, reason, *only in _rows(LEFT_OUT)
    ]
    different = [f"| {_code(pattern)} | {_cell(reason)} |" for pattern, reason in _rows(DIFFERENCES)]
    return PAGE + "\n".join(lines) + "\n" + SECOND + "\n".join(left_out) + "\n" + THIRD + "\n".join(different) + "\n"


def _rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(pattern: str) -> str:
    return f"`` {_cell(pattern)} ``"
