"""The format in which benchmarks print their figures."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    path = Path(__file__).parent.parent / "benchmarks/figures.py"
    spec = importlib.util.spec_from_file_location("figures", path)
    assert spec and spec.loader
    module = sys.modules["figures"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        ("figure: submit.first_line 3.2 x (target <= 5, reference bare python 48 ms (median))", True),
        ("figure: submit.first_line 5.01 x (target <= 5)", False),
        ("figure: ingest 1.2e+06 points/s (target >= 1e6, reference none)", True),
        ("figure: lost 1 points (target == 0)", False),
        ("figure: idle.pss 80 MB", True),
    ],
)
def test_a_figure_is_read_and_judged(figures: ModuleType, line: str, ok: bool) -> None:
    figure = figures.parse_figure(line)

    assert figure.ok is ok
    assert figures.parse_figure(figures.format_figure(figure)) == figure


def test_no_number_keeps_no_target(figures: ModuleType) -> None:
    assert figures.parse_figure("figure: idle.pss nan MB (target <= 5)").ok is False


@pytest.mark.parametrize("line", ["", "figure:", "figure: name x MB", "the figure: a 1 b", "figure: a 1 b (goal 3)"])
def test_other_lines_are_no_figures(figures: ModuleType, line: str) -> None:
    assert figures.parse_figure(line) is None


def test_what_is_reported_is_printed_and_read_back(figures: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    figure = figures.report("log.cost", 1.25, "x", target="<= 1.5", reference="os.write 410 ns")

    assert figures.parse_figure(capsys.readouterr().out) == figure
    assert figure.ok


def test_recorded_figures_replace_those_of_the_same_benchmark_only(
    figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    recorded = importlib.import_module("recorded")
    file = tmp_path / "results.json"
    old, other = (
        figures.Figure("log.cost", 1.4, "x", "<=", 1.5, "os.write"),
        figures.Figure("lost", 0, "points", "==", 0),
    )
    recorded.record([("log_cost", old), ("kills", other)], file=file)
    recorded.record([("log_cost", figures.Figure("log.cost", 1.6, "x", "<=", 1.5, "os.write"))], file=file)
    rows = recorded.read(file)

    assert [(row["benchmark"], row["value"], row["target"], row["ok"]) for row in rows] == [
        ("kills", 0, "== 0", True),
        ("log_cost", 1.6, "<= 1.5", False),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"]) and " cores, " in row["machine"] for row in rows)


def test_the_page_of_published_figures_shows_what_was_missed_and_where_it_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    trust = importlib.import_module("trust_page")
    row = {"benchmark": "kills", "name": "kills.lost", "value": 2, "unit": "points", "target": "== 0", "ok": False}
    place = {"reference": "a | b", "date": "2026-11-20", "commit": "abc", "machine": "CPU, 2 cores"}
    (tmp_path / "results.json").write_text(json.dumps([{**row, **place}]))
    monkeypatch.setattr(trust, "RESULTS", tmp_path / "results.json")
    page = trust.page()

    assert "| `kills.lost` | 2 points | == 0 **missed** | a / b |" in page
    assert "- 2026-11-20, commit `abc`, CPU, 2 cores" in page
    assert page.count(trust.MISSING) == 1
