"""axe-core finds nothing serious on any page, in light and in dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from azureml.core import Dataset, Environment
from azureml.core.compute import AmlCompute, ComputeTarget
from runyard.core.records import NewRun
from runyard.core.specs import SWEEP_TYPE, RunSpec, SweepSpec
from runyard.core.statuses import RunStatus
from tests.browser.conftest import NewPage
from tests.browser.deployments import Deployments
from tests.browser.studio import Studio
from tests.browser.watching import Watch

pytestmark = pytest.mark.timeout(400)
AXE = Path(__file__).parent.parent.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")
TRAIN = """
import os, sys
from azureml.core import Run
run = Run.get_context()
for step in range(30):
    run.log("train/loss", float(sys.argv[2]) / (step + 1))
run.log_table("per class", {"class": ["cat", "dog"], "recall": [0.9, 0.8]})
run.log_list("words", ["one", "two"])
os.makedirs("outputs/net", exist_ok=True)
open("outputs/net/weights.bin", "wb").write(bytes(range(256)))
open("outputs/scores.csv", "w").write("id,score\\n1,0.5\\n2,0.7\\n")
open("outputs/facts.json", "w").write('{"a": [1, 2, {"b": null}]}')
open("outputs/notes.md", "w").write("# Notes\\n\\nSee [a page](https://example.org) and `code`:\\n\\n- one\\n- two\\n")
print("\\033[32mgreen\\033[0m and \\033[31mred\\033[0m and \\033[33myellow\\033[0m")
run.tag("team", "vision")
if sys.argv[2] == "3":
    raise KeyError("shard 7")
"""
SCORE = """
import json
def run(raw):
    return json.loads(raw)["data"]
