"""Runs beside each other: what differs and nothing else, charts, marks on axes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from azureml.core import Environment, Experiment, ScriptRunConfig
from runyard.core.records import NewRun
from runyard.core.statuses import RunStatus
from runyard.testing.runs import Journal, points
from tests.browser.studio import Studio
from tests.browser.waiting import expect_soon

SCRIPT = """
    import argparse, os
    from azureml.core import Run
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float); parser.add_argument("--epochs", type=int)
    given = parser.parse_args()
    run = Run.get_context()
    for step in range(given.epochs):
        run.log("loss", 1 / (1 + step))  # LINE
"""


@dataclass(frozen=True)
class Twins:
    """Two runs that differ in a parameter, an environment variable and a line of code, and in no result."""

    first: str
    second: str

    @property
    def address(self) -> str:
        return f"/compare?run={self.first}&run={self.second}"


def submit(studio: Studio, folder: Path, *, lr: float, mode: str, line: str) -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT).replace("LINE", line))
    (folder / "same.txt").write_text("the same in both")
    environment = Environment("user-managed-env")
    environment.python.user_managed_dependencies = True
    config = ScriptRunConfig(
        str(folder), script="train.py", arguments=["--lr", lr, "--epochs", 5], environment=environment
    )
    config.run_config.environment_variables = {"MODE": mode, "SEED": "1"}
    return Experiment(studio.workspace, "twins").submit(config)


@pytest.fixture(scope="module")
def twins(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    folder = tmp_path_factory.mktemp("twins")
    runs = [
        submit(studio, folder, lr=lr, mode=mode, line=line)
        for lr, mode, line in ((0.1, "fast", "first"), (0.01, "slow", "second"))
    ]
    for run in runs:
        assert run.wait_for_completion()["status"] == "Completed"
    return Twins(runs[0].id, runs[1].id)


def lines(page: Page) -> dict[str, list[list[str]]]:
    """What the table says: section → lines of texts, the name first."""
    found = {}
    for body in page.locator(".differences tbody").all():
        rows = body.locator("tr:not(.differences-title)").all()
        texts = [[" ".join(cell.split()) for cell in row.locator("th, td").all_inner_texts()] for row in rows]
        found[str(body.get_attribute("data-section"))] = texts
    return found


def test_the_table_shows_exactly_what_differs(page: Page, twins: Twins, shoot: Callable[..., Path]) -> None:
    page.goto(twins.address + "&tab=differences")
    expect(page.get_by_role("status").filter(has_text="3 differences")).to_be_visible()
    shoot(page, "compare-differences-light")

    differing = {
        "parameters": [["lr", "0.1", "0.01"]],
        "variables": [["MODE", "fast", "slow"]],
        "code": [["train.py", "baseline", "changed"]],
    }
    expect_soon(page, lambda: lines(page), differing)
    link = page.get_by_role("link", name="changed")
    assert link.get_attribute("href") == f"/runs/{twins.second}?tab=code&against={twins.first}&file=train.py"
    page.get_by_label("Show what is equal too").check()
    expect(page.locator(".differences tbody[data-section=results]")).to_be_visible()
    shown = lines(page)
    assert ["epochs", "5", "5"] in shown["parameters"] and ["SEED", "1", "1"] in shown["variables"]
    assert ["loss", "0.2", "0.2"] in shown["results"]


def test_another_baseline_comes_first(page: Page, twins: Twins) -> None:
    page.goto(twins.address + "&tab=differences")
    page.get_by_role("listitem").filter(has_text=twins.second).get_by_role("button", name="baseline").click()
    expect(page.locator(".differences thead th").nth(1)).to_contain_text(twins.second)

    assert lines(page)["parameters"] == [["lr", "0.01", "0.1"]]
    expect(page.get_by_role("link", name="changed")).to_have_attribute(
        "href", f"/runs/{twins.first}?tab=code&against={twins.second}&file=train.py"
    )


def test_charts_overlay_the_runs(page: Page, twins: Twins, shoot: Callable[..., Path]) -> None:
    page.goto(twins.address)
    chart = page.locator("figure.chart")
    expect(chart).to_have_count(1)
    expect(chart).to_contain_text(twins.first)
    expect(chart).to_contain_text(twins.second)
    expect(chart.locator("canvas")).to_be_visible()
    shoot(page, "compare-charts-light")


def test_a_mark_on_an_axis_keeps_the_runs_that_pass_it(page: Page, twins: Twins, shoot: Callable[..., Path]) -> None:
    page.goto(twins.address + "&tab=parallel&axis=params.lr&axis=metrics.loss")
    axis = page.get_by_role("slider", name="Mark on lr")
    expect(axis).to_have_attribute("aria-valuetext", "no mark")
    page.get_by_text("Show as a table").click()
    listed = page.locator(".as-table tbody tr")
    expect(listed).to_have_count(2)

    axis.press("Enter")
    expect(page.get_by_text("1 of 2 runs")).to_be_visible()
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text(twins.first)
    shoot(page, "compare-parallel-light")
    axis.press("Escape")
    expect(listed).to_have_count(2)
    drag(page, axis, 0.98, 0.6)  # from the foot of the axis
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text(twins.second)
    page.get_by_role("button", name="Clear marks").click()
    expect(listed).to_have_count(2)


def test_axes_are_moved_by_keys_and_by_dragging_their_name(page: Page, twins: Twins) -> None:
    page.goto(twins.address + "&tab=parallel&axis=params.lr&axis=params.epochs&axis=metrics.loss")
    names = page.locator(".axis-name")
    expect(names).to_have_text(["lr", "epochs", "loss"])
    axis = page.get_by_role("slider", name="Mark on lr")
    axis.press("ArrowRight")
    expect(names).to_have_text(["epochs", "lr", "loss"])
    expect(axis).to_be_focused()
    axis.press("ArrowRight")
    expect(names).to_have_text(["epochs", "loss", "lr"])
    start, end = (names.nth(at).bounding_box() for at in (0, 1))
    assert start is not None and end is not None
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + 8)
    page.mouse.down()
    page.mouse.move(end["x"] + end["width"] / 2, end["y"] + 8, steps=10)
    page.mouse.up()
    expect(names).to_have_text(["loss", "epochs", "lr"])

    page.wait_for_url(lambda url: url.endswith("&axis=metrics.loss&axis=params.epochs&axis=params.lr"))


def drag(page: Page, target: Locator, start: float, end: float) -> None:
    box = target.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"]
    page.mouse.move(x, y + box["height"] * start)
    page.mouse.down()
    page.mouse.move(x, y + box["height"] * end, steps=4)
    page.mouse.up()


def test_points_are_reached_by_keys_and_open_their_run(page: Page, twins: Twins, shoot: Callable[..., Path]) -> None:
    page.goto(twins.address + "&tab=scatter&sx=params.lr&sy=metrics.loss")
    plot = page.get_by_role("img", name="Scatter plot of 2 runs: loss by lr")
    plot.press("ArrowRight")
    expect(page.locator(".plot [aria-live]")).to_have_text(f"{twins.second}: lr 0.01, loss 0.2")
    shoot(page, "compare-scatter-light")
    origin = page.url.partition("/compare")[0]
    plot.press("Enter")

    expect(page).to_have_url(f"{origin}/runs/{twins.second}")


def test_runs_are_added_and_removed_and_the_address_follows(page: Page, twins: Twins) -> None:
    page.goto("/compare")
    expect(page.get_by_role("heading", name="Choose runs to compare")).to_be_visible()
    page.get_by_role("button", name="Add runs").click()
    page.get_by_label("Find runs").fill(f"{twins.first}, gone_1")
    page.get_by_label("Find runs").press("Enter")
    chips = page.get_by_role("list", name="Runs compared").get_by_role("listitem")
    expect(chips).to_have_count(1)
    expect(page.get_by_text("Not there, or deleted: gone_1")).to_be_visible()
    page.get_by_role("button", name="Leave out").click()
    expect(page.get_by_text("Not there")).to_have_count(0)
    page.get_by_role("button", name="Add runs").click()
    page.get_by_role("button", name=twins.second).click()
    expect(chips).to_have_count(2)
    page.wait_for_url(lambda url: url.endswith(twins.address))
    page.keyboard.press("Escape")  # the list stays open for more
    page.get_by_role("button", name=f"Remove {twins.first}").click()
    expect(chips).to_have_count(1)

    page.wait_for_url(lambda url: url.endswith(f"/compare?run={twins.second}"))


def test_narrow_and_dark(new_page: Callable[..., Page], twins: Twins, shoot: Callable[..., Path]) -> None:
    page = new_page(theme="dark", width=360)
    for tab, part in (
        ("charts", "figure.chart"),
        ("differences", ".differences"),
        ("scatter", ".plot canvas"),
        ("parallel", ".parallel"),
    ):
        page.goto(f"{twins.address}&tab={tab}")
        expect(page.locator(part).first).to_be_visible()
        shoot(page, f"compare-{tab}-dark-360")

        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_role("button", name="Add runs").click()
    expect(page.get_by_label("Find runs")).to_be_focused()
    shoot(page, "compare-add-dark-360")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Axes").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def fifty(studio: Studio) -> list[str]:
    """Fifty runs with hostile names, written straight into the store; each has ten points of two metrics."""
    with studio.store() as store:
        for index in range(50):
            new = NewRun(
                key=f"many_{index}",
                id=f"many_{index}",
                workspace="default",
                experiment="many",
                display_name=f"{HOSTILE} {index}",
                parameters={HOSTILE: str(index), "same": "1"},
                tags={HOSTILE: HOSTILE if index % 2 else None},
                status=RunStatus.RUNNING,
            )
            store.create_run(new)
            values = [index + step / 10 for step in range(10)]
            Journal(store, f"many_{index}").ship(points("loss", values), points(f"{HOSTILE}/acc", values))
            store.set_status(f"many_{index}", RunStatus.COMPLETED)
    return [f"many_{index}" for index in range(50)]


def test_fifty_runs_with_hostile_names_are_only_text(page: Page, fifty: list[str], shoot: Callable[..., Path]) -> None:
    """That no script of theirs ran is checked by the page's watch: a dialog would fail the test."""
    address = "/compare?" + "&".join(f"run={run}" for run in fifty)
    page.goto(address)
    expect(page.get_by_role("list", name="Runs compared").get_by_role("listitem")).to_have_count(50)
    expect(page.locator("figure.chart")).to_have_count(2)
    expect(page.locator("figure.chart[data-loading=false] canvas")).to_have_count(2)
    shoot(page, "compare-fifty-charts")
    page.goto(address + "&tab=differences")
    expect(page.locator(".differences thead th")).to_have_count(51)
    expect(page.locator(".differences tbody[data-section=results]")).to_be_visible()
    shown = lines(page)
    seen = HOSTILE.replace("\u202e", "\\u202e")
    assert shown["parameters"] == [[seen, *map(str, range(50))]]
    assert shown["tags"] == [[seen, *(seen if index % 2 else "(no value)" for index in range(50))]]
    assert [line[0] for line in shown["results"]] == ["loss", f"{seen}/acc"]
    assert shown["results"][0][1] == "0.9 ★ best" and shown["results"][1][50] == "49.9 ★ best"
    shoot(page, "compare-fifty-differences")
    for tab in ("scatter", "parallel"):
        page.goto(f"{address}&tab={tab}")
        expect(page.locator(".plot canvas")).to_be_visible()
        page.get_by_text("Show as a table").click()
        expect(page.locator(".as-table tbody tr")).to_have_count(50)
        shoot(page, f"compare-fifty-{tab}")

    assert page.locator("img[onerror]").count() == 0
