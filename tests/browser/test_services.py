"""The pages of web services: with a real gateway and real replicas, read back from the page."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from azureml.core import Model
from runyard.client.client import Client
from runyard.client.transport import Transport
from tests.browser.conftest import NewPage
from tests.browser.deployments import Deployments
from tests.browser.studio import Studio
from tests.browser.waiting import expect_soon
from tests.browser.watching import Watch

pytestmark = pytest.mark.timeout(400)
HOSTILE = "<img src=x onerror=alert(1)><b>bold</b>"
SCRIPT = """
import json
def init():
    print("factor {factor} is loaded")
def run(raw):
    data = json.loads(raw)["data"]
    return {{"scores": [{factor} * one for one in data], "note": "<img src=x onerror=alert(1)><b>bold</b>"}}
"""
BROKEN = """
def init():
    raise KeyError("<img src=x onerror=alert(1)><b>bold</b>")
def run(raw):
    return raw
"""
IS_IN_VIEW = """() => {
    const bar = document.querySelector('.bar nav');
    const [outer, inner] = [bar, bar.querySelector('[aria-current]')].map((one) => one.getBoundingClientRect());
    return inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
}"""
FIGURES_MS = 40_000  # the gateway closes a row every ten seconds


@pytest.fixture(scope="module")
def served(studio: Studio) -> Iterator[Deployments]:
    """`doubling` has a revision that doubles, and one that triples and serves; `broken` does not start."""
    (studio.project / "net.json").write_text("{}")
    for _ in range(2):
        Model.register(studio.workspace, model_path=str(studio.project / "net.json"), model_name="net")
    deployments = Deployments(studio)
    tags = {"team": "vision", "mark": HOSTILE}
    first = deployments.revision(SCRIPT.format(factor=2), "net:1")
    made = deployments.deploy("doubling", first, auth=True, tags=tags, description=HOSTILE)
    assert made.state == "Healthy", made.error
    made = deployments.update("doubling", deployments.revision(SCRIPT.format(factor=3), "net:2"))
    assert (made.state, made.current) == ("Healthy", {"": 2})
    assert deployments.deploy("broken", deployments.revision(BROKEN)).state == "Failed"
    yield deployments
    deployments.end()


def send(served: Deployments, target: str, body: str) -> int:
    """Send a request to the service `doubling`; return its status."""
    calls = served.studio.client.webservices
    key, _ = calls.keys("default", "doubling")
    parts = urlsplit(calls.get("default", "doubling").scoring_uri)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    try:
        connection.request("POST", parts.path + target, body, {"Authorization": f"Bearer {key}"})
        return connection.getresponse().status
    finally:
        connection.close()


def signin_of(studio: Studio, token: str) -> str:
    """Return a link that signs in the user of a token."""
    address = studio.client.address
    theirs = Client(Transport(type(address)(**{**vars(address), "token": token}))).server
    return studio.url + theirs.signin_path("/services")


def points(label: str) -> re.Pattern[str]:
    """What a chart with points says of a line."""
    return re.compile(rf"{label}: \d+ points from ")


def region(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def no_markup(page: Page) -> None:
    assert page.locator("main b, main img").count() == 0


def test_an_empty_list_says_what_to_type_next(studio: Studio, page: Page, watch: Watch) -> None:
    watch.allow("status of 404")
    studio.client.workspaces.put("bare")
    page.goto("/models?workspace=bare")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Services").click()

    expect(page).to_have_url(f"{studio.url}/services?workspace=bare")
    expect(page.locator(".empty .command")).to_contain_text("runyard deploy MODEL --entry score.py")
    page.goto("/services/nobody?workspace=bare")
    expect(page.locator(".empty")).to_contain_text("There is no service nobody")
    page.locator(".empty a").click()
    expect(page).to_have_url(f"{studio.url}/services?workspace=bare")


def test_the_list_shows_states_and_follows_a_new_service(served: Deployments, page: Page) -> None:
    page.goto("/services")
    row = page.get_by_role("row", name="doubling")
    expect(row.get_by_role("cell")).to_contain_text(["doubling", "Healthy", "2", "net:2", "", "/doubling/score", ""])
    expect(page.get_by_role("row", name="broken")).to_contain_text("The entry script does not start: KeyError")
    page.get_by_role("searchbox").fill("vision")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("searchbox").fill("")

    served.deploy("coming", served.revision(SCRIPT.format(factor=4)))
    coming = page.get_by_role("row", name="coming")
    expect(coming).to_contain_text("Healthy")
    served.studio.client.webservices.delete("default", "coming")
    expect(coming).to_have_count(0)
    no_markup(page)


def test_a_service_shows_its_address_revisions_and_replicas(served: Deployments, page: Page) -> None:
    service = served.settled("doubling")
    page.goto("/services/doubling")
    expect(page).to_have_title("doubling · Services · Runyard")
    expect(page.get_by_role("heading", level=1)).to_have_text("doubling")
    address = region(page, "Address")
    expect(address.locator("code").first).to_have_text(service.scoring_uri)
    revisions = region(page, "Revisions").locator("tbody tr")
    expect(revisions).to_have_count(2)
    expect(revisions.nth(0)).to_contain_text("Ready")
    expect(revisions.nth(0)).to_contain_text("serves")
    expect(revisions.nth(0)).to_contain_text("by ada")
    expect(revisions.nth(1)).to_contain_text("kept warm")
    expect(revisions.nth(1).get_by_role("link", name="net:1")).to_have_attribute("href", "/models/net?version=1")
    expect(region(page, "About")).to_contain_text(HOSTILE)
    [replica] = [one.run_id for one in service.revisions[1].replicas]
    replicas = region(page, "Replicas")
    expect(replicas.locator("tbody tr").filter(has_text="Running")).to_have_count(2)
    no_markup(page)

    replicas.get_by_role("link", name="Log of replica 2").click()
    expect(page).to_have_url(f"{served.studio.url}/runs/{replica}?tab=log")
    expect(page.locator("main")).to_contain_text("factor 3 is loaded")
    page.get_by_role("link", name="Service", exact=True).click()
    expect(page).to_have_url(f"{served.studio.url}/services/doubling")


def test_the_line_for_a_shell_works_as_it_is(served: Deployments, page: Page) -> None:
    page.goto("/services/doubling")
    line = region(page, "Address").locator("code").nth(1).inner_text()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f"{line} --fail --silent"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )

    assert json.loads(done.stdout)["scores"] == []


def test_figures_are_drawn_and_grow(served: Deployments, page: Page) -> None:
    page.goto("/services/doubling")
    for _ in range(20):
        assert send(served, "", '{"data": [1]}') == 200
    requests = page.locator(".service-chart").filter(has_text="Requests in ten seconds").get_by_role("img")
    expect(requests).to_have_attribute("aria-label", points("requests"), timeout=FIGURES_MS)
    before = requests.get_attribute("aria-label")
    expect(requests).not_to_have_attribute("aria-label", str(before), timeout=FIGURES_MS)
    for title in ("Latency", "Wait in the queue", "Requests in a batch", "Workers", "Memory of all workers"):
        chart = page.locator(".service-chart").filter(has_text=title).first
        chart.scroll_into_view_if_needed()
        expect(chart.get_by_role("img")).to_have_attribute("aria-label", points(r"\w+"))
    expect(page.locator(".stat").filter(has_text="workers busy")).to_contain_text("of 2")
    page.goto("/services")
    expect(page.get_by_role("row", name="doubling").get_by_role("cell").nth(4)).to_have_text(re.compile(r"^[\d.]+$"))


def test_charts_of_an_old_service_keep_to_the_last_hour_or_what_is_chosen(served: Deployments, page: Page) -> None:
    """Its age is said by an answer that stands in for the server's."""

    def older(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "created_at": "2026-01-01T00:00:00+00:00"})

    spans: list[int | None] = []  # of the windows that charts ask for; None is all

    def note(request: Request) -> None:
        for wish in request.post_data_json["series"]:
            spans.append(round((wish["last"] - wish["first"]) / 1e9) if "first" in wish else None)

    page.route("**/api/v1/workspaces/default/services/doubling", older)
    page.on("request", lambda request: note(request) if request.url.endswith("/api/v1/charts") else None)
    with_air = 1.04  # the windows are a little wider on both sides, so that lines reach the edges
    page.goto("/services/doubling")
    expect_soon(page, lambda: spans[-1:], [round(3600 * with_air)])
    choices = page.get_by_role("group", name="Time that the charts show")
    choices.get_by_role("button", name="15 min").click()
    expect_soon(page, lambda: spans[-1:], [round(900 * with_air)])
    expect(page).to_have_url(f"{served.studio.url}/services/doubling?last=15min")
    choices.get_by_role("button", name="All").click()
    expect_soon(page, lambda: spans[-1:], [None])
    page.unroute_all(behavior="ignoreErrors")


