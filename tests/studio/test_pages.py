"""The pages: what they say, and that nothing from outside becomes markup."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from typing import Any

import pytest

from runyard.core.records import MetricInfo, Phase, Run, RunFile
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.studio.charts import ChartLine, render_chart
from runyard.studio.front_page import render_runs
from runyard.studio.html import duration, number, size
from runyard.studio.run_page import RunView, render_run
from runyard.studio.style import STYLE

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_run(**changes: Any) -> Run:
    run = Run(
        id="exp_1",
        number=1,
        workspace="default",
        experiment="exp",
        experiment_id="e",
        status=RunStatus.COMPLETED,
        created_at=START,
        started_at=at(2),
        ended_at=at(65),
        spec=RunSpec(script="train.py", arguments=["--alpha", "0.5"]),
        tags={"team": "vision", "empty": None},
        properties={"azureml.git.branch": "main", "other": "x"},
        environment={"interpreter": "/usr/bin/python3", "packages": {"numpy": "2.0"}},
        timeline=[
            Phase(RunStatus.QUEUED, START),
            Phase(RunStatus.RUNNING, at(2)),
            Phase(RunStatus.COMPLETED, at(65)),
        ],
    )
    return replace(run, **changes)


class Words(HTMLParser):
    """The text a reader sees, the tags and the links."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for key, value in attrs if key == "href"]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_a_runs_page_says_everything_about_it() -> None:
    view = RunView(
        run=a_run(),
        metrics=[
            MetricInfo("loss", "scalar", [""], [0], 100, last=0.123456789, minimum=0.1, maximum=2.0),
            MetricInfo("curve", "table", ["x", "y"], [0], 7),
            MetricInfo("plot", "artifact", [""], [0], 1, artifact="plot_1.png"),
        ],
        charts={"loss": ChartLine([0, 1, 2], [2.0, 1.0, 0.1], [2.0, 1.5, 0.2])},
        files=[RunFile("outputs/my model.pkl", 2048), RunFile("user_logs/std_log.txt", 3, kind="stream")],
        log_name="user_logs/std_log.txt",
        log_tail="epoch 1\nepoch 2\n",
    )
    page = Words(render_run(view))

    for words in (
        "exp_1 Completed", "Queued 2.0 s → Running 1 min 3 s → Completed", "--alpha 0.5", "team vision", "main",
        "loss 0.123457 0.1 2 100", "curve (x, y)", "plot_1.png", "epoch 1 epoch 2", "numpy==2.0", "2.0 KiB",
    ):  # fmt: skip
        assert words in page.text, words
    assert "/api/v1/runs/exp_1/files/outputs/my%20model.pkl" in page.links
    assert "polygon" in page.tags and "script" not in page.tags and "style" not in page.tags


def test_a_failed_runs_error_and_diagnosis_stand_at_the_top() -> None:
    error = {
        "code": "UserError",
        "message": "User program failed with ModuleNotFoundError: No module named 'torch'",
        "details": {"hint": "pip install torch", "rank": 0, "last_lines": ["Traceback", "boom"], "none": None},
    }
    text = Words(render_run(RunView(a_run(status=RunStatus.FAILED, error=error)))).text

    assert text.index("ModuleNotFoundError") < text.index("pip install torch") < text.index("Script")
    assert "last_lines Traceback boom" in text and "none" not in text


def test_a_live_page_refreshes_itself_and_a_finished_one_does_not() -> None:
    live, done = a_run(status=RunStatus.RUNNING), a_run()

    assert 'http-equiv="refresh"' in render_run(RunView(live)) and 'http-equiv="refresh"' in render_runs([done, live])
    assert "refresh" not in render_run(RunView(done)) and "refresh" not in render_runs([done])


def test_a_waiting_run_says_for_what() -> None:
    waiting = a_run(status=RunStatus.QUEUED, waits_for="It waits for a free place on `local`.", error=None)

    assert "Waits for It waits for a free place" in Words(render_run(RunView(waiting))).text


