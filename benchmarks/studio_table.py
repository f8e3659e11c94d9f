"""The studio's table of 100,000 runs in a real browser: how soon it can be used, how smoothly it scrolls.

    python benchmarks/studio_table.py [RUNS]

`first_usable`: from the start of the navigation until runs are shown and the filter can be typed into, for a browser
that was not here before; the median of five. `scroll`: frames per second while the wheel turns 12 lines a frame; the
reference is a plain page of text, scrolled the same way right after.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from figures import report  # noqa: E402
from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402
from private_home import private_home  # noqa: E402

from tests.browser import chromium  # noqa: E402
from tests.browser.studio import Studio  # noqa: E402

USABLE_MS, FRAMES = 1000, 50
ROUNDS, TURNS, PIXELS = 5, 150, 400
USABLE = "() => window.usable_at"
NOTE_USABLE = """() => {
    const look = () => {
        if (document.querySelector('.rt-line .rt-name a') && document.querySelector('.rt-filter-input')) {
            requestAnimationFrame(() => { window.usable_at = performance.now() });  // the frame before is painted
        } else requestAnimationFrame(look);
    };
    look();
}"""
COUNT_FRAMES = """() => {
    window.frames_seen = [];
    const tick = time => { window.frames_seen.push(time); requestAnimationFrame(tick) };
    requestAnimationFrame(tick);
}"""
PLAIN = """() => {
    for (let line = 0; line < 5000; line++) {
        const text = document.createElement('p');
        text.textContent = `line ${line} of a plain page`;
        document.body.append(text);
    }
}"""


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    subprocess.run([sys.executable, "scripts/build_studio.py", "--required"], cwd=ROOT, check=True)
    with private_home() as home:
        studio = Studio(home, home)
        studio.fill(count)
        measure(studio, count)
    return 0


def measure(studio: Studio, count: int) -> None:
    with sync_playwright() as playwright, chromium.launched(playwright) as browser:
        times = [first_usable(browser, studio) for _ in range(ROUNDS)]
        page = new_page(browser, studio)
        page.goto("/runs")
        page.wait_for_function(USABLE)
        table = scroll(page)
        lines = page.locator(".rt-line").count()
        page.goto("/api/v1/health")
        page.evaluate(PLAIN)
        plain = scroll(page)
    note = f"slowest {max(times):.0f} ms, {count} runs"
    report("studio.runs_first_usable", statistics.median(times), "ms", target=f"<= {USABLE_MS}", reference=note)
    note = f"a plain page of text {plain:.0f} frames/s; {lines} lines in the page"
    report("studio.runs_scroll", table, "frames/s", target=f">= {FRAMES}", reference=note)


def new_page(browser: Browser, studio: Studio) -> Page:
    context = browser.new_context(base_url=studio.url, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script(f"({NOTE_USABLE})()")
    page.goto(studio.link("/api/v1/health"))
    return page


def first_usable(browser: Browser, studio: Studio) -> float:
    page = new_page(browser, studio)
    page.goto("/runs", wait_until="commit")
    page.wait_for_function(USABLE)
    found: float = page.evaluate(USABLE)
    box = page.locator(".rt-filter-input")
    box.press("s")
    assert box.input_value() == "s", "the filter did not take a key"
    page.context.close()
    return found


def scroll(page: Page) -> float:
    """Return the frames per second while the wheel turns."""
    page.wait_for_timeout(1000)  # what the page still reads
    page.mouse.move(640, 500)
    page.evaluate(COUNT_FRAMES)
    for _ in range(TURNS):
        page.mouse.wheel(0, PIXELS)
        page.wait_for_timeout(16)
    times: list[float] = page.evaluate("() => window.frames_seen")
    return 1000 * (len(times) - 1) / (times[-1] - times[0])


if __name__ == "__main__":
    sys.exit(main())