def test_a_request_is_sent_and_its_answer_is_text(served: Deployments, page: Page, watch: Watch) -> None:
    watch.allow("status of 400")
    page.goto("/services/doubling")
    page.get_by_role("link", name="Try it", exact=True).click()
    body = page.get_by_label("Body", exact=True)
    expect(body).to_have_value('{\n  "data": []\n}')
    body.fill('{"data": [1, 7]}')
    body.press("Control+Enter")
    answer = region(page, "Answer")
    expect(answer.locator(".status")).to_have_text("200")
    shown = page.get_by_role("group", name="Body of the answer")
    expect(shown).to_contain_text('"scores": [3, 21]')
    expect(shown).to_contain_text(HOSTILE)
    no_markup(page)

    body.fill("no JSON")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answer.locator(".status")).to_have_text("500")
    expect(answer.get_by_role("link", name="replica 2")).to_be_visible()

    page.get_by_label("Operation").select_option(label="GET / – Says that the service is up.")
    expect(page).to_have_url(f"{served.studio.url}/services/doubling?tab=try&method=GET&path=%2F")
    expect(body).to_have_count(0)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(shown).to_have_text("Healthy\n")

    page.get_by_label("Path below the service’s address").fill("../other")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("is not a path of a service")


def test_a_file_is_sent_as_it_is(served: Deployments, page: Page) -> None:
    page.goto("/services/doubling?tab=try")
    content = {"name": "body.json", "mimeType": "application/json", "buffer": b'{"data": [5]}'}
    page.get_by_label("Send a file…").set_input_files(content)  # type: ignore[arg-type]  # a FilePayload
    expect(page.get_by_label("Content type")).to_have_value("application/json")
    page.get_by_role("button", name="Send", exact=True).click()

    expect(page.get_by_role("group", name="Body of the answer")).to_contain_text('"scores": [15]')


