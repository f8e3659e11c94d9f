"""Charts in a real browser: they grow while a run logs, hide no extreme, and draw whatever was logged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from azureml.core import Run
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.testing.runs import Journal, points
from tests.browser.conftest import NewPage
from tests.browser.studio import Studio
from tests.browser.waiting import expect_soon
from tests.browser.watching import Watch

Shoot = Callable[..., Path]
SPIKE_AT, SPIKE = 345_678, 987.5

HOSTILE = "<img src=x onerror=alert(1)> \u202e"
EXTREME = {
    "huge": [1e308, -1e308, 5e-324],
    "close": [1e17, 1e17 + 32, 1e17],
    "tiny": [1e-300, 3e-300, 5e-324],
    "zero": [0.0, 0.0],
    "nothing but NaN": [float("nan"), float("nan")],
    "infinite": [float("-inf"), float("inf"), 1.0],
}

GROWING = """
import os, time
from azureml.core import Run

run = Run.get_context()
for step in range(100_000):
    run.log("loss", 1 / (1 + step))
    time.sleep(0.05)
"""
EVERYTHING = """
import io, math, random, struct, zlib
from azureml.core import Run

run = Run.get_context()
draw = random.Random(1)
for step in range(400):
    run.log("train/loss", 2 * math.exp(-step / 90) + 0.2 + draw.gauss(0, 0.05), step=step)
    run.log("train/accuracy", 1 - math.exp(-step / 120) + draw.gauss(0, 0.01), step=step)
    if step % 20 == 0:
        run.log("val/loss", 2.1 * math.exp(-step / 80) + 0.3, step=step)
        run.log("val/accuracy", 0.95 - math.exp(-step / 110), step=step)
    run.log("lr", 0.1 * 0.99 ** step, step=step)
run.log("gaps", 1.0); run.log("gaps", float("nan")); run.log("gaps", 2.0); run.log("gaps", float("inf"))
run.log("best epoch", 17)
run.log("seed", 1234)
for word in ("warm", "<img src=x onerror=alert(1)>", "cold"):
    run.log("phase", word)
for epoch in range(6):
    run.log_row("epochs", epoch=epoch, loss=1 / (1 + epoch), note="epoch %d" % epoch)
run.log_table("sizes", {"layer": ["conv1", "conv2", "dense"], "weights": [320, 9248, 1290]})
run.log_confusion_matrix("confusion", {"schema_type": "confusion_matrix", "schema_version": "v1", "data": {
    "class_labels": ["cat", "dog", "bird"], "matrix": [[50, 3, 1], [4, 44, 2], [0, 5, 31]]}})
run.log_accuracy_table("accuracy table", {"schema_type": "accuracy_table", "data": {
    "class_labels": ["cat"], "probability_thresholds": [0.5, 0.9],
    "probability_tables": [[[9, 1, 8, 2], [5, 0, 9, 6]]]}})

def png(width, height):
    row = lambda y: b"\\0" + bytes(v for x in range(width) for v in (x * 2 % 256, y * 3 % 256, 128))
    rows = b"".join(map(row, range(height)))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")

with open("picture.png", "wb") as file:
    file.write(png(120, 80))
