"""A59 and A64 in a browser: pages of other sites, or under a name that is rebound to our server, have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from azureml.core import Run
from runyard.server.access import guard
from tests.attacks.unguarded import unguarded
from tests.browser.attacker import ATTACK, Site, attacking
from tests.browser.studio import Studio, page_key
from tests.server.raw_http import tcp_door

POSTS = [
    ("/api/v1/users", '{"name": "mallory", "role": "admin"}'),
    ("/api/v1/signout", "{}"),
    ("/api/v1/server/stop", "{}"),
]
PLACES = ("http://evil.example:{port}", "http://127.0.0.1:{port}", "http://localhost:{port}")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with attacking() as found:
        found.pages["/attack"] = ("text/html", f"<!doctype html><body><script>{ATTACK}</script>")
        yield found


@pytest.fixture(scope="module")
def live(studio: Studio) -> Iterator[Run]:
    """A run that goes on until it is canceled."""
    run = studio.submit("import time\nwhile True:\n    time.sleep(0.1)\n")
    yield run
    run.cancel()
    run.wait_for_completion(raise_on_error=False)


def visit(browser: Browser, link: str, attacker: str, targets: list[str], reads: list[str], posts: Any) -> list[str]:
    """Sign a browser in, have it open the attacker's page, and return what that page got to see."""
    context = browser.new_context()
    try:
        page = context.new_page()
        signed_in = page.goto(link)
        assert signed_in is not None and signed_in.ok
        page = context.new_page()
        page.goto(f"{attacker}/attack")
        for target in targets:
            page.evaluate("([target, reads, posts]) => attack(target, reads, posts)", [target, reads, posts])
        return list(page.evaluate("window.seen"))
    finally:
        context.close()


def state_of(studio: Studio) -> Any:
    client = studio.client
    return (
        [one.name for one in client.workspaces.list()],
        [user.name for user in client.users.list()],
        [(run.id, run.desired, run.tags, run.display_name) for run in client.runs.iter("default")],
        client.server.info().pid,
    )


def reads_of(run: Run) -> list[str]:
    return ["/", f"/runs/{run.id}", "/static/icon.svg", "/api/v1/server", f"/api/v1/runs/{run.id}", "/api/v1/events"]


@pytest.mark.parametrize("place", PLACES)
def test_a59_a_page_of_another_site_changes_and_reads_nothing(
    browser: Browser, studio: Studio, site: Site, live: Run, place: str
) -> None:
    """`127.0.0.1` on another port is the same site for cookies: a strict one goes with it."""
    before = state_of(studio)
    posts = [*POSTS, (f"/api/v1/runs/{live.id}/cancel", "{}"), (f"/api/v1/runs/{live.id}/fail", "{}")]
    targets = [
        studio.url,
        studio.url.replace("127.0.0.1", "localhost"),
        studio.url.replace("127.0.0.1", "evil.example"),
    ]
    link = studio.link("/api/v1/health")
    seen = visit(browser, link, place.format(port=site.port), targets, reads_of(live), posts)

    assert [words for words in seen if not words.endswith(": ")] == []  # opaque answers are empty
    assert state_of(studio) == before
    assert live.get_status() != "Canceled"