def test_the_document_is_shown_and_leads_to_trying_it(served: Deployments, page: Page) -> None:
    page.goto("/services/doubling?tab=api")
    document = region(page, "The OpenAPI document")
    expect(document).to_contain_text('"openapi": "3.0.3"')
    operations = region(page, "Operations").locator("tbody tr")
    expect(operations).to_have_count(3)
    operations.get_by_role("link", name="Try GET /swagger.json").click()
    expect(page.get_by_label("Method")).to_have_value("GET")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(region(page, "Answer").locator(".status")).to_have_text("200")


def test_requests_appear_while_they_are_looked_at(served: Deployments, page: Page) -> None:
    page.goto("/services/doubling?tab=requests")
    lines = region(page, "Access log").locator("table.service-requests tbody tr")
    expect(lines.first).to_be_visible()
    target = f"?word={HOSTILE.replace(' ', '_')}"
    assert send(served, target, "no JSON") == 500
    expect(lines.first).to_contain_text(f"POST /score{target}")
    expect(lines.first.locator(".status")).to_have_text("500")
    no_markup(page)

    page.get_by_role("button", name="Errors only").click()
    expect_soon(page, lambda: set(lines.locator(".status").all_inner_texts()) <= {"500", "400"}, True)
    page.get_by_role("searchbox", name="Find requests").fill("no such line")
    expect(region(page, "Access log")).to_contain_text("No request fits")


def test_keys_are_shown_when_asked_for_and_made_anew(served: Deployments, page: Page) -> None:
    calls = served.studio.client.webservices
    page.goto("/services/doubling")
    keys = region(page, "Keys")
    old, other = calls.keys("default", "doubling")
    expect(keys.get_by_role("row", name="Primary")).to_be_visible()
    assert old not in page.content() and other not in page.content()
    keys.get_by_role("button", name="Show keys").click()
    expect(keys.get_by_role("row", name="Primary").locator("code")).to_have_text(old)

    keys.get_by_role("button", name="New key in place of the primary one").click()
    page.get_by_role("dialog").get_by_role("button", name="Make a new key").click()
    expect(keys.get_by_role("row", name="Primary").locator("code")).not_to_have_text(old)
    new, same = calls.keys("default", "doubling")
    expect(keys.get_by_role("row", name="Primary").locator("code")).to_have_text(new)
    assert new != old and same == other


