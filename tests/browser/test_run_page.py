"""The run page: a run that is watched and canceled, one that failed on several processes, and the same again."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from azureml.core import Run
from azureml.core.runconfig import PyTorchConfiguration
from runyard.core.records import NewRun, RunChange
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from tests.browser.conftest import NewPage
from tests.browser.studio import Studio
from tests.browser.watching import Watch

A_RUN_MS = 60_000  # until a run starts or ends, which no page can hurry

Shoot = Callable[..., Path]

GROWING = """
import os, sys, time
from azureml.core import Run

run = Run.get_context()
for step in range(100_000):
    run.log("loss", 1 / (1 + step))
    print("step", step, flush=True)
    if step == 5:
        with open("outputs/notes.txt", "w") as file:
            file.write("kept")
    time.sleep(0.02 if step < 50 else 0.2)
"""
RANK_ONE_FAILS = """
import os, sys, time

rank = int(os.environ["RANK"])
print("rank", rank, "is there", flush=True)
if rank == 1:
    raise ValueError("the batch of rank one is bad <b>&</b>")
time.sleep(600)
"""


def points_of(page: Page, metric: str) -> int:
    row = page.get_by_role("region", name="Key metrics").get_by_role("row", name=metric)
    return int(row.get_by_role("cell").last.inner_text())


def test_a_run_is_watched_and_canceled_by_its_button(studio: Studio, page: Page, shoot: Shoot) -> None:
    run = studio.submit(GROWING, "--rate", 0.5)
    page.goto(f"/runs/{run.id}")
    expect(page.get_by_role("heading", name=run.id)).to_be_visible()
    expect(page.locator(".status.pill")).to_have_text("Running", timeout=A_RUN_MS)
    metrics = page.get_by_role("region", name="Key metrics")
    expect(metrics.get_by_role("row", name="loss")).to_be_visible(timeout=A_RUN_MS)
    before, curve = points_of(page, "loss"), metrics.locator("polyline").get_attribute("points")
    page.wait_for_function(
        "before => Number(document.querySelector('[aria-label=\"Key metrics\"] td:last-child').textContent) > before",
        arg=before,
    )
    expect(metrics.locator("polyline")).not_to_have_attribute("points", str(curve))
    expect(page.get_by_role("region", name="Log")).to_contain_text(re.compile(r"step \d+"))
    expect(page.get_by_role("region", name="Files")).to_contain_text("outputs/notes.txt")
    expect(page.get_by_role("region", name="Parameters")).to_contain_text("0.5")
    shoot(page, "run-running", full_page=True)

    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()

    expect(page.locator(".status.pill")).to_have_text("Canceled", timeout=A_RUN_MS)
    assert run.get_status() == "Canceled"
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    rows = page.get_by_role("region", name="Timeline").get_by_role("row")
    expect(rows.filter(has_text="Queued")).to_contain_text("Waiting for its supervisor to start on local")
    expect(rows.filter(has_text="Running")).to_be_visible()


def test_the_page_goes_on_when_the_server_was_restarted(
    studio: Studio, page: Page, watch: Watch, tmp_path: Path
) -> None:
    watch.allow("Failed to load resource")  # while it is away
    gate = tmp_path / "gate"
    run = studio.submit(
        """
        import os, sys, time
        print("first line", flush=True)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.05)
        print("last line", flush=True)
        """,
        str(gate),
    )
    page.goto(f"/runs/{run.id}")
    log = page.get_by_role("region", name="Log")
    expect(log).to_contain_text("first line", timeout=A_RUN_MS)
    with studio.store():
        pass
    gate.touch()

    expect(page.locator(".status.pill")).to_have_text("Completed", timeout=60_000)
    expect(log.get_by_label("Last lines of the log")).to_have_text("first line\nlast line")


def test_a_failed_distributed_run_tells_who_failed_first_and_why_at_the_top(
    studio: Studio, new_page: NewPage, shoot: Shoot
) -> None:
    two = PyTorchConfiguration(process_count=2, node_count=1)
    run = studio.submit(RANK_ONE_FAILS, distributed_job_config=two)
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    page = new_page()
    page.goto(f"/runs/{run.id}")

    found = page.get_by_role("region", name="Diagnosis")
    expect(found.get_by_role("heading", name="This run failed")).to_be_visible()
    expect(found).to_contain_text("rank 1")
    expect(found).to_contain_text("Rank 1 of 2 failed first")
    expect(found).to_contain_text("ValueError: the batch of rank one is bad <b>&</b>")
    lines = found.get_by_label("Last lines of the log")
    expect(lines).to_contain_text("rank 1 is there")
    expect(lines).to_contain_text('raise ValueError("the batch of rank one is bad <b>&</b>")')
    assert found.bounding_box()["y"] < page.get_by_role("navigation", name="Parts of this page").bounding_box()["y"]  # type: ignore[index]
    found.get_by_text("1 other process ended because of it").click()
    expect(found.get_by_role("link", name="rank 0")).to_be_visible()
    link = found.get_by_role("link", name="Open in the log")
    assert re.search(r"tab=log&file=user_logs%2Fstd_log_process_01.txt&line=\d+$", str(link.get_attribute("href")))
    shoot(page, "run-failed-light", full_page=True)
    link.click()
    expect(page.get_by_role("region", name="Log", exact=True)).to_contain_text("rank 1 is there")
    expect(page.get_by_role("status").filter(has_text="This run failed.")).to_contain_text("ValueError")
    page.keyboard.press("5")
    expect(page).to_have_url(re.compile(r"\?tab=code$"))

    dark = new_page(theme="dark")
    dark.goto(f"/runs/{run.id}")
    expect(dark.get_by_role("region", name="Diagnosis")).to_be_visible()
    expect(dark.get_by_role("region", name="Log")).to_be_visible()
    shoot(dark, "run-failed-dark", full_page=True)
    narrow = new_page(width=360)
    narrow.goto(f"/runs/{run.id}")
    expect(narrow.get_by_role("region", name="Log")).to_be_visible()
    assert narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shoot(narrow, "run-failed-narrow", full_page=True)


def test_resubmit_leads_to_the_new_run(studio: Studio, page: Page) -> None:
    first = studio.submit("import sys\nprint('n is', sys.argv[2])", "--n", 7, experiment="again")
    first.wait_for_completion()
    page.goto(f"/runs/{first.id}")
    page.get_by_role("button", name="Resubmit").click()
    page.wait_for_url(lambda url: "/runs/" in url and first.id not in url)
    second = Run.get(studio.workspace, page.url.rpartition("/")[2])
    expect(page.get_by_role("heading", name=second.id)).to_be_visible()
    expect(page.locator(".status.pill")).to_have_text("Completed", timeout=A_RUN_MS)

    assert second.experiment.name == "again" and second.number == 2
    assert second.get_details()["runDefinition"]["arguments"] == ["--n", "7"]
    expect(page.get_by_role("region", name="Log")).to_contain_text("n is 7")


def test_name_tags_and_description_are_changed_in_place(studio: Studio, page: Page) -> None:
    run = studio.submit("print('x')")
    run.wait_for_completion()
    run.tag("team", "vision")
    page.goto(f"/runs/{run.id}")
    page.get_by_role("button", name="Change the display name").click()
    page.get_by_label("Display name").fill("A good <i>name</i>")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="A good <i>name</i>")).to_be_visible()
    page.get_by_role("button", name="+ tag").click()
    page.get_by_label("Tag, as name=value").fill("size = big=yes")
    page.keyboard.press("Enter")
    expect(page.locator(".tag", has_text="size: big=yes")).to_be_visible()
    page.get_by_role("button", name="Remove team").click()
    expect(page.locator(".tag", has_text="vision")).to_have_count(0)
    page.get_by_role("button", name="+ description").click()
    page.get_by_label("Description").fill("two\nlines")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("two\nlines")).to_be_visible()
    page.get_by_role("button", name="Change the description").click()
    page.get_by_label("Description").fill("other")
    page.keyboard.press("Escape")

    record = studio.client.runs.get(run.id)
    assert (record.display_name, record.description) == ("A good <i>name</i>", "two\nlines")
    assert record.tags == {"size": "big=yes"}


def test_keys_choose_tabs_and_show_their_help(studio: Studio, page: Page) -> None:
    run = studio.submit("print('x')")
    run.wait_for_completion()
    page.goto(f"/runs/{run.id}")
    expect(page.get_by_role("heading", name=run.id)).to_be_visible()
    tabs = page.get_by_role("navigation", name="Parts of this page")
    for key, label in (("7", "Children"), ("3", "Log"), ("1", "Overview")):
        page.keyboard.press(key)
        expect(tabs.locator("[aria-current]")).to_have_text(label)
    page.keyboard.press("7")
    expect(page.get_by_role("heading", name="No runs below this one")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Environment")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.go_back()
    expect(tabs.locator("[aria-current]")).to_have_text("Overview")


def test_attempts_waits_and_facts_are_told_and_are_only_text(studio: Studio, new_page: NewPage, shoot: Shoot) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    git = {"commit": "a" * 40, "branch": hostile, "repository_uri": "git@example.com:me/it.git", "dirty": "True"}
    spec = RunSpec(target="local", script="train.py", arguments=["--name", hostile], max_attempts=3)
    with studio.store() as store:
        store.create_run(
            NewRun(
                key="h",
                id="hostile_1",
                workspace="default",
                experiment="browser",
                spec=spec,
                display_name=f"long {hostile} " + "name" * 60,
                description=hostile,
                tags={hostile: hostile, "plain": None},
                parameters={hostile: hostile, "rate": "0.1"},
                properties={f"azureml.git.{name}": value for name, value in git.items()},
            )
        )
        store.set_status("hostile_1", RunStatus.QUEUED, waits_for=f"It waits for a place: taken by `{hostile}`.")
        store.start_attempt("hostile_1", token_hash="t1", waits_for="It was handed to `local`.")
        store.set_status("hostile_1", RunStatus.RUNNING)
        store.fence_attempt("hostile_1", 1, code="NodeLost", why=f"node {hostile} is down", host="n1", is_over=True)
        store.start_attempt("hostile_1", token_hash="t2")
        store.set_status("hostile_1", RunStatus.RUNNING)
        store.update_run("hostile_1", RunChange(warnings_add=[{"source": hostile, "message": hostile}]))
        error = {"code": "UserError", "message": f"{hostile}\n\nLast lines of x:\n{hostile}"}
        lines = {"log": hostile, "last_lines": [hostile], "rank": 0, "exception": {"type": hostile, "message": "m"}}
        store.set_status("hostile_1", RunStatus.FAILED, error={**error, "details": lines})
    page = new_page()
    page.goto("/runs/hostile_1")

    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline).to_contain_text(f"Attempt 1 given up: NodeLost on n1. node {hostile} is down")
    expect(timeline.get_by_role("table", name="Phases of attempt 1").get_by_role("row", name="Queued")).to_contain_text(
        hostile
    )
    expect(timeline.get_by_role("table", name="Phases of attempt 2").get_by_role("row", name="Failed")).to_be_visible()
    expect(page.get_by_role("region", name="Diagnosis")).to_contain_text(hostile)
    expect(page.get_by_role("region", name="Warnings")).to_contain_text(f"{hostile}: {hostile}")
    code = page.get_by_role("region", name="Details").get_by_role("link", name="aaaaaaaaaa")
    assert code.get_attribute("href") == f"https://example.com/me/it/commit/{'a' * 40}"
    assert "noopener" in str(code.get_attribute("rel"))
    assert page.locator("main img").count() == 0
    shoot(page, "run-attempts", full_page=True)
    narrow = new_page(width=360, theme="dark")
    narrow.goto("/runs/hostile_1")
    expect(narrow.get_by_role("region", name="Details")).to_be_visible()
    assert narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shoot(narrow, "run-attempts-narrow", full_page=True)


def test_a_run_that_is_not_there_says_what_to_do(studio: Studio, page: Page, watch: Watch) -> None:
    watch.allow("status of 404")
    page.goto("/runs/nobody_1")

    expect(page.get_by_role("heading", name="There is no such run")).to_be_visible()
    expect(page.locator("main")).to_contain_text("runyard runs restore nobody_1")


def test_a_deleted_run_comes_back_by_undo(studio: Studio, page: Page, watch: Watch) -> None:
    watch.allow("status of 404")  # its tabs may ask once more
    run = studio.submit("print('x')", experiment="gone")
    run.wait_for_completion()
    page.goto(f"/runs/{run.id}")
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Archive").click()
    expect(page.locator(".tag", has_text="archived")).to_be_visible()
    assert studio.client.runs.get(run.id).archived_at is not None
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".tag", has_text="archived")).to_have_count(0)
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url(lambda url: "experiment=gone" in url)
    assert studio.client.runs.list("default", experiment="gone").runs == []
    page.get_by_role("button", name="Undo").click()
    page.wait_for_url(lambda url: run.id in url)

    expect(page.get_by_role("heading", name=run.id)).to_be_visible()
    assert [one.id for one in studio.client.runs.list("default", experiment="gone").runs] == [run.id]


def test_children_are_listed_with_what_tells_them_apart(studio: Studio, page: Page, shoot: Shoot) -> None:
    parent = studio.submit(
        """
        from azureml.core import Run
        run = Run.get_context()
        for at in range(3):
            with run.child_run(f"fold {at}") as child:
                child.log("score", at / 4)
        """
    )
    parent.wait_for_completion()
    page.goto(f"/runs/{parent.id}")
    card = page.get_by_role("region", name="Children")
    expect(card).to_contain_text("3 Completed")
    card.get_by_role("link", name="All children").click()

    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="fold 2")).to_contain_text("0.5")
    shoot(page, "run-children")
    rows.filter(has_text="fold 2").get_by_role("link").click()
    expect(page.get_by_role("navigation", name="Where this run belongs")).to_contain_text(parent.id)
