"""What a browser that was not here before loads for each page of the studio: scripts, styles and pictures, compressed.

Every page is opened alone; `all` is every file of the studio together, which nobody loads at once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from figures import report  # noqa: E402
from playwright.sync_api import Browser, sync_playwright  # noqa: E402
from private_home import private_home  # noqa: E402

from runyard.studio.built import STATIC, find_file  # noqa: E402
from tests.browser import chromium  # noqa: E402
from tests.browser.studio import Studio  # noqa: E402

MOST_KB = 150
SCRIPT = "from azureml.core import Run\nrun = Run.get_context()\nfor n in range(50): run.log('loss', 1 / (n + 1))\n"
WEIGHT = """() => performance.getEntriesByType('resource')
    .filter(entry => entry.name.includes('/static/'))
    .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""


def main() -> None:
    subprocess.run([sys.executable, "scripts/build_studio.py", "--required"], cwd=ROOT, check=True)
    with private_home() as home, sync_playwright() as play:
        (home / "project").mkdir()
        studio = Studio(home, home / "project")
        runs = [studio.submit(SCRIPT, "--number", number) for number in range(2)]
        for run in runs:
            run.wait_for_completion()
        with chromium.launched(play) as browser:
            weights = {path: weigh(browser, studio, path) for path in pages(*(run.id for run in runs))}
    for path, weight in weights.items():
        print(f"{weight / 1000:6.1f} kB  {path}")
    heaviest = max(weights.values()) / 1000
    files = [find_file(path.name) for path in STATIC.iterdir()]
    together = sum(len(file.compressed) for file in files if file is not None) / 1000
    report("studio.page_kb", heaviest, "kB", target=f"<= {MOST_KB}", reference=f"all files together {together:.0f} kB")


def pages(first: str, second: str) -> list[str]:
    tabs = ("overview", "metrics", "log", "files", "code", "environment", "children")
    lists = ("runs", "experiments", "environments", "compute", "datasets", "models", "services")
    run_pages = [f"/runs/{first}?tab={tab}" for tab in tabs]
    return [*(f"/{name}" for name in lists), *run_pages, f"/compare?run={first}&run={second}"]


def weigh(browser: Browser, studio: Studio, path: str) -> float:
    context = browser.new_context()
    page = context.new_page()
    page.goto(studio.link(path), wait_until="load")
    page.wait_for_function("() => document.querySelector('main') && !document.querySelector('.loading')")
    page.wait_for_timeout(1500)  # what a page asks for after its first paint
    weight = float(page.evaluate(WEIGHT))
    context.close()
    return weight


if __name__ == "__main__":
    main()
