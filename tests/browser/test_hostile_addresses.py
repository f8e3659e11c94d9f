"""A63 reflected text, A65 names that turn text, A66 JSON as a script, A67 where a sign-in leads."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from runyard.server.access import guard
from tests.browser.attacker import Site, attacking
from tests.browser.studio import Studio
from tests.browser.waiting import expect_soon
from tests.server.guarded import serving
from tests.server.test_auth_browser import AWAY

RUN = """<img class=pwned src=x onerror="hit('ran')"><script class=pwned>hit('ran')</script>"""
CODED = quote(RUN, safe="")
REFLECTED = [
    f"/{RUN}",
    f"/{CODED}",
    f"/runs/{CODED}",
    f"/runs/x?tab={CODED}",
    f"/runs?filter={CODED}",
    f"/runs?sort={CODED}&group={CODED}&columns={CODED}",
    f"/compare?run={CODED}&run={CODED}",
    f"/models/{CODED}?version={CODED}",
    f"/static/{CODED}",
    f"/signin/{CODED}",
    f"/signin/{'A' * 43}?next={CODED}",
    f"/no/such/page/{CODED}?x={CODED}#{CODED}",
    f"/api/v1/{CODED}",
    f"/api/v1/runs/{CODED}",
    f"/api/v1/runs/{CODED}/files/{CODED}",
    f"/api/v1/workspaces/{CODED}/runs",
    f"/api/v1/workspaces/default/runs?filter={CODED}",
    f"/api/v1/workspaces/default/runs?limit={CODED}&order={CODED}",
    f"/api/v1/workspaces/default/assets/{CODED}/{CODED}",
    f"/api/v1/runs/x/metrics/chart?name={CODED}&width={CODED}",
    f"/api/v1/{CODED}%0d%0aContent-Type:%20text/html%0d%0a%0d%0a{CODED}",
]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with attacking() as found:
        yield found


def hooked(context: BrowserContext) -> list[str]:
    hits: list[str] = []
    context.expose_function("hit", lambda word="": hits.append(str(word)))
    return hits


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_a63_nothing_of_a_request_comes_back_as_markup(
    studio: Studio, browser: Browser, site: Site, is_signed_in: bool
) -> None:
    """Headers as well: a page's own address, language, agent and cookies. The control is a site that echoes."""
    headers = {"Accept-Language": "x", "User-Agent": RUN, "X-Forwarded-Host": RUN, "Cookie": f"theme={CODED}"}
    context = browser.new_context(extra_http_headers={"X-Odd": RUN, "X-Forwarded-For": RUN}, user_agent=RUN)
    hits = hooked(context)
    page = context.new_page()
    if is_signed_in:
        page.goto(studio.link("/api/v1/health"))
    found = {}
    for address in REFLECTED:
        page.goto(studio.url + address)
        page.wait_for_timeout(60)
        markup = page.evaluate("() => document.querySelectorAll('.pwned').length")
        if markup or hits:
            found[address] = markup, list(hits)
    answers = [context.request.get(studio.url + path, headers=headers) for path in ("/", "/api/v1/x")]
    assert found == {}
    assert not any(RUN in answer.text() for answer in answers)

    site.pages["/echo"] = ("text/html", f"<!doctype html><p>Nothing is at {RUN}")
    page.goto(site.address("127.0.0.1", f"/echo?{CODED}"))
    expect_soon(page, lambda: bool(hits), True)
    context.close()
    assert hits and set(hits) == {"ran"}


def test_a63_no_header_can_be_written_by_a_request(studio: Studio, page: Page) -> None:
    for path in (
        "/runs/%0d%0aX-Pwned:%201",
        "/%0d%0aSet-Cookie:%20pwned=1",
        "/signin/%0d%0aX-Pwned:1",
        "/runs?x=%0aX-Pwned:1",
    ):
        headers = page.request.get(path).headers
        assert "x-pwned" not in headers and "pwned" not in headers.get("set-cookie", ""), path


def test_a65_characters_that_turn_text_are_written_out_on_every_page(studio: Studio, page: Page) -> None:
    """A file that reads `report_exe.txt` is `report_\\u202etxt.exe`. The control: the server holds it as it is."""
    name = "report_\u202etxt.exe"
    run = studio.submit(
        "import os, sys\nfrom azureml.core import Run\nrun = Run.get_context()\n"
        "os.makedirs('outputs', exist_ok=True)\nopen('outputs/' + sys.argv[1], 'w').write('a\\u202eb')\n"
        "print('log \\u202e line')\nrun.log('metric \\u2066 x', 1)\nrun.tag('tag \\u202e x', 'value \\u202e')\n"
        "run.display_name = sys.argv[1]\n",
        name,
        experiment="turned",
    )
    run.wait_for_completion()
    assert f"outputs/{name}" in run.get_file_names()
    turning = "() => document.body.innerText.match(/.{0,40}[\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]+/g)"
    shown = []
    for path in (f"/runs/{run.id}", *(f"/runs/{run.id}?tab={tab}" for tab in ("files", "log", "metrics")), "/runs"):
        page.goto(path)
        page.wait_for_function("() => document.querySelector('main') && !document.querySelector('main .loading')")
        page.wait_for_timeout(100)
        assert page.evaluate(turning) is None, path
        shown.append("\\u20" in page.inner_text("body"))
    assert sum(shown) >= 3


def test_a66_our_json_is_no_script_for_another_site(studio: Studio, browser: Browser, site: Site) -> None:
    """With the cookie, from the same site. The control: the same JSON from a server that says nothing about it."""
    paths = ("/api/v1/workspaces", "/api/v1/workspaces/default/runs", "/api/v1/server", "/api/v1/users/me")
    listed = studio.client.workspaces.list()
    assert listed
    site.pages["/data.js"] = ("text/javascript", '[{"name": "default"}]')
    addresses = [*(studio.url + path for path in paths), site.address("127.0.0.1", "/data.js")]
    tags = "".join(
        f'<script src="{address}" onload="loaded.push(this.src)" onerror="refused.push(this.src)"></script>'
        for address in addresses
    )
    site.pages["/include"] = ("text/html", f"<!doctype html><script>loaded = []; refused = [];</script>{tags}")
    context = browser.new_context()
    page = context.new_page()
    page.goto(studio.link("/api/v1/health"))
    page.goto(site.address("127.0.0.1", "/include"), wait_until="load")
    loaded, refused = page.evaluate("[loaded, refused]")
    context.close()

    assert loaded == addresses[-1:]
    assert sorted(refused) == sorted(addresses[:-1])


SPELLED = [*(target for target in AWAY if target), "//evil.example:{port}/", "/\\evil.example:{port}/"]


def test_a67_a_sign_in_leads_nowhere_else(studio: Studio, browser: Browser, site: Site) -> None:
    """Each spelling, encoded once, as a browser takes it. The control is a server that believes what it is told."""
    context = browser.new_context()
    page = context.new_page()
    for target in SPELLED:
        path = studio.client.server.signin_path("/").partition("?")[0]
        page.goto(f"{studio.url}{path}?next={quote(target.format(port=site.port), safe='')}")
        assert page.url.startswith(f"{studio.url}/"), target
        context.clear_cookies()
    context.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "clean_next", lambda path: path)
        with serving() as weak:
            context = browser.new_context()
            page = context.new_page()
            path = weak.signin.make_path("/").partition("?")[0]
            target = quote(f"//evil.example:{site.port}/", safe="")
            page.goto(f"http://127.0.0.1:{weak.port}{path}?next={target}")
            assert page.url == site.address(path="/")
            context.close()