run.log_image("samples", path="picture.png")
"""


@pytest.fixture(scope="module")
def everything(studio: Studio) -> Run:
    run = studio.submit(EVERYTHING)
    run.wait_for_completion()
    return run


@pytest.fixture(scope="module")
def stored(studio: Studio) -> Iterator[str]:
    """A run of a million points with one spike, four ranks, and a thousand metrics."""
    values = np.sin(np.arange(1_000_000) / 5_000)
    values[SPIKE_AT] = SPIKE
    with studio.store() as store:
        store.create_run(NewRun("spike", "spike_1", "default", "charts", spec=RunSpec(script="t.py")))
        store.set_status("spike_1", RunStatus.COMPLETED)
        journal = Journal(store, "spike_1")
        journal.ship(points("spiky", values))
        journal.ship(*(points(f"many/metric {at:04}", np.arange(20.0) * at) for at in range(1000)))
        journal.ship(points(HOSTILE, [1.0, 2.0]), points("long " + "name" * 100, [1.0, 2.0]))
        journal.ship(*(points(name, numbers) for name, numbers in EXTREME.items()))
        journal.ship(points("far steps", [1.0, 2.0, 3.0], steps=[2**62, 2**62 + 1, 2**62 + 5]))
        busy = {f"_system/{name}": np.arange(30.0) * 3 for name in ("cpu_percent", "gpu_0_percent", "gpu_1_percent")}
        journal.ship(*(points(name, numbers) for name, numbers in busy.items()))
        for rank in range(4):
            ranked = Journal(store, "spike_1", writer=f"r{rank}-1-bbbb", rank=rank)
            ranked.ship(points("per rank", np.arange(50.0) + 100 * rank))
    yield "spike_1"


@pytest.fixture(autouse=True)
def patience() -> None:
    expect.set_options(timeout=15_000)


def plot_of(page: Page, name: str) -> Locator:
    """Return the plot in the card of that name; it says how many points it has and how far they go."""
    card = page.locator(".metric-card", has=page.get_by_role("button", name=re.compile(f"^{re.escape(name)}$")))
    return card.locator(".chart-plot")


def test_the_chart_grows_while_a_run_logs(studio: Studio, page: Page) -> None:
    run = studio.submit(GROWING)
    page.goto(f"/runs/{run.id}?tab=metrics")
    plot = plot_of(page, "loss")
    expect(plot).to_have_attribute("aria-label", re.compile(r"^loss: \d+ points"), timeout=60_000)
    before = count_of(plot)
    expect_soon(page, lambda: count_of(plot) > before, True)
    run.cancel()
    run.wait_for_completion(raise_on_error=False)
    everything_came = len(run.get_metrics()["loss"])
    expect_soon(page, lambda: count_of(plot), everything_came)


def test_a_single_spike_in_a_million_points_is_there_and_in_every_zoom(page: Page, stored: str, shoot: Shoot) -> None:
    page.goto(f"/runs/{stored}?tab=metrics&metric=spiky")
    large = page.locator("dialog .chart-plot")
    expect(large).to_have_attribute("aria-label", re.compile(r"1\D000\D000 points from −1 to 987\.5"))
    expect_soon(page, lambda: min(ink_rows(large)) < 0.1, True)
    shoot(page, "chart-spike")

    zoom_in = page.get_by_role("button", name="Zoom in")
    for _ in range(2):
        zoom_in.click()
    # Half of the half about the middle, 375,000 to 625,000, and a fiftieth more on each side: the spike is outside.
    expect(large).to_have_attribute("aria-label", re.compile(r"26\d\D\d\d\d points from −1 to 1$"))
    page.get_by_role("button", name="Reset zoom").click()
    expect(large).to_have_attribute("aria-label", re.compile("987"))

    box = large.locator(".u-over").bounding_box()
    assert box is not None
    at = box["x"] + box["width"] * SPIKE_AT / 1_000_000
    for left, right in ((at - 3, at + 3), (box["x"] + box["width"] * 0.2, box["x"] + box["width"] * 0.8)):
        page.mouse.move(left, box["y"] + 50)
        page.mouse.down()
        page.mouse.move(right, box["y"] + 60, steps=4)
        page.mouse.up()
        expect(large).to_have_attribute("aria-label", re.compile(r": \d{1,2}(\D\d{3})? points from .* to 987\.5"))
    page.mouse.dblclick(box["x"] + 100, box["y"] + 50)
    expect(large).to_have_attribute("aria-label", re.compile(r"1\D000\D000 points"))


def test_ranks_are_lines_of_their_own_and_can_be_hidden(page: Page, stored: str) -> None:
    page.goto(f"/runs/{stored}?tab=metrics&metric=per+rank")
    large = page.locator("dialog .chart-plot")
    expect(large).to_have_attribute(
        "aria-label", re.compile("rank 0: 50 points from 0 to 49;.*rank 3: 50 points from 300 to 349")
    )
    legend = page.locator(".legend-line")
    expect(legend).to_have_count(4)
    page.get_by_role("button", name=re.compile("rank 3")).click()
    expect(large).not_to_have_attribute("aria-label", re.compile("rank 3"))
    legend.nth(1).click(modifiers=["Shift"])
    expect(large).to_have_attribute("aria-label", re.compile("^rank 1: 50 points from 100 to 149$"))


def test_a_log_axis_and_smoothing_are_in_the_address(page: Page, everything: Run) -> None:
    page.goto(f"/runs/{everything.id}?tab=metrics&metric=lr")
    dialog = page.locator("dialog")
    expect(dialog.locator(".chart-plot")).to_have_attribute("aria-label", re.compile("400 points"))
    # 0.1 · 0.99^n is a straight line by its magnitudes: in the middle half as high, where the curve is low by then.
    expect_soon(page, lambda: middle(ink_rows(dialog.locator(".chart-plot"))) > 0.75, True)
    dialog.get_by_role("button", name="Log", exact=True).click()
    expect(page).to_have_url(re.compile("log=1"))
    expect_soon(page, lambda: abs(middle(ink_rows(dialog.locator(".chart-plot"))) - 0.5) < 0.1, True)
    dialog.get_by_role("slider").fill("0.9")
    expect(page).to_have_url(re.compile("smooth=0.9"))
    page.reload()
    expect(page.locator("dialog").get_by_role("slider")).to_have_value("0.9")


def test_whatever_was_logged_is_shown_and_runs_no_script(new_page: NewPage, everything: Run) -> None:
    page = new_page(height=4000)  # cards that nobody sees are empty
    page.goto(f"/runs/{everything.id}?tab=metrics")
    expect(page.get_by_role("heading", name=re.compile("^train"))).to_be_visible()
    expect(page.locator(".metric-values")).to_contain_text("1\u202f234")
    expect(plot_of(page, "loss").first).to_have_attribute("aria-label", re.compile("400 points"))
    expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
    cat = page.locator(".heat tbody tr").first
    expect(cat).to_contain_text("cat5031")
    expect(page.get_by_alt_text("samples")).to_have_js_property("naturalWidth", 120)
    expect(page.locator(".metric-card", has_text="sizes").locator("td", has_text="9\u202f248")).to_be_visible()
    expect(page.locator(".metric-card", has_text="accuracy table").locator("td", has_text="0.9")).to_be_visible()
    expect(plot_of(page, "gaps")).to_have_attribute("aria-label", re.compile("4 points from 1 to ∞"))


def test_a_thousand_metrics_are_found_by_name_and_drawn_when_seen(page: Page, stored: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/charts") else None)
    page.goto(f"/runs/{stored}?tab=metrics&q=metric")
    expect(plot_of(page, "metric 0001")).to_have_attribute("aria-label", re.compile("20 points from 0 to 19"))
    assert page.locator(".chart-plot").count() < 100
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("button", name="metric 0070", exact=True)).to_have_count(1)
    page.evaluate("scrollTo(0, 0)")
    assert len(asked) <= 10
    page.get_by_label("Search metrics").fill("0777")
    expect(page.locator(".metric-card")).to_have_count(1)
    expect(plot_of(page, "metric 0777")).to_have_attribute("aria-label", re.compile("20 points from 0 to 14\u202f763"))
    page.get_by_label("Search metrics").fill("nothing like this")
    page.get_by_role("button", name="Show all metrics").click()
    expect(page.get_by_label("Search metrics")).to_have_value("")


def test_what_the_machine_did_is_a_group_of_its_own(page: Page, stored: str, shoot: Shoot) -> None:
    page.goto(f"/runs/{stored}?tab=metrics&metric=system:GPU")
    large = page.locator("dialog .chart-plot")
    expect(large).to_have_attribute("aria-label", "GPU 0: 30 points from 0 to 87; GPU 1: 30 points from 0 to 87")
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("metric="))
    expect(page.get_by_role("region", name="System").locator(".metric-card")).to_have_count(2)


@pytest.mark.parametrize("log", ["", "&log=1"])
def test_numbers_at_the_ends_of_what_there_is_are_drawn(page: Page, stored: str, log: str) -> None:
    for name in [*EXTREME, "far steps"]:
        page.goto(f"/runs/{stored}?tab=metrics&metric={name}{log}")
        figure = page.locator("dialog figure.chart")
        expect(figure).to_have_attribute("data-loading", "false")
        expect(figure.locator(".chart-plot")).to_have_attribute("aria-label", re.compile(r"\d points"))


def test_hostile_and_long_names_are_text_and_fit(new_page: NewPage, stored: str) -> None:
    page = new_page(width=400)
    page.goto(f"/runs/{stored}?tab=metrics&q=name")
    expect(page.locator(".metric-card")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_label("Search metrics").fill("onerror")
    page.locator(".metric-name").click()
    shown = HOSTILE.replace("\u202e", "\\u202e")  # what turns text around is written out
    expect(page.locator("dialog h2")).to_have_text(shown)
    expect(page.locator("dialog .legend-line")).to_contain_text(shown)


def test_the_keyboard_reads_values_and_zooms(page: Page, stored: str) -> None:
    page.goto(f"/runs/{stored}?tab=metrics&metric=per+rank")
    plot = page.locator("dialog .chart-plot")
    expect(plot).to_have_attribute("aria-label", re.compile("rank 3"))
    plot.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".chart-at")).to_have_text(re.compile("Step [123]$"))
    expect(page.locator(".legend-line").nth(2)).to_have_text(re.compile("rank 220[123]$"))
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()


def test_pins_stay(page: Page, everything: Run) -> None:
    page.goto(f"/runs/{everything.id}?tab=metrics")
    page.get_by_role("button", name="Pin val/loss to the top").click()
    page.reload()
    expect(page.get_by_role("region", name="Pinned").locator(".metric-card")).to_have_count(1)
    page.get_by_role("region", name="Pinned").get_by_role("button", name="Unpin val/loss").click()
    expect(page.get_by_role("region", name="Pinned")).to_have_count(0)


def test_a_restarted_server_is_read_again_without_a_reload(
    studio: Studio, page: Page, everything: Run, watch: Watch
) -> None:
    """M125: the stream is cut, the server is away, and what happened meanwhile is there once."""
    watch.allow("ERR_")
    watch.allow("status of 503")  # of a server that is about to leave
    page.goto(f"/runs/{everything.id}?tab=metrics")
    expect(plot_of(page, "lr")).to_have_attribute("aria-label", re.compile("400 points"))
    with studio.store() as store:
        expect(page.locator(".live-notice")).to_contain_text("does not answer")
        Journal(store, everything.id, writer="r0-9-cccc").ship(points("lr", [5.0], times=[10**18]))
    expect(plot_of(page, "lr")).to_have_attribute("aria-label", re.compile("401 points from .* to 5$"))
    expect(page.locator(".live-notice")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 400])
def test_pictures(new_page: NewPage, everything: Run, theme: str, width: int, shoot: Shoot) -> None:
    page = new_page(theme=theme, width=width)
    page.goto(f"/runs/{everything.id}?tab=metrics")
    expect(plot_of(page, "loss").first).to_have_attribute("aria-label", re.compile("400 points"))
    expect(page.locator("[data-loading=true]")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shoot(page, f"metrics-{theme}-{width}", full_page=True)
    page.goto(f"/runs/{everything.id}?tab=metrics&metric=train/loss&smooth=0.8")
    expect(page.locator("dialog .chart-plot")).to_have_attribute("aria-label", re.compile("400 points"))
    shoot(page, f"metric-large-{theme}-{width}")


def count_of(plot: Locator) -> int:
    found = re.search(r": (\d+) points", (plot.get_attribute("aria-label") or "").replace("\u202f", ""))
    return int(found[1]) if found else 0


COLUMNS = """
node => {
  const canvas = node.querySelector('canvas'), over = node.querySelector('.u-over').getBoundingClientRect();
  const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
  const left = Math.round((over.left - box.left) * scale), top = Math.round((over.top - box.top) * scale);
  const [width, height] = [Math.floor(over.width * scale), Math.floor(over.height * scale)];
  const pixels = canvas.getContext('2d').getImageData(left, top, width, height).data;
  const isInk = (x, y) => {
    const [r, g, b, a] = pixels.slice((y * width + x) * 4, (y * width + x) * 4 + 4);
    return a > 40 && Math.max(r, g, b) - Math.min(r, g, b) > 60;
  };
  const topOf = x => {
    for (let y = 0; y < height; y++) if (isInk(x, y)) return y / height;
    return 1;
  };
  return Array.from({length: width}, (_, x) => topOf(x));
}
"""


def ink_rows(plot: Locator) -> list[float]:
    """Return how far from the top, 0 to 1, the line is in each column of the plot's pixels."""
    return [float(found) for found in plot.evaluate(COLUMNS)]


def middle(rows: list[float]) -> float:
    return rows[len(rows) // 2]