"""


@pytest.fixture(scope="module")
def addresses(studio: Studio) -> Iterator[list[str]]:
    """Every page, with something on it; the last run has failed."""
    runs = [studio.submit(TRAIN, "--rate", rate) for rate in (1, 2, 3)]
    for run in runs:
        run.wait_for_completion(raise_on_error=False)
    fill_assets(studio, runs[0])
    sweep = made_sweep(studio)
    deployments = Deployments(studio)
    deployments.deploy("echo", deployments.revision(SCORE, "net:1"), auth=True, tags={"team": "vision"})
    deployments.deploy("broken", deployments.revision("raise KeyError('shard 7')"))
    first, second, failed = (run.id for run in runs)
    compared = f"run={first}&run={second}&run={failed}"
    files = ("net/weights.bin", "scores.csv", "facts.json", "notes.md")
    yield [
        "/runs",
        "/runs?group=experiment",
        "/experiments",
        *(f"/runs/{first}?tab={tab}" for tab in ("overview", "metrics", "log", "files", "code", "environment")),
        *(f"/runs/{first}?tab=files&file=outputs/{name}" for name in files),
        f"/runs/{first}?tab=metrics&metric=train%2Floss",
        f"/runs/{first}?tab=code&against={second}",
        f"/runs/{first}?tab=environment&against={second}",
        f"/runs/{failed}",
        f"/runs/{failed}?tab=log",
        f"/runs/{sweep}?tab=children",
        f"/sweeps/{sweep}",
        *(f"/compare?{compared}&tab={tab}" for tab in ("charts", "differences", "scatter", "parallel")),
        "/models",
        "/models/net",
        "/datasets",
        "/datasets/digits",
        "/environments",
        "/environments/training",
        "/compute",
        "/compute/pool",
        "/services",
        *(f"/services/echo?tab={tab}" for tab in ("overview", "try", "requests", "api")),
        "/services/broken",
        "/services?workspace=bare",
        "/no/such/page",
    ]
    deployments.end()


def fill_assets(studio: Studio, run: Any) -> None:
    ws = studio.workspace
    studio.client.workspaces.put("bare")
    run.register_model("net", "outputs/net", tags={"team": "vision"}, description="A net.")
    run.register_model("net", "outputs/net")
    (studio.project / "data").mkdir()
    (studio.project / "data" / "a.csv").write_text("1,2\n")
    store = ws.get_default_datastore()
    store.upload(str(studio.project / "data"), target_path="digits", show_progress=False)
    Dataset.File.from_files((store, "digits")).register(ws, "digits", tags={"team": "vision"})
    environment = Environment("training")
    environment.environment_variables = {"MODE": "fast"}
    environment.register(ws)
    ComputeTarget.create(ws, "pool", AmlCompute.provisioning_configuration("STANDARD_D2", max_nodes=2))


def made_sweep(studio: Studio) -> str:
    """A finished sweep of eight children, written straight into the store."""
    space = {"--lr": ["loguniform", [-9, 0]], "--optimizer": ["choice", [["a", "b"]]]}
    spec = SweepSpec("RANDOM", space, "accuracy", max_total_runs=8)
    start = datetime.now(timezone.utc) - timedelta(minutes=10)
    events: list[dict[str, Any]] = []
    with studio.store() as store:
        new = NewRun(key="s", id="HD_s", workspace="default", experiment="sweeps", spec=RunSpec(sweep=spec))
        store.create_run(replace(new, type=SWEEP_TYPE, status=RunStatus.RUNNING))
        for index in range(8):
            child, at = f"HD_s_{index}", (start + timedelta(minutes=index)).isoformat()
            made = NewRun(key=child, id=child, workspace="default", experiment="sweeps", parent_id="HD_s")
            store.create_run(replace(made, status=RunStatus.RUNNING))
            status = "Canceled" if index == 3 else "Completed"
            store.set_status(child, RunStatus(status))
            values = {"--lr": 10 ** (-index / 2), "--optimizer": "ab"[index % 2]}
            events.append({"kind": "planned", "run": child, "index": index, "parameters": values, "at": at})
            events.append({"kind": "ended", "run": child, "status": status, "best": index / 8, "at": at})
        events.append({"kind": "finished", "status": "Completed", "reason": "done"})
        store.append_events("HD_s", events, after=0)
        store.set_status("HD_s", RunStatus.COMPLETED)
    return "HD_s"


def settle(page: Page) -> None:
    """Wait until nothing is loading and all animations are over: a fading text has less contrast."""
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    expect(page.locator(".loading, .asset-skeleton, [data-loading=true]")).to_have_count(0)


def violations(page: Page) -> list[str]:
    """Return what axe-core finds grave: the rule, and up to three of the elements."""
    session = page.context.new_cdp_session(page)  # our policy refuses scripts that a page is given otherwise
    session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    run = "axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify(found.violations))"
    answer = session.send("Runtime.evaluate", {"expression": run, "awaitPromise": True, "returnByValue": True})
    session.detach()
    found = json.loads(answer["result"]["value"])
    return [
        f"{one['id']} ({len(one['nodes'])}): " + " | ".join(node["html"][:160] for node in one["nodes"][:3])
        for one in found
        if one["impact"] in GRAVE
    ]


def test_nothing_serious_on_any_page(addresses: list[str], new_page: NewPage, theme: str, watch: Watch) -> None:
    watch.allow("status of 404")
    page = new_page(theme=theme)
    found = {}
    for address in addresses:
        page.goto(address)
        settle(page)
        if faults := violations(page):
            found[address] = faults

    assert found == {}, "\n".join(f"{address}\n    " + "\n    ".join(faults) for address, faults in found.items())


def test_control_a_grave_fault_is_found(addresses: list[str], page: Page) -> None:
    page.goto("/models")
    settle(page)
    page.evaluate(
        """() => {
            const main = document.querySelector('main');
            const button = main.appendChild(document.createElement('button'));
            button.style.width = button.style.height = '20px';
            const text = main.appendChild(document.createElement('p'));
            text.textContent = 'too pale to be read';
            text.style.color = '#e0e0e0';
        }"""
    )

    assert [one.split(" ")[0] for one in violations(page)] == ["button-name", "color-contrast"]
