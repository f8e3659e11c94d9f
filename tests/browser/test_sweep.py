"""A sweep's page: the best, and why children were cut short, while it goes on and after."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from azureml.core import Environment, Experiment, ScriptRunConfig
from azureml.train.hyperdrive import BanditPolicy, GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, choice
from runyard.core.records import NewRun
from runyard.core.specs import SWEEP_TYPE, RunSpec, SweepSpec
from runyard.core.statuses import RunStatus
from tests.browser.studio import Studio
from tests.browser.waiting import expect_soon

pytestmark = pytest.mark.timeout(400)  # the first test waits for a whole sweep

# The third is stopped by the policy, the fourth crashes.
SCRIPT = """
    import os, sys, time
    from azureml.core import Run
    value, kernel = float(sys.argv[2]), sys.argv[4]
    run = Run.get_context()
    for step in range(3):
        run.log("accuracy", value * (step + 1) / 3)
        run.flush()
    if value == 0.1:
        time.sleep(120)
    if value == 0.5:
        sys.exit("no convergence")
"""


def start(studio: Studio, folder: Path, values: list[float], *, script: str = SCRIPT) -> Any:
    (folder / "train.py").write_text(textwrap.dedent(script))
    environment = Environment("user-managed-env")
    environment.python.user_managed_dependencies = True
    config = HyperDriveConfig(
        GridParameterSampling({"--penalty": choice(*values), "--kernel": choice("rbf")}),
        "accuracy",
        PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=8,
        max_concurrent_runs=1,
        policy=BanditPolicy(slack_amount=0.5),
        run_config=ScriptRunConfig(str(folder), script="train.py", environment=environment),
    )
    return Experiment(studio.workspace, "tune").submit(config)


@pytest.fixture(scope="module")
def sweep(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> str:
    run = start(studio, tmp_path_factory.mktemp("sweep"), [0.7, 0.9, 0.1, 0.5])
    assert run.wait_for_completion(raise_on_error=False)["status"] == "Completed"
    return str(run.id)


def rows(page: Page) -> list[list[str]]:
    return [
        [" ".join(cell.split()) for cell in row.locator("td").all_inner_texts()[1:]]
        for row in page.locator(".sweep-children tbody tr").all()
    ]


def test_the_best_and_the_reasons_are_shown(page: Page, sweep: str, shoot: Callable[..., Path]) -> None:
    page.goto(f"/sweeps/{sweep}")
    expect(page.locator(".sweep-children tbody tr")).to_have_count(4)
    shoot(page, "sweep-light", full_page=True)
    found = rows(page)

    assert [row[:5] for row in found] == [
        ["Child 1", "Completed", "0.9 ★ best", "0.9", "rbf"],
        ["Child 0", "Completed", "0.7", "0.7", "rbf"],
        ["Child 3", "Failed", "0.5", "0.5", "rbf"],
        ["Child 2", "Canceled", "0.1", "0.1", "rbf"],
    ]
    assert [row[6] for row in found[:2]] == ["", ""]
    assert found[2][6] == "Failed UserError: User program ended with exit code 1."
    assert found[3][6].startswith("Stopped early At interval ")
    facts = page.locator(".sweep-facts").inner_text()
    assert "0.9 Child 1" in facts and "Maximize accuracy" in facts and "Bandit (" in facts
    assert "4 of at most 8 runs" in facts and "1 stopped by the policy" in facts and "1 failed" in facts
    page.locator(".sweep-children").get_by_role("button", name="penalty").click()
    expect(page.locator(".sweep-children tbody tr").first).to_contain_text("Child 2")


def test_best_so_far_has_a_dot_per_child_and_a_step_per_better_one(page: Page, sweep: str) -> None:
    page.goto(f"/sweeps/{sweep}")
    expect(page.locator(".progress-dot")).to_have_count(4)
    expect(page.locator(".progress-dot.best")).to_have_count(1)
    expect(page.locator(".progress-dot.cut-short")).to_have_count(2)
    assert page.locator(".progress-dot.best title").text_content() == "Child 1: 0.9"
    line = str(page.locator(".progress-line").get_attribute("d"))

    assert line.startswith("M") and line.count("V") >= 1 and line.endswith("H" + line.rpartition("H")[2])


def test_marks_on_axes_filter_the_table(page: Page, sweep: str) -> None:
    page.goto(f"/sweeps/{sweep}")
    page.get_by_role("slider", name="Mark on best accuracy").press("Enter")
    expect(page.get_by_role("heading", name="3 of 4 children")).to_be_visible()

    expect_soon(page, lambda: [row[0] for row in rows(page)], ["Child 1", "Child 0", "Child 3"])
    expect(page.get_by_role("link", name="Compare the first 3")).to_have_attribute(
        "href", f"/compare?run={sweep}_1&run={sweep}_0&run={sweep}_3"
    )


def test_children_appear_while_the_page_is_open_and_cancel_ends_them(
    page: Page, studio: Studio, tmp_path: Path
) -> None:
    run = start(studio, tmp_path, [0.4, 0.6], script=SCRIPT.replace("value == 0.1", "value == 0.6"))
    page.goto(f"/sweeps/{run.id}")
    expect(page.locator(".sweep-children")).to_contain_text("Child 1", timeout=60_000)
    line = page.locator(".sweep-children tbody tr").filter(has_text="Child 1")
    expect(line).to_contain_text("0.6 ★", timeout=60_000)
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the sweep").click()
    expect(page.locator(".page-head .status")).to_have_text("Canceled", timeout=60_000)

    expect(line).to_contain_text("The sweep was cancelled.")
    assert studio.client.runs.get(run.id).status.value == "Canceled"


def test_a_run_that_is_no_sweep_is_said(page: Page, studio: Studio, watch: Any) -> None:
    watch.allow("status of 400")
    run = studio.submit("print(1)")
    run.wait_for_completion()
    page.goto(f"/sweeps/{run.id}")

    expect(page.get_by_role("alert")).to_contain_text(f"Run {run.id} is no sweep.")
    expect(page.get_by_role("link", name="The run’s own page")).to_be_visible()


def test_narrow_and_dark(new_page: Callable[..., Page], sweep: str, shoot: Callable[..., Path]) -> None:
    page = new_page(theme="dark", width=360)
    page.goto(f"/sweeps/{sweep}")
    expect(page.locator(".sweep-children tbody tr")).to_have_count(4)
    shoot(page, "sweep-dark-360", full_page=True)

    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.fixture(scope="module")
def thousand(studio: Studio) -> str:
    """A finished sweep of 1,000 children, written straight into the store."""
    spec = SweepSpec(
        "RANDOM",
        {
            "--lr": ["loguniform", [-9, 0]],
            "--units": ["choice", [[16, 32, 64]]],
            "--optimizer": ["choice", [["a", "b"]]],
        },
        "accuracy",
        max_total_runs=1000,
    )
    events: list[dict[str, Any]] = []
    start = datetime.now(timezone.utc) - timedelta(minutes=1000)
    with studio.store() as store:
        new = NewRun(key="big", id="HD_big", workspace="default", experiment="big", spec=RunSpec(sweep=spec))
        store.create_run(replace(new, type=SWEEP_TYPE, status=RunStatus.RUNNING))
        for index in range(1000):
            child = f"HD_big_{index}"
            values = {
                "--lr": 10 ** (-4 * (index % 37) / 37),
                "--units": 16 << index % 3,
                "--optimizer": "ab"[index % 2],
            }
            status = "Canceled" if index % 10 == 3 else "Completed"
            best = (index * 7919 % 1000) / 1000
            made = NewRun(key=child, id=child, workspace="default", experiment="big", parent_id="HD_big")
            store.create_run(replace(made, status=RunStatus.RUNNING))
            store.set_status(child, RunStatus(status))
            at = (start + timedelta(minutes=index)).isoformat()
            events += [
                {"kind": "planned", "run": child, "index": index, "parameters": values, "at": at},
                {"kind": "ended", "run": child, "status": status, "best": best, "at": at},
            ]
        events.append({"kind": "finished", "status": "Completed", "reason": "done"})
        store.append_events("HD_big", events, after=0)
        store.set_status("HD_big", RunStatus.COMPLETED)
    return "HD_big"


def test_a_thousand_children_are_one_page(page: Page, thousand: str, shoot: Callable[..., Path]) -> None:
    page.goto(f"/sweeps/{thousand}")
    expect(page.get_by_role("heading", name="1 000 children")).to_be_visible()
    expect(page.locator(".sweep-children tbody tr")).to_have_count(100)
    expect(page.locator(".progress-dot")).to_have_count(1000)
    shoot(page, "sweep-thousand-light", full_page=True)
    best = next(index for index in range(1000) if index * 7919 % 1000 == 999)

    expect_soon(page, lambda: rows(page)[0][:3], [f"Child {best}", "Completed", "0.999 ★ best"])
    page.get_by_role("slider", name="Mark on optimizer").press("Enter")
    expect(page.get_by_role("heading", name="500 of 1 000 children")).to_be_visible()
    expect_soon(page, lambda: {row[5] for row in rows(page)}, {"b"})
