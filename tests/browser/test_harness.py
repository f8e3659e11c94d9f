"""The harness itself: a signed-in page of the real server, and faults that it must see."""

from __future__ import annotations

from typing import Callable

from playwright.sync_api import Page

from tests.browser.studio import Studio, ask
from tests.browser.waiting import expect_soon
from tests.browser.watching import Watch


def test_a_page_is_signed_in(studio: Studio, page: Page) -> None:
    assert ask(page, "/api/v1/users/me").json()["role"] == "owner"


def test_a_page_without_a_session_is_told_how_to_sign_in(new_page: Callable[..., Page], watch: Watch) -> None:
    watch.allow("status of 401")
    page = new_page(signed_in=False)
    answer = page.goto("/")

    assert answer is not None and answer.status == 401
    assert "not signed in" in page.inner_text("body")


def test_runs_are_real_and_many_can_be_seeded(studio: Studio, page: Page) -> None:
    studio.fill(1000)
    run = studio.submit("print('hello from the run')")
    run.wait_for_completion()
    listed = ask(page, "/api/v1/workspaces/default/runs?limit=5")
    log = ask(page, f"/api/v1/runs/{run.id}/files/user_logs/std_log.txt").text()

    assert listed.json()["runs"][0]["id"] == run.id
    assert log == "hello from the run\n"
    assert len(list(studio.client.runs.iter("default"))) == 1001


def test_faults_are_seen(page: Page, watch: Watch) -> None:
    page.goto("/")
    page.evaluate("console.error('an error of the page')")
    page.evaluate("setTimeout(() => { throw new Error('thrown in the page') })")
    page.evaluate("alert('a dialog')")
    page.evaluate("fetch('http://elsewhere.example/x').catch(() => 0)")
    provoked = ("an error of the page", "thrown in the page", "a dialog", "http://elsewhere.example")
    expect_soon(page, lambda: [words for words in provoked if words not in "\n".join(watch.faults)], [])
    for words in provoked:
        watch.allow(words)
    watch.allow("Content Security Policy")
    watch.allow("Content-Security-Policy")
