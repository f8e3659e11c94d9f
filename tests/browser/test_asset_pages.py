"""Models, datasets, environments and compute targets: lists, pages, empty states, and a queue that moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from azureml.core import Dataset, Environment
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.conda_dependencies import CondaDependencies
from tests.browser.conftest import NewPage
from tests.browser.studio import Studio
from tests.browser.watching import Watch

Shoot = Callable[..., Path]
PLACES = ("models", "datasets", "environments", "compute")
HOSTILE = "<img src=x onerror=alert(1)><b>bold</b>"
LONG = "a-very-long-name-" * 8 + "end"


@pytest.fixture(scope="module")
def filled(studio: Studio) -> Iterator[Studio]:
    """A server with two versions of a model, a dataset and an environment, a pool of one node, and a run of each."""
    ws = studio.workspace
    store = ws.get_default_datastore()
    (studio.project / "data").mkdir()
    for name, text in (("a.csv", "1,2\n"), ("b.csv", "3,4\n" * 1000)):
        (studio.project / "data" / name).write_text(text)
    store.upload(str(studio.project / "data"), target_path="digits", show_progress=False)
    data = Dataset.File.from_files((store, "digits")).register(
        ws, "digits", description=HOSTILE, tags={"team": "vision"}
    )
    data.take(1).register(ws, "digits", create_new_version=True)
    Dataset.File.from_files((store, "digits/*.csv")).register(ws, LONG)

    for packages in (["joblib"], ["joblib==1.3.2", "numpy>=1.20"]):
        environment = Environment("sklearn-env")
        environment.python.conda_dependencies = CondaDependencies.create(pip_packages=packages, python_version="3.10")
        environment.environment_variables = {"MODE": HOSTILE, "API_TOKEN": "hunter2"}
        environment.register(ws)

    run = studio.submit(
        """
        import os
        os.makedirs("outputs/net", exist_ok=True)
        open("outputs/net/weights.bin", "wb").write(b"w" * 2000)
        open("outputs/net/<b>odd & name.txt", "w").write("odd")
        """,
        "--data",
        data.as_named_input("training").as_download(),
    )
    run.wait_for_completion()
    for description in ("first", HOSTILE):
        run.register_model(
            "net", "outputs/net", tags={"team": "vision"}, properties={"f1": "0.91"}, description=description
        )
    ComputeTarget.create(ws, "pool", AmlCompute.provisioning_configuration("STANDARD_D2", max_nodes=1))
    studio.run_id = run.id  # type: ignore[attr-defined]  # for the tests below
    yield studio


def test_empty_lists_say_what_to_type_next(studio: Studio, page: Page, watch: Watch) -> None:
    watch.allow("status of 404")
    studio.client.workspaces.put("bare")
    commands = {
        "models": "run.register_model(",
        "datasets": ".register(ws, 'my-data')",
        "environments": ".register(ws)",
        "compute": "runyard compute create",
    }
    for place in PLACES:
        page.goto(f"/{place}?workspace=bare")
        expect(page.locator(".empty .command")).to_contain_text(commands[place])
        page.goto(f"/{place}/nobody?workspace=bare")
        expect(page.locator(".empty")).to_contain_text("nobody")
        page.locator(".empty a").click()
        expect(page).to_have_url(f"{studio.url}/{place}?workspace=bare")


def test_a_model_shows_its_versions_files_and_run(filled: Studio, page: Page) -> None:
    run_id = filled.run_id  # type: ignore[attr-defined]  # set above
    page.goto("/models")
    row = page.get_by_role("row", name="net")
    expect(row.get_by_role("cell")).to_contain_text(["net", "2", "", "2.0 kB", "team: vision", run_id, ""])
    row.get_by_role("link", name="net", exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_have_text("net")
    expect(page).to_have_title("net · Models · Runyard")
    about = page.get_by_role("region", name="About")
    expect(about).to_contain_text(HOSTILE)
    expect(about).to_contain_text("0.91")
    expect(about.get_by_role("link", name=run_id)).to_have_attribute("href", f"/runs/{run_id}")
    assert page.locator("main b, main img").count() == 0
    files = page.get_by_role("region", name="Files")
    for name, content in (("net/weights.bin", b"w" * 2000), ("net/<b>odd & name.txt", b"odd")):
        with page.expect_download() as download:
            files.get_by_role("link", name=f"Download {name}").click()
        assert Path(download.value.path()).read_bytes() == content

    page.get_by_role("link", name="Version 1").click()
    expect(page).to_have_url(f"{filled.url}/models/net?version=1")
    expect(about).to_contain_text("first")
    page.goto("/models/net?version=7")
    expect(page.locator(".empty")).to_contain_text("has no version 7")


def test_a_dataset_shows_its_data_and_who_read_it(filled: Studio, page: Page) -> None:
    page.goto("/datasets")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("searchbox").fill("digits")
    expect(page).to_have_url(f"{filled.url}/datasets?find=digits")
    page.get_by_role("searchbox").fill("no such thing")
    expect(page.locator("main")).to_contain_text("No dataset fits")
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("link", name="digits", exact=True).click()

    about = page.get_by_role("region", name="About")
    expect(about).to_contain_text("take 1")
    page.get_by_role("link", name="Version 1").click()
    expect(about).to_contain_text(HOSTILE)
    source = page.get_by_role("region", name="workspaceblobstore/digits")
    expect(source).to_contain_text("2 files, 4.0 kB")
    with page.expect_download() as download:
        source.get_by_role("link", name="a.csv").click()
    assert Path(download.value.path()).read_text() == "1,2\n"
    used = page.get_by_role("region", name="Used by")
    expect(used.locator("tbody tr")).to_have_count(1)
    expect(used).to_contain_text("version 1 as training (download)")


def test_an_environment_shows_its_packages_and_hides_secrets(filled: Studio, page: Page) -> None:
    page.goto("/environments")
    row = page.get_by_role("row", name="sklearn-env")
    expect(row.get_by_role("cell")).to_contain_text(["sklearn-env", "2", "3.10", "joblib==1.3.2, numpy>=1.20"])
    expect(page.get_by_role("region", name="Built on the server’s machine")).to_contain_text("Nothing yet")
    row.get_by_role("link").click()

    packages = page.get_by_role("region", name="Pip packages")
    expect(packages.get_by_role("listitem")).to_contain_text(["joblib", "numpy"])
    expect(packages).to_contain_text("==1.3.2")
    variables = page.get_by_role("region", name="Variables")
    expect(variables).to_contain_text(HOSTILE)
    expect(variables).not_to_contain_text("hunter2")
    page.get_by_role("link", name="Version 1").click()
    expect(packages.get_by_role("listitem")).to_have_count(1)


def test_a_queue_moves_while_it_is_shown(filled: Studio, page: Page) -> None:
    script = """
        import os, time
        while not os.path.exists({!r}):
            time.sleep(0.05)
    """
    gates = [filled.project / "gate-1", filled.project / "gate-2"]
    first, second = (filled.submit(script.format(str(gate)), compute_target="pool") for gate in gates)
    page.goto("/compute")
    expect(page.get_by_role("row", name="local")).to_contain_text("machine")
    row = page.get_by_role("row", name="pool")
    expect(row.get_by_role("cell").nth(2)).to_have_text("1 of 1 busy", timeout=60_000)
    row.get_by_role("link").click()

    queue, running, nodes = (
        page.get_by_role("region", name=name, exact=True) for name in ("Queue", "Running", "Nodes")
    )
    expect(queue.get_by_role("link")).to_have_text(second.id, timeout=60_000)
    expect(queue.locator("tbody td").last).to_contain_text("node")
    expect(running.get_by_role("link")).to_have_text(first.id, timeout=60_000)
    expect(nodes.get_by_role("link")).to_have_text(first.id)

    gates[0].touch()
    expect(running.get_by_role("link")).to_have_text(second.id, timeout=60_000)
    expect(queue).to_contain_text("Nothing waits")
    gates[1].touch()
    expect(running).to_have_count(0, timeout=60_000)


def test_what_engines_and_builds_say_is_shown(filled: Studio, new_page: NewPage, theme: str, shoot: Shoot) -> None:
    """Answers of a cluster and of a machine with built environments stand in for them."""
    page = new_page(theme=theme)
    node: dict[str, Any] = {
        "run_id": None,
        "gpus": [],
        "address": "10.0.0.1",
        "cpus": 64,
        "gpu_count": 8,
        "memory_bytes": 512 << 30,
    }
    nodes = [
        {**node, "name": "gpu-01", "state": "ALLOCATED", "note": "", "run_id": "exp_1"},
        {**node, "name": "gpu-02", "state": "DRAINED", "note": HOSTILE},
        {**node, "name": "gpu-03", "state": "IDLE", "note": ""},
    ]
    run = {"node_count": 2, "gpus": [], "waits_for": ""}
    waiting = [{**run, "run_id": f"exp_{n}", "waits_for": "Slurm: (Priority), 3 jobs before it"} for n in (2, 3)]
    target = filled.client.transport.request("GET", "/workspaces/default/compute/pool").json()
    target = {**target, "nodes": nodes, "running": [{**run, "run_id": "exp_1"}], "waiting": waiting, "note": "Slow."}
    page.route("**/api/v1/workspaces/default/compute/pool", lambda route: route.fulfill(json=target))
    page.goto("/compute/pool")
    found = page.get_by_role("region", name="Nodes", exact=True)
    expect(found.locator("tbody tr").nth(0)).to_contain_text("gpu-01ALLOCATED648550 GBexp_1")
    expect(found.locator("tbody tr").nth(1)).to_contain_text(HOSTILE)
    expect(found.locator(".status.bad")).to_have_count(1)
    expect(page.get_by_role("region", name="Queue", exact=True).locator("tbody tr")).to_have_count(2)
    expect(page.locator(".asset-note")).to_have_text("Slow.")
    shoot(page, f"assets-{theme}-cluster", full_page=True)

    packages = [f"package-{n}=={n}.0" for n in range(20)]
    one: dict[str, Any] = {
        "key": "0f" * 16,
        "path": "/home/x",
        "name": "sklearn-env",
        "kind": "uv",
        "python": "3.10.14",
        "runs": ["exp_1"],
    }
    one |= {"built_at": time.time(), "used_at": time.time() - 90, "is_finished": True, "size_bytes": 3_400_000_000}
    other = {**one, "key": "a1" * 16, "name": "", "size_bytes": 52_000_000, "is_finished": False, "runs": []}
    built = [{**one, "requirements": packages}, {**other, "requirements": ["joblib"]}]
    page.route("**/api/v1/environments", lambda route: route.fulfill(json=built))
    page.goto("/environments")
    rows = page.get_by_role("region", name="Built on the server’s machine").locator("tbody tr")
    expect(rows.nth(0)).to_contain_text("3.4 GB")
    rows.nth(0).get_by_text("20 requirements").click()
    expect(rows.nth(0).get_by_text("package-19==19.0")).to_be_visible()
    expect(rows.nth(1)).to_contain_text("not finished")
    shoot(page, f"assets-{theme}-built", full_page=True)


def test_pages_fit_a_narrow_screen_in_both_themes(filled: Studio, new_page: NewPage, theme: str, shoot: Shoot) -> None:
    paths = ["/models", "/models/net", "/datasets", f"/datasets/{LONG}", "/datasets/digits?version=1", "/compute"]
    paths += ["/compute/pool", "/environments", "/environments/sklearn-env"]
    for width in (360, 1280):
        page = new_page(theme=theme, width=width)
        for number, path in enumerate(paths):
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.locator(".asset-skeleton")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            shoot(page, f"assets-{theme}-{width}-{number}", full_page=True)
