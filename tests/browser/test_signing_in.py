"""Signing in and out in a browser, from a terminal, a file, a chat's page; and A68: what of it is left to be seen."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Browser, Page, Request, Response, expect

from azureml.core import Experiment
from runyard.cli.commands.studio import write_leading_page
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.sdk.runs.details import signin_url
from tests.browser.attacker import Site, attacking
from tests.browser.conftest import NewPage
from tests.browser.studio import Studio, ask
from tests.browser.watching import Watch
from tests.cli.command_line import runyard
from tests.server.team import start_team, team_address

Shoot = Callable[[Page, str], Path]
CODE = re.compile(r"/signin/([A-Za-z0-9_\-]{43})")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with attacking() as found:
        yield found


@pytest.fixture
def stranger(new_page: NewPage, watch: Watch) -> Page:
    """A page of a browser that is not signed in."""
    watch.allow("status of 401")
    watch.allow("request elsewhere")
    return new_page(signed_in=False)


def who(page: Page) -> str:
    answer = ask(page, "/api/v1/users/me")
    return str(answer.json()["role"]) if answer.ok else ""


def test_without_a_session_the_page_says_what_to_type(
    studio: Studio, new_page: NewPage, watch: Watch, theme: str, shoot: Shoot
) -> None:
    watch.allow("status of 401")
    for width in (1280, 360):
        page = new_page(theme=theme, width=width, signed_in=False)
        page.goto("/runs/exp_1")
        expect(page.get_by_role("heading", name="This browser is not signed in")).to_be_visible()
        expect(page.locator("pre")).to_have_text("runyard studio exp_1")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(15, 18, 24)" if theme == "dark" else "rgb(247, 248, 250)")
        shoot(page, f"signin-{theme}-{width}")


def test_the_command_prints_a_link_that_signs_in_once(studio: Studio, stranger: Page, watch: Watch) -> None:
    said = runyard("studio", "--no-browser")
    link = said.stdout.strip()

    assert said.returncode == 0 and CODE.search(link)
    stranger.goto(link)
    assert stranger.url == f"{studio.url}/"
    assert who(stranger) == "owner"
    stranger.context.clear_cookies()
    stranger.goto(link)
    expect(stranger.get_by_text("This link was used before")).to_be_visible()
    assert who(stranger) == ""


def test_the_sdks_addresses_lead_to_their_pages(
    studio: Studio, stranger: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))  # in a notebook, they sign in
    run = studio.submit("print(1)", experiment="addressed")
    stranger.goto(run.get_portal_url())
    assert stranger.url == f"{studio.url}/runs/{run.id}"
    stranger.goto(Experiment(studio.workspace, "addressed").get_portal_url())
    assert stranger.url == f"{studio.url}/runs?experiment=addressed"
    run.wait_for_completion()


def test_a68_neither_code_nor_token_is_left_anywhere(studio: Studio, stranger: Page, site: Site) -> None:
    """Addresses, history, Referer, Location, what scripts can read. The control: the code was in the first request."""
    asked: list[Request] = []
    answered: list[Response] = []
    stranger.on("request", lambda request: asked.extend([request]))
    stranger.on("response", lambda answer: answered.extend([answer]))
    link = studio.link("/runs")
    code = CODE.findall(link)[0]
    stranger.goto(link)
    expect(stranger.get_by_role("navigation")).to_be_visible()
    secrets = (code, studio.client.address.token)

    def holds(text: object) -> bool:
        return any(secret in str(text) for secret in secrets)

    assert holds(asked[0].url)
    assert [request.url for request in asked[1:] if holds(request.url)] == []
    assert [request.url for request in asked if holds(request.all_headers().get("referer", ""))] == []
    assert [answer.url for answer in answered if holds(answer.headers.get("location", ""))] == []
    assert not holds(stranger.url) and not holds(stranger.content())
    readable = "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, document.referrer])"
    assert not holds(stranger.evaluate(readable)) and "runyard_" not in stranger.evaluate("document.cookie")
    entries = stranger.context.new_cdp_session(stranger).send("Page.getNavigationHistory")["entries"]
    assert entries[-1]["url"] == f"{studio.url}/runs"
    assert [entry["url"] for entry in entries if holds(entry["url"])] == []
    stranger.evaluate("(address) => { location.href = address }", site.address(path="/from-ours"))
    stranger.wait_for_url(site.address(path="/from-ours"))
    assert [headers.get("referer") for _, path, headers, _ in site.asked if path == "/from-ours"] == [None]


def test_a_link_on_another_sites_page_signs_in_and_an_open_session_is_found_from_there(
    studio: Studio, stranger: Page, site: Site
) -> None:
    """A strict cookie is left out where another site leads to us: our own page asks again. As in a chat or a mail."""
    follow(stranger, site, studio.link("/experiments"))
    stranger.wait_for_url(f"{studio.url}/experiments")
    assert who(stranger) == "owner"
    follow(stranger, site, f"{studio.url}/runs?experiment=x")
    expect(stranger.get_by_role("navigation")).to_be_visible()
    assert stranger.url == f"{studio.url}/runs?experiment=x"
    stranger.context.clear_cookies()
    follow(stranger, site, f"{studio.url}/runs?experiment=x")
    expect(stranger.get_by_role("heading", name="This browser is not signed in")).to_be_visible()


def follow(page: Page, site: Site, address: str) -> None:
    site.pages["/link"] = ("text/html", f'<!doctype html><a href="{address}">look</a>')
    page.goto(site.address(path="/link"))
    page.get_by_text("look").click()


def test_the_file_that_a_browser_is_given_leads_to_the_link(studio: Studio, stranger: Page) -> None:
    path = write_leading_page(studio.link("/models"), studio.home)

    assert path.stat().st_mode & 0o777 == 0o600
    stranger.goto(path.as_uri())
    stranger.wait_for_url(f"{studio.url}/models")
    assert who(stranger) == "owner"


def test_a58_another_users_link_on_a_page_elsewhere_asks_before_it_signs_in(
    browser: Browser, studio: Studio, site: Site, stranger: Page, shoot: Shoot
) -> None:
    made = studio.client.users.add("mallory", role="user")
    address = studio.client.address
    theirs = Client(Transport(type(address)(**{**vars(address), "token": made.token}))).server

    follow(stranger, site, studio.url + theirs.signin_path("/"))
    expect(stranger.get_by_role("heading", name="Sign in as mallory?")).to_be_visible()
    assert who(stranger) == ""
    shoot(stranger, "signin-confirm")
    stranger.goto(studio.link("/runs"))
    follow(stranger, site, studio.url + theirs.signin_path("/"))
    stranger.get_by_role("link", name="Sign in").click()  # a session that is there stays
    stranger.wait_for_url(f"{studio.url}/")
    assert who(stranger) == "owner"
    stranger.context.clear_cookies()
    follow(stranger, site, studio.url + theirs.signin_path("/"))
    stranger.get_by_role("link", name="Sign in").click()
    stranger.wait_for_url(f"{studio.url}/")
    assert who(stranger) == "user"


def test_signing_out_ends_the_session_at_once(page: Page, watch: Watch) -> None:
    watch.allow("status of 401")
    page.goto("/runs")
    cookie = page.context.cookies()
    page.get_by_role("button", name="Settings").click()
    page.get_by_text("Sign out").click()
    expect(page.get_by_role("heading", name="This browser is not signed in")).to_be_visible()
    assert page.context.cookies() == []
    page.context.add_cookies(cookie)  # a copy that somebody kept
    assert who(page) == ""


def test_a_teams_server_signs_a_user_in_and_out_over_tls(browser: Browser, built: None, home: Path) -> None:
    own = start_team(home)
    made = own.users.add("ada", role="user")
    client = Client(Transport(team_address(own, made.token)))
    base = (client.address.web_url or "").partition("#")[0].rstrip("/")
    watch = Watch(base)
    watch.allow("status of 401")
    context = browser.new_context(ignore_https_errors=True, base_url=base)
    try:
        watch.attach(context)
        page = context.new_page()
        page.goto(signin_url(client, "/runs"))
        assert page.url == f"{base}/runs"
        (cookie,) = context.cookies()
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        page.get_by_role("button", name="Settings").click()
        expect(page.get_by_text("Signed in as ada (user).")).to_be_visible()
        page.get_by_text("Sign out").click()
        expect(page.get_by_role("heading", name="This browser is not signed in")).to_be_visible()
        assert context.cookies() == [] and watch.faults == []
    finally:
        context.close()
