"""A chart of 10 million points in the studio: how long a zoom takes, from the mouse's release to the exact picture.

    python benchmarks/studio_chart.py [POINTS]

Measured in a real Chromium: a window is dragged open, the server is asked, and the clock stops when the answer is drawn
and a frame later. Every answer is compared with numpy on the raw values. The reference is the server's share of it.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from figures import report  # noqa: E402
from metrics_chart import BATCH  # noqa: E402
from playwright.sync_api import Page, Request, sync_playwright  # noqa: E402
from private_home import private_home  # noqa: E402

from runyard.client.client import Client  # noqa: E402
from runyard.client.private_server import connect  # noqa: E402
from runyard.core.config.paths import database_file  # noqa: E402
from runyard.core.config.settings import read_settings  # noqa: E402
from runyard.core.formats.frames import iter_frames  # noqa: E402
from runyard.core.records import DEFAULT_WORKSPACE, NewRun  # noqa: E402
from runyard.core.statuses import RunStatus  # noqa: E402
from runyard.store.base import Points, SegmentPart  # noqa: E402
from runyard.store.sqlite import SqliteStore  # noqa: E402
from tests.browser import chromium  # noqa: E402

RUN, METRIC = "long_1", "loss"
ROUNDS = 5
DEPTH = 6  # windows in windows: a quarter each time
WATCH = """
() => {
  const figure = document.querySelector('dialog figure.chart');
  window.zoomed = new Promise(done => {
    addEventListener('mouseup', () => {
      const start = performance.now();
      let isAsked = figure.dataset.loading === 'true'; // the answer to the reset before may still be on its way
      const look = () => {
        if (figure.dataset.loading === 'true') isAsked = true;
        else if (isAsked) {
          watching.disconnect();
          requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
        }
      };
      const watching = new MutationObserver(look);
      watching.observe(figure, {attributes: true});
    }, {once: true, capture: true});
  });
}
"""


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    subprocess.run([sys.executable, str(ROOT / "scripts/build_studio.py"), "--required"], check=True)
    values = np.cumsum(np.random.default_rng(1).normal(size=count))
    with private_home() as home:
        client = connect(read_settings())
        client.server.stop()
        fill(home, values)
        client = connect(read_settings())
        with sync_playwright() as playwright, chromium.launched(playwright) as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            measure(page, client, values)
    return 0


def fill(home: Path, values: NDArray[np.float64]) -> None:
    deadline = time.monotonic() + 30
    while (home / "server" / "lock").exists() and _is_served(home) and time.monotonic() < deadline:
        time.sleep(0.05)
    store = SqliteStore(database_file(home))
    store.create_run(NewRun("long", RUN, DEFAULT_WORKSPACE, "long"))
    store.set_status(RUN, RunStatus.COMPLETED)
    end = 0
    for at in range(0, len(values), BATCH):
        part = values[at : at + BATCH]
        start, end = end, end + len(part) * 32
        times = np.arange(at, at + len(part), dtype=np.int64) * 1_000_000
        content = [Points(METRIC, "f8", part, times)]
        store.ingest(RUN, 1, [SegmentPart("r0-1-00000000", 0, start, end, content=content)])
    store.close()


def _is_served(home: Path) -> bool:
    from runyard.client.private_server import find

    return find(read_settings()) is not None


def measure(page: Page, client: Client, values: NDArray[np.float64]) -> None:
    asked: list[Request] = []
    page.on("requestfinished", lambda one: asked.append(one) if one.url.endswith("/api/v1/charts") else None)
    url = (client.address.web_url or "").rstrip("/")
    page.goto(url + client.server.signin_path(f"/runs/{RUN}?tab=metrics&metric={METRIC}"))
    page.wait_for_selector("dialog figure.chart[data-loading=false]")
    draw, zooms = random.Random(1), []
    for _ in range(ROUNDS):
        for _ in range(DEPTH):
            zooms.append(zoom(page, draw.uniform(0.05, 0.7)))
        page.get_by_role("button", name="Reset zoom").click()
        page.wait_for_selector("dialog figure.chart[data-loading=false]")
    bodies = [json.loads(request.post_data or "") for request in asked]
    ours = [waited(one) for one, body in zip(asked, bodies) if "first" in body["series"][0]]
    note = f"median {statistics.median(zooms):.0f} ms, the server's share {statistics.median(ours):.0f} ms"
    report("studio.chart_zoom", max(zooms), "ms", target="<= 300", reference=f"slowest of {len(zooms)}, {note}")
    report("studio.chart_server", max(ours), "ms", target="<= 150", reference="request to first byte, slowest")
    wrong = sum(count_wrong(body, _response(request), values) for request, body in zip(asked, bodies))
    report("studio.chart_wrong_buckets", wrong, "buckets", target="== 0", reference="numpy on the raw values")


def waited(request: Request) -> float:
    return request.timing["responseStart"] - request.timing["requestStart"]


def _response(request: Request) -> bytes:
    response = request.response()
    assert response is not None
    return response.body()


def zoom(page: Page, left: float) -> float:
    """Drag a quarter of the plot open; return the ms until it is drawn."""
    box = page.locator("dialog .u-over").bounding_box()
    assert box is not None
    start, end = (box["x"] + box["width"] * place for place in (left, left + 0.25))
    page.evaluate(WATCH)
    page.mouse.move(start, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(end, box["y"] + 90, steps=3)
    page.mouse.up()
    page.wait_for_function("window.zoomed.then(found => window.took = found)", timeout=10_000)
    return float(page.evaluate("window.took"))


def count_wrong(body: dict[str, Any], data: bytes, values: NDArray[np.float64]) -> int:
    """Return how many buckets of an answer differ from the points that they cover."""
    [(head, raw)] = iter_frames(data)
    columns = np.frombuffer(raw, "<f8").reshape(len(head["columns"]), head["count"])
    found = dict(zip(head["columns"], columns))
    wish = body["series"][0]
    first, last = max(0, wish.get("first", 0)), min(len(values) - 1, wish.get("last", len(values) - 1))
    inside = values[first : last + 1]
    ends = np.cumsum(found["count"]).astype(np.int64)
    if not head["count"] or ends[-1] != len(inside):
        return len(inside)
    starts = ends - found["count"].astype(np.int64)
    low, high = np.minimum.reduceat(inside, starts), np.maximum.reduceat(inside, starts)
    return int(np.sum((low != found["minimum"]) | (high != found["maximum"]) | (inside[ends - 1] != found["last"])))


if __name__ == "__main__":
    sys.exit(main())
