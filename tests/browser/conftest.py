"""A real Chromium in front of a real private server. All tests of this folder are `external`.

    def test_the_run_is_listed(studio: Studio, page: Page) -> None:
        run = studio.submit("print('hello')")      # a real run on `local`; the SDK's Run
        run.wait_for_completion()
        page.goto(f"/runs/{run.id}")               # signed in already; addresses are relative to the server
        expect(page.get_by_role("heading")).to_contain_text(run.id)

- `studio`: the server, one for each test file, in a home of its own, which is `RUNYARD_HOME` meanwhile: the SDK talks
  to it. `studio.fill(100_000)` has it know many runs; `with studio.store() as store:` writes into its database directly
  (the server is stopped meanwhile). `studio.link(path)` is a one-time sign-in link, `studio.client` the HTTP client.
- `page`: 1280 × 800, light, in a context of its own. `new_page(theme="dark", width=400)` makes others; `theme` runs a
  test in light and in dark.
- Console errors, exceptions in the page, dialogs, policy violations and requests to another server fail the test at its
  end. What a test means to provoke it names first: `watch.allow("status of 404")` (a part of the message).
- Our policy refuses text as code, so `page.wait_for_function` wants a function: `"() => document.title === 'x'"`.
- `shoot(page, "run-light")` writes `outputs/browser/run-light.png`, to look at.
- The studio is built first (`make studio`). `AS_BUILT=1` takes what is there, while somebody else's source is broken.
- `SLOW_MS=400` makes every request, and what the page does after it has drawn, take that much longer and halves its
  speed: tests that do not wait fail, and so do pages that show a thing before it can be used.

Run: `.venv/bin/python -m pytest -p no:xdist -m external tests/browser/test_x.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.studio import Studio
from tests.conftest import end_home

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.browser.watching import Watch

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PICTURES = ROOT / "outputs" / "browser"
NewPage = Callable[..., "Page"]
PATIENCE_MS = 15_000  # for whatever a page shows; a test that waits for more than the page says so
SLOW_MS = int(os.environ.get("SLOW_MS", "0"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Loading Playwright takes half a second in each process: not for tests that are left out anyway."""
    return True if "not external" in str(config.option.markexpr) and collection_path.parent == HERE else None


@pytest.hookimpl(tryfirst=True)  # before those that are not wanted are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.external)


@pytest.fixture(scope="session")
def built() -> None:
    if not os.environ.get("AS_BUILT"):
        subprocess.run([sys.executable, "scripts/build_studio.py", "--required"], cwd=ROOT, check=True)


@pytest.fixture(scope="module")  # its event loop would be in the way of other files' tests
def browser() -> Iterator[Browser]:
    from playwright.sync_api import expect, sync_playwright

    from tests.browser import chromium

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        with chromium.launched(playwright) as browser:
            yield browser


@pytest.fixture(scope="module")
def studio(built: None, session_folder: Path) -> Iterator[Studio]:
    home = Path(tempfile.mkdtemp(prefix="b", dir=session_folder))
    project = Path(tempfile.mkdtemp(prefix="p", dir=session_folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNYARD_HOME", str(home))
        patch.setenv("RUNYARD_GRACE", "2")
        patch.chdir(project)
        yield Studio(home, project)
        end_home(home, patience_s=60.0)


@pytest.fixture
def watch(studio: Studio) -> Iterator[Watch]:
    """What happens in the pages of a test; at its end nothing may have gone wrong."""
    from tests.browser.watching import Watch

    found = Watch(studio.url)
    yield found
    assert not found.faults, "in the browser:\n" + "\n".join(found.faults)


@pytest.fixture
def new_page(browser: Browser, studio: Studio, watch: Watch) -> Iterator[NewPage]:
    """Make signed-in, watched pages: `new_page(theme="dark", width=400, signed_in=False)`."""
    made = []

    def make(*, theme: str = "light", width: int = 1280, height: int = 800, signed_in: bool = True) -> Page:
        context = browser.new_context(
            base_url=studio.url,
            color_scheme="dark" if theme == "dark" else "light",
            viewport={"width": width, "height": height},
            timezone_id="Europe/Berlin",
            locale="en-GB",
        )
        made.append(context)
        context.set_default_timeout(PATIENCE_MS)
        watch.attach(context)
        page = context.new_page()
        if SLOW_MS:
            slow_down(page)
        if signed_in:
            page.goto(studio.link("/api/v1/health"))
            page.wait_for_url("**/api/v1/health")
        return page

    yield make
    for context in made:
        context.close()


LATE_FRAMES = """
const later = window.setTimeout;
const SLOW_MS = %d;
window.requestAnimationFrame = (act) => later(() => act(performance.now()), SLOW_MS);
window.cancelAnimationFrame = clearTimeout;
// Preact waits 35 ms for a frame that does not come.
window.setTimeout = (act, ms, ...more) => later(act, ms === 35 ? 10 * SLOW_MS : ms, ...more);
"""


def slow_down(page: Page) -> None:
    page.add_init_script(LATE_FRAMES % SLOW_MS)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    limits = {"offline": False, "latency": SLOW_MS, "downloadThroughput": -1, "uploadThroughput": -1}
    session.send("Network.emulateNetworkConditions", limits)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 2})


@pytest.fixture
def page(new_page: NewPage) -> Page:
    return new_page()


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def shoot() -> Callable[[Page, str], Path]:
    """Write what a page shows as `outputs/browser/NAME.png`."""

    def write(page: Page, name: str, *, full_page: bool = False) -> Path:
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        page.screenshot(path=path, full_page=full_page)
        return path

    return write