def test_the_front_page_lists_runs_or_says_how_to_make_one() -> None:
    page = Words(render_runs([a_run(display_name="first try"), a_run(id="exp_2", status=RunStatus.FAILED)]))

    assert "first try exp Completed 2026-03-01 12:00:00 UTC 1 min 3 s --alpha 0.5" in page.text
    assert "/runs/exp_2" in page.links
    assert "runyard submit train.py" in Words(render_runs([])).text


EVIL = [
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'><svg onload=alert(1)>", "javascript:alert(1)",
    "</pre></table><iframe src=//x>", "{{7*7}}", "&lt;b&gt;", "\x00\x1b[2J", "\u202etxt.exe", "]]><!--",
    "a\" onclick=\"x",
]  # fmt: skip
PLAIN_TAGS = {
    "html", "head", "meta", "title", "link", "body", "nav", "a", "h1", "h2", "h3", "div", "p", "b", "pre", "table",
    "thead", "tbody", "tr", "th", "td", "span", "details", "summary", "svg", "polygon",
}  # fmt: skip


@pytest.mark.parametrize("evil", EVIL)
def test_nothing_from_outside_becomes_markup(evil: str) -> None:
    run = a_run(
        display_name=evil,
        description=evil,
        experiment=evil,
        tags={evil: evil},
        properties={evil: evil, f"azureml.git.{evil}": evil},
        environment={evil: evil, "packages": {evil: evil}},
        submitted_by=evil,
        waits_for=evil,
        parent_id=evil,
        spec=RunSpec(script=evil, arguments=[evil], target=evil),
        warnings=[{"source": evil, "message": evil}],
        error={"code": evil, "message": evil, "details": {evil: [evil], "nested": {evil: evil}}},
    )
    view = RunView(
        run,
        metrics=[MetricInfo(evil, "table", [evil], [0], 1), MetricInfo(evil, "scalar", [""], [0], 1, last=evil)],
        files=[RunFile(evil, 1)],
        log_name=evil,
        log_tail=evil,
    )
    for html in (render_run(view), render_runs([run])):
        page = Words(html)
        assert set(page.tags) <= PLAIN_TAGS
        assert all(link.startswith("/") and not link.startswith("//") for link in page.links)
        assert not re.search(r"<[^>]*\son\w+=", html)
        assert html.count(evil) == 0 or not any(char in evil for char in "<>\"'&")


def test_the_pages_use_only_what_the_style_sheet_and_policy_allow() -> None:
    html = render_run(RunView(a_run(), charts={}, log_tail="x"))

    assert " style=" not in html and "http://" not in html and "https://" not in html
    assert "url(" not in STYLE and "@import" not in STYLE


LINES = {
    "constant": ChartLine([0, 1], [5.0, 5.0], [5.0, 5.0]),
    "largest floats": ChartLine([0, 1], [-1.7e308, 0.0], [0.0, 1.7e308]),
    "with NaN": ChartLine([0, 1, 2], [1.0, math.nan, 2.0], [1.0, math.nan, 2.0]),
    "huge steps": ChartLine([-(2.0**63), 2.0**63], [0.0, 1.0], [0.0, 1.0]),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_chart_stays_inside_its_box(line: ChartLine) -> None:
    points = re.findall(r"(-?[\d.]+),(-?[\d.]+)", render_chart(line))

    assert len(points) >= 4
    assert all(0 <= float(x) <= 240 and 0 <= float(y) <= 48 for x, y in points)


@pytest.mark.parametrize(
    "line", [ChartLine([], [], []), ChartLine([0], [1.0], [1.0]), ChartLine([0, 1], [math.nan] * 2, [1.0] * 2)]
)
def test_fewer_than_two_points_are_no_line(line: ChartLine) -> None:
    assert render_chart(line) == ""


def test_numbers_for_people() -> None:
    assert [size(count) for count in (0, 1023, 2048, 5 << 30)] == ["0 B", "1023 B", "2.0 KiB", "5.0 GiB"]
    assert [duration(START, at(seconds)) for seconds in (0.25, 59.9, 61, 7260)] == [
        "0.2 s", "59.9 s", "1 min 1 s", "2 h 1 min",
    ]  # fmt: skip
    assert [number(value) for value in (0.1 + 0.2, 3, None, math.nan, "x")] == ["0.3", "3", "", "nan", "x"]
