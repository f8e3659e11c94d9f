"""The code and the environment of a run in a browser, and how two runs differ."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import Page, expect

from azureml.core import Environment, Experiment, Run, ScriptRunConfig
from tests.browser.conftest import NewPage
from tests.browser.studio import Studio, ask
from tests.browser.waiting import expect_soon
from tests.browser.watching import Watch

FIRST = '''"""Trains a model."""
import argparse


def train(rate):
    # one step
    for step in range(3):
        print("step", step, "<b>", rate)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float)
    train(parser.parse_args().rate)
'''
SECOND = FIRST.replace("range(3)", "range(5)").replace("    # one step\n", "")
EVIL = "<img src=x onerror=alert(1)>.py"


def submit(studio: Studio, folder: Path, files: dict[str, str | bytes], rate: float, variable: str) -> Run:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    environment = Environment("code-env")
    environment.python.user_managed_dependencies = True
    environment.environment_variables = {"MODE": variable}
    source = ScriptRunConfig(
        source_directory=str(folder),
        script="train.py",
        compute_target="local",
        environment=environment,
        arguments=["--rate", rate],
    )
    run = Experiment(studio.workspace, "code").submit(source)
    run.wait_for_completion()
    return run


@pytest.fixture(scope="module")
def runs(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    same: dict[str, str | bytes] = {
        "conf/settings.yaml": "rate: 0.1 # as before\nlayers: [1, 2]\n",
        "data.bin": bytes(range(256)),
    }
    long = "".join(f"line {n}\n" for n in range(100))
    first: dict[str, str | bytes] = {
        **same,
        "train.py": FIRST,
        "gone.txt": "old\n",
        "pkg/was.py": "z = 3\n",
        "pkg/long.txt": long,
        EVIL: "x = 1\n",
    }
    changed = long.replace("line 50\n", "line fifty <script>alert(2)</script>\n")
    second: dict[str, str | bytes] = {
        **same,
        "train.py": SECOND,
        "pkg/new.py": "y = 2\n",
        "pkg/is.py": "z = 3\n",
        "pkg/long.txt": changed,
        EVIL: "x = '<b>'\n",
    }
    folder = tmp_path_factory.mktemp("first")
    os.symlink("train.py", folder / "way")
    other = tmp_path_factory.mktemp("second")
    os.symlink("train.py", other / "way")
    return submit(studio, folder, first, 0.1, "plain"), submit(studio, other, second, 0.2, "<i>fancy</i>")


def test_the_entry_script_is_opened_with_colours_and_links_to_its_lines(runs: tuple[Run, Run], page: Page) -> None:
    run = runs[0]
    page.goto(f"/runs/{run.id}?tab=code")
    expect(page.locator(".shown-head h2")).to_have_text("train.py")
    expect(page.locator(".shown-head .tag")).to_have_text("entry")
    lines = page.locator(".source-line")
    expect_soon(page, lambda: "".join(lines.all_text_contents()), FIRST)
    expect(lines.nth(4).locator(".code-keyword")).to_have_text("def")
    expect(lines.nth(4).locator(".code-name")).to_have_text("train")
    expect(lines.nth(5).locator(".code-comment")).to_have_text("# one step")
    expect(lines.nth(0).locator(".code-string")).to_have_text('"""Trains a model."""')

    page.get_by_label("Line 7", exact=True).click()
    page.wait_for_url(lambda url: url.endswith("file=train.py&line=7"))
    expect(page.locator(".source-chosen")).to_be_visible()
    expect_soon(page, lambda: page.locator(".source-chosen").evaluate("mark => mark.offsetTop"), 6 * 20)


def test_every_file_of_the_snapshot_is_shown(runs: tuple[Run, Run], page: Page) -> None:
    run = runs[0]
    page.goto(f"/runs/{run.id}?tab=code")
    tree = page.get_by_role("tree", name="code")
    tree.get_by_role("treeitem", name=EVIL).click()
    expect(page.locator(".shown-head h2")).to_have_text(EVIL)
    expect(page.locator(".source-line")).to_have_text("x = 1")
    tree.get_by_role("treeitem", name="settings.yaml").click()
    expect(page.locator(".source-line").first.locator(".code-name")).to_have_text("rate")
    tree.get_by_role("treeitem", name="data.bin").click()
    expect(page.locator(".code-note")).to_have_text("Bytes, no text.")
    tree.get_by_role("treeitem", name="way").click()
    expect(page.locator(".source-line")).to_have_text("→ train.py")


def test_the_code_is_downloaded_as_a_zip(runs: tuple[Run, Run], page: Page) -> None:
    page.goto(f"/runs/{runs[0].id}?tab=code")
    with page.expect_download() as loading:
        page.get_by_role("link", name="Download zip").click()
    with ZipFile(loading.value.path()) as packed:
        assert packed.read("train.py").decode() == FIRST
        assert sorted(packed.namelist()) == sorted(
            [EVIL, "conf/settings.yaml", "data.bin", "gone.txt", "pkg/long.txt", "pkg/was.py", "train.py", "way"]
        )


def test_two_runs_code_is_compared_file_by_file(runs: tuple[Run, Run], page: Page) -> None:
    first, second = runs
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(f"/runs/{second.id}?tab=code")
    page.get_by_role("button", name="Compare with another run").click()
    expect(page.get_by_label("Filter, or paste a run's id")).to_be_focused()
    page.get_by_role("button", name=first.id).click()
    expect(page.locator(".shown-head h2")).to_have_text("train.py")
    page.wait_for_url(lambda url: f"against={first.id}" in url)
    tree = page.get_by_role("tree", name="changed files")
    changed = {EVIL: "±", "pkg/long.txt": "±", "train.py": "±"}
    expect_soon(
        page,
        lambda: {item.get_attribute("title"): item.locator(".mono").inner_text() for item in tree.locator("a").all()},
        {**changed, "gone.txt": "−", "pkg/new.py": "+", "pkg/is.py": "→"},
    )
    expect(page.locator(".filetree-note")).to_have_text("3 changed, 1 added, 1 removed, 1 renamed")

    expect(page.locator(".diff-removed")).to_have_text(["removed: # one step", "removed: for step in range(3):"])
    expect(page.locator(".diff-added")).to_have_text(["added: for step in range(5):"])
    expect(page.locator(".diff-added mark")).to_have_text("5")
    beside = page.locator("tr").filter(has_text="range(5)").locator("td")
    expect(beside).to_have_text(["7", "removed: for step in range(3):", "6", "added: for step in range(5):"])
    expect(page.locator(".shown-head .number")).to_have_text("+1 −2")

    tree.get_by_role("treeitem", name="long.txt").click()
    expect(page.locator(".diff-fold").first).to_contain_text("47 equal lines")
    expect(page.locator(".diff-removed")).to_have_text("removed: line 50")
    expect(page.locator(".diff-added")).to_have_text("added: line fifty <script>alert(2)</script>")
    page.locator(".diff-fold button").first.click()
    expect(page.locator(".diff-fold")).to_have_count(1)
    expect(page.locator(".diff-table tr").first.locator("td").nth(1)).to_have_text("line 0")

    tree.get_by_role("treeitem", name="new.py").click()
    expect(page.locator(".diff-added")).to_have_text("added: y = 2")
    tree.get_by_role("treeitem", name="gone.txt").click()
    expect(page.locator(".diff-removed")).to_have_text("removed: old")
    tree.get_by_role("treeitem", name="is.py").click()
    expect(page.locator(".shown-head")).to_contain_text("renamed from pkg/was.py")
    expect(page.locator(".diff-note")).to_have_text("The lines are the same.")


def test_a_narrow_screen_has_one_column_and_does_not_scroll_sideways(runs: tuple[Run, Run], new_page: NewPage) -> None:
    first, second = runs
    page = new_page(width=360, height=740)
    page.goto(f"/runs/{second.id}?tab=code&against={first.id}")
    expect(page.locator(".diff-removed").first).to_contain_text("# one step")
    expect(page.locator(".diff-table.wide")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_same_code_and_an_unknown_run_are_told(runs: tuple[Run, Run], page: Page, watch: Watch) -> None:
    run = runs[0]
    page.goto(f"/runs/{run.id}?tab=code&against={run.id}")
    expect(page.get_by_role("heading", name="The same code")).to_be_visible()
    watch.allow("status of 404")
    page.goto(f"/runs/{run.id}?tab=code&against=nobody")
    expect(page.get_by_role("alert")).to_contain_text("nobody")
    page.get_by_role("button", name="Stop comparing").click()
    expect(page.locator(".shown-head h2")).to_have_text("train.py")


def test_git_facts_lead_to_the_patch_of_a_dirty_tree(studio: Studio, tmp_path: Path, page: Page) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    (tmp_path / "train.py").write_text(FIRST)
    git("init", "-q", "-b", "<b>branch</b>")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("remote", "add", "origin", "https://code.example/team/project.git")
    run = submit(studio, tmp_path, {"train.py": SECOND}, 0.1, "x")
    page.goto(f"/runs/{run.id}?tab=code")

    facts = page.locator(".git-facts")
    expect(facts.locator("code")).to_have_text(git("rev-parse", "HEAD")[:10])
    expect(facts.locator(".tag")).to_have_text("<b>branch</b>")
    expect(facts.get_by_role("link", name="code.example/team/project.git")).to_be_visible()
    facts.get_by_role("link", name="with uncommitted changes").click()
    expect(page.locator(".shown-head h2")).to_have_text("git/uncommitted.patch")
    expect(page.locator(".code-added").last).to_have_text("+    for step in range(5):")


def test_a_run_without_code_says_how_to_keep_some(studio: Studio, page: Page) -> None:
    run = Experiment(studio.workspace, "code").start_logging(snapshot_directory=None)
    run.complete()
    page.goto(f"/runs/{run.id}?tab=code")
    expect(page.get_by_role("heading", name="No code is kept with this run")).to_be_visible()
    expect(page.locator(".command code")).to_have_text("run.take_snapshot('.')")


def test_the_environment_has_exact_packages_that_can_be_searched(runs: tuple[Run, Run], page: Page) -> None:
    run = runs[1]
    packages = ask(page, f"/api/v1/runs/{run.id}").json()["environment"]["packages"]
    page.goto(f"/runs/{run.id}?tab=environment")
    section = page.locator(".environment-packages tr")
    expect(section).to_have_count(len(packages))
    page.get_by_label("Search packages").fill("pytest")
    expected = sorted(name for name in packages if "pytest" in name.lower())
    assert expected
    expect_soon(page, lambda: sorted(section.locator("td:first-child").all_inner_texts()), expected)
    expect(page.locator(".facts").filter(has_text="MODE")).to_contain_text("<i>fancy</i>")
    expect(page.locator(".environment-card").filter(has_text="Interpreter")).to_contain_text("code-env")
    with page.expect_download() as loading:
        page.get_by_role("button", name="Download requirements.txt").click()
    lines = Path(loading.value.path()).read_text().splitlines()
    assert f"pytest=={packages['pytest']}" in lines


def test_two_runs_environments_are_compared(runs: tuple[Run, Run], page: Page) -> None:
    first, second = runs
    page.goto(f"/runs/{second.id}?tab=environment&against={first.id}")
    table = page.locator(".environment-diff")
    expect(table.locator("tbody th")).to_have_text(["Parameters 1", "Command 1", "Variables 1", "Code 1"])
    expect(table.locator("td")).to_have_text(
        [
            *("rate changed", "0.1", "0.2"),
            *("arguments changed", "--rate 0.1", "--rate 0.2"),
            *("MODE changed", "plain", "<i>fancy</i>"),
            *("snapshot changed", first.get_snapshot_id(), second.get_snapshot_id()),
        ]
    )