def test_a59_what_a_neighbours_port_is_sent_opens_nothing(browser: Browser, studio: Studio, site: Site) -> None:
    """Another user's server on another port of 127.0.0.1: a real browser sends it our cookie, and no more."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(studio.link("/api/v1/health"))
    page.wait_for_url("**/api/v1/health")
    key = page_key(page)
    page.goto(site.address("127.0.0.1", "/neighbour"))
    sent = next(headers for _, path, headers, _ in site.asked if path == "/neighbour")
    seen = page.evaluate("JSON.stringify([document.cookie, {...localStorage}])")
    context.close()
    port = int(studio.url.rpartition(":")[2])
    stolen = f"Cookie: {sent['cookie']}"

    assert "runyard_" in sent["cookie"] and key and key not in str(sent) + seen
    assert {tcp_door(port).ask("GET", path, [stolen]).status for path in ("/api/v1/server", "/api/v1/users/me")} == {
        401
    }
    body = b'{"name": "mallory", "role": "admin"}'
    headers = [stolen, f"Origin: {studio.url}", "Content-Type: application/json"]
    assert tcp_door(port).ask("POST", "/api/v1/users", headers, body).status == 401
    assert tcp_door(port).ask("GET", "/api/v1/server", [stolen, f"Runyard-Session: {key}"]).status == 200  # the control


def test_a59_a_name_that_is_rebound_to_us_is_not_answered(browser: Browser, studio: Studio, live: Run) -> None:
    before = state_of(studio)
    port = studio.url.rpartition(":")[2]
    seen = rebound(browser, studio.link("/api/v1/health"), f"http://rebind.example:{port}", reads_of(live))

    refused = [words for words in seen if "does not answer to that name" in words]
    assert len(refused) >= 2 * len(reads_of(live))  # it was our server that was asked
    assert [words for words in seen if words not in refused and not words.endswith(": ")] == []
    assert state_of(studio) == before


def rebound(browser: Browser, link: str, origin: str, reads: list[str]) -> list[str]:
    """Open the attacker's page under a name whose every later request goes to our server."""
    context = browser.new_context()

    def first(route: Route) -> None:
        route.fulfill(content_type="text/html", body=f"<!doctype html><body><script>{ATTACK}</script>")

    try:
        context.route(f"{origin}/attack", first)
        context.new_page().goto(link)
        page = context.new_page()
        page.goto(f"{origin}/attack")
        page.evaluate("window.patienceMs = 15000")  # every answer is wanted
        page.evaluate("([target, reads, posts]) => attack(target, reads, posts)", [origin, reads, POSTS])
        return list(page.evaluate("window.seen"))
    finally:
        context.close()


def test_a59_control_without_the_checks_both_attacks_bite(browser: Browser, built: None, site: Site) -> None:
    with unguarded() as weak:
        url = f"http://127.0.0.1:{weak.port}"
        link = url + weak.client().server.signin_path("/api/v1/health")
        visit(browser, link, site.address("127.0.0.1", ""), [url], ["/api/v1/server"], POSTS[:1])
        assert [user.name for user in weak.client().users.list()] == ["mallory"]
        link = url + weak.client().server.signin_path("/api/v1/health")
        seen = rebound(browser, link, f"http://rebind.example:{weak.port}", ["/api/v1/health"])
        assert any(words.replace(" ", "").startswith('fetch:{"ok":true') for words in seen)


PAGES = [
    "/", "/runs", "/experiments", "/compare", "/sweeps/x", "/environments", "/environments/x", "/compute",
    "/compute/local", "/datasets", "/datasets/x", "/models", "/models/x", "/no/such/page", "/api/v1/health",
]  # fmt: skip


def framed(page: Page, site: Site, addresses: list[str], tag: str = "iframe") -> list[str]:
    """Return which addresses are shown in frames of the attacker's page."""
    attribute = "data" if tag == "object" else "src"
    frames = "".join(f'<{tag} {attribute}="{address}"></{tag}>' for address in addresses)
    site.pages["/frames"] = ("text/html", f"<!doctype html><body>{frames}")
    page.goto(site.address("127.0.0.1", "/frames"), wait_until="load")  # a studio in a frame streams
    return [frame.url for frame in page.frames[1:] if frame.url.startswith("http")]


def test_a64_no_page_is_shown_in_a_frame(browser: Browser, studio: Studio, site: Site, live: Run) -> None:
    """From the same site too, where the cookie comes along."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(studio.link("/api/v1/health"))
    addresses = [studio.url + path for path in [*PAGES, f"/runs/{live.id}", f"/api/v1/runs/{live.id}"]]
    try:
        assert framed(page, site, addresses) == []
        assert framed(page, site, addresses, "object") == []
    finally:
        context.close()


def test_a64_control_without_the_checks_or_headers_it_is_shown(browser: Browser, built: None, site: Site) -> None:
    shown = {}
    for has_headers in (True, False):
        with pytest.MonkeyPatch.context() as patch, unguarded() as weak:
            if not has_headers:
                patch.setattr(guard, "secured", list)
            url = f"http://127.0.0.1:{weak.port}"
            context = browser.new_context()
            page = context.new_page()
            page.goto(url + weak.client().server.signin_path("/api/v1/health"))
            page.wait_for_url("**/api/v1/health")
            shown[has_headers] = framed(page, site, [f"{url}/runs"]) == [f"{url}/runs"]
            context.close()

    assert shown == {True: False, False: True}


def test_a64_every_page_forbids_it_by_two_headers(studio: Studio, page: Page, live: Run) -> None:
    """Browsers that do not say where a frame is from are told by the answer itself."""
    for path in [*PAGES, f"/runs/{live.id}", "/static/icon.svg"]:
        headers = page.request.get(path).headers
        assert headers["x-frame-options"] == "DENY", path
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