def test_a_start_that_failed_says_why_first(served: Deployments, page: Page) -> None:
    page.goto("/services/broken")
    fault = region(page, "Why it does not work")
    expect(fault.get_by_role("heading")).to_have_text("Revision 1 did not start")
    expect(fault.locator(".service-cause")).to_contain_text("The entry script does not start: KeyError")
    expect(fault.get_by_role("group", name="The end of its log")).to_contain_text(HOSTILE)
    no_markup(page)
    fault.get_by_role("link", name="The whole log of its last replica").click()
    expect(page.locator("main")).to_contain_text("KeyError")
    page.go_back()

    ghost = served.deploy("ghost", served.revision(SCRIPT.format(factor=2), f"{HOSTILE}:1"))
    assert ghost.state == "Failed"
    for path in ("/services/ghost", "/services", "/models/net"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        if path != "/models/net":
            expect(page.get_by_role("link", name=f"{HOSTILE}:1")).to_be_visible()
        no_markup(page)


def test_an_update_and_the_way_back_are_followed(served: Deployments, page: Page) -> None:
    page.goto("/services/doubling")
    expect(page.locator(".page-head")).to_contain_text("revision 2")
    served.update("doubling", served.revision(BROKEN, "net:2"))
    fault = region(page, "Why it does not work")
    expect(fault).to_contain_text("Revision 3 did not start")
    expect(fault).to_contain_text("Revision 2 goes on to answer.")
    assert send(served, "", '{"data": [1]}') == 200

    page.get_by_role("button", name="Roll back to revision 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.locator(".page-head")).to_contain_text("revision 1")
    expect(fault).to_have_count(0)
    page.goto("/services/doubling?tab=try")
    page.get_by_label("Body", exact=True).fill('{"data": [1]}')
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("group", name="Body of the answer")).to_contain_text('"scores": [2]')

    page.goto("/models/net")
    served_by = region(page, "Served by")
    expect(served_by).to_contain_text("version 1, not this one")
    served_by.get_by_role("link").click()
    page.get_by_role("button", name="Roll back to revision 2").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.locator(".page-head")).to_contain_text("revision 2")


def test_a_reader_sees_the_service_and_changes_nothing(served: Deployments, new_page: NewPage, watch: Watch) -> None:
    watch.allow("status of 403")
    made = served.studio.client.users.add("rita", role="reader")
    page = new_page(signed_in=False)
    page.goto(signin_of(served.studio, made.token))
    page.goto("/services/doubling")
    expect(page.locator(".page-head")).to_contain_text("Healthy")
    before = served.studio.client.webservices.get("default", "doubling")
    for button, answer in (
        ("Show keys", None),
        ("New key in place of the primary one", "Make a new key"),
        ("Roll back to revision 1", "Roll back"),
        ("Delete", "Delete the service"),
    ):
        page.get_by_role("button", name=button, exact=True).click()
        if answer:
            page.get_by_role("dialog").get_by_role("button", name=answer).click()
        note = page.locator(".note.bad").last
        expect(note).to_contain_text("You may not")
        note.get_by_role("button", name="Close").click()
    page.goto("/services/doubling?tab=try")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("You may not")

    assert served.studio.client.webservices.get("default", "doubling").updated_at == before.updated_at


def test_the_tabs_are_reached_by_keys(served: Deployments, page: Page) -> None:
    page.goto("/services/doubling")
    expect(region(page, "Address")).to_be_visible()
    for key, name in (("2", "Request"), ("3", "Access log"), ("4", "Operations"), ("1", "Address")):
        page.keyboard.press(key)
        expect(region(page, name)).to_be_visible()


def test_pages_fit_each_screen_in_both_themes(
    served: Deployments, new_page: NewPage, theme: str, shoot: Callable[..., Path]
) -> None:
    paths = ["/services", "/services/broken", "/models/net"]
    paths += [f"/services/doubling?tab={tab}" for tab in ("overview", "try", "requests", "api")]
    for width in (390, 1440, 2560):
        page = new_page(theme=theme, width=width)
        for number, path in enumerate(paths):
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.locator(".asset-skeleton")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            shoot(page, f"services-{theme}-{width}-{number}", full_page=True)
        expect_soon(page, lambda: page.evaluate(IS_IN_VIEW), True)  # noqa: B023  # it is called here


def test_a_service_is_deleted_after_a_question(served: Deployments, page: Page) -> None:
    served.deploy("leaving", served.revision(SCRIPT.format(factor=2)))
    page.goto("/services/leaving")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert served.settled("leaving").state == "Healthy"
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the service").click()

    expect(page).to_have_url(f"{served.studio.url}/services")
    expect(page.get_by_role("row", name="doubling")).to_be_visible()
    expect(page.get_by_role("row", name="leaving")).to_have_count(0)
