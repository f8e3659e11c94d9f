"""The format in which benchmarks print their figures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


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
