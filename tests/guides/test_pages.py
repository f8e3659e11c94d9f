"""What a page shows works when it is pasted, block by block, into an empty folder."""

from __future__ import annotations

import ast
import re
import shlex
import venv
from pathlib import Path

import pytest

from runyard.cli import main
from tests.e2e.frameworks import HUGGING_FACE, interpreter_with
from tests.guides.conftest import ROOT, Player
from tests.guides.page import find_missing, read_steps

EXTERNAL = {"docs/guides/environments.md", "docs/guides/estimators.md"}  # they install packages from an index
TORCH = ("docs/tutorials/huggingface.md", "docs/tutorials/pytorch.md")
FOLDERS = ("docs/tutorials", "docs/guides")
PAGES = [
    "README.md",
    *sorted(str(page.relative_to(ROOT)) for folder in FOLDERS for page in (ROOT / folder).glob("*.md")),
]


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", [page for page in PAGES if page not in {*EXTERNAL, *TORCH}])
def test_the_blocks_of_a_page_run_in_order_in_an_empty_folder(play_page: Player, page: str) -> None:
    play_page(page)


@pytest.mark.external
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", sorted(EXTERNAL))
def test_a_page_that_installs_packages_runs_in_order(play_page: Player, page: str) -> None:
    play_page(page)


@pytest.mark.external
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", TORCH)
def test_a_tutorial_with_torch_runs_in_order(play_page: Player, tmp_path: Path, page: str) -> None:
    play_page(page, python=python_with(HUGGING_FACE, tmp_path))


def python_with(requirements: tuple[str, ...], folder: Path) -> str:
    """Return a Python that has the packages and ours, with its `runyard` beside it, as after `pip install`."""
    packages = Path(interpreter_with(requirements)).parent.parent / "lib"
    venv.create(folder / "venv", with_pip=False)
    [site] = (folder / "venv/lib").glob("python*/site-packages")
    [other] = packages.glob("python*/site-packages")
    (site / "guides.pth").write_text(f"{ROOT / 'src'}\n{other}\n")
    python = folder / "venv/bin/python"
    (python.parent / "runyard").write_text(f'#!/bin/sh\nexec {python} -m runyard.cli "$@"\n')
    (python.parent / "runyard").chmod(0o755)
    return str(python)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page: str) -> None:
    text = (ROOT / page).read_text()
    shown = [step for step in read_steps(text) if step.kind == "shown"]

    assert [step.line for step in shown if len(step.reason) < 12] == []
    assert re.findall(r"^ *```(?!python|sh|console|text|yaml|toml|ini|nginx|json|html|dockerfile).+", text, re.M) == []
    assert len(re.findall(r"^ *```$", text, re.M)) * 2 == len(re.findall(r"^ *```", text, re.M))


@pytest.mark.parametrize("page", PAGES)
def test_what_is_only_shown_is_python_and_has_commands_that_exist(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for match in re.finditer(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        ast.parse(match[1])
    lines = {
        line.lstrip("$ ").partition(" #")[0].strip()
        for step in read_steps((ROOT / page).read_text())
        if step.kind == "shown"
        for line in step.text.splitlines()
        if line.lstrip("$ ").startswith("runyard ")
    }
    for line in sorted(lines):
        words = shlex.split(line.split(" -- ")[0].split(" | ")[0])[1:]
        depth = next((at for at, word in enumerate(words) if not re.fullmatch(r"[a-z]+", word)), len(words))
        for known in range(min(depth, 2), 0, -1):
            with pytest.raises(SystemExit) as caught:
                main([*words[:known], "--help"])
            said = capsys.readouterr().out
            if caught.value.code == 0:
                break
        assert caught.value.code == 0, line
        options = [word.partition("=")[0] for word in words[known:] if re.match(r"--?[a-z]", word)]
        assert [option for option in options if option not in said] == [], line


def test_a_page_is_read_as_it_is_pasted() -> None:
    page = (
        "```python\n# a/b.py\nx = 1\n```\ntext\n```python\nprint(x)   # 1 … 3\n```\n\n"
        "```sh\necho hello\n```\n```text\nhello\n```\n"
        "<!-- not run: needs a cluster -->\n```sh\nsrun\n```\n"
        "   <!-- fails: x is unknown -->\n   ```python\n   x\n   ```\n```yaml\n# j.yml\na: 1\n```\n```yaml\na: 2\n```\n"
        "```console\n$ echo 1\n1\n$ true\n```\n"
    )
    steps = read_steps(page)

    assert [(step.kind, step.name or step.text.strip()) for step in steps] == [
        ("file", "a/b.py"),
        ("python", "print(x)   # 1 … 3"),
        ("sh", "echo hello"),
        ("shown", "srun"),
        ("python", "x"),
        ("file", "j.yml"),
        ("sh", "echo 1"),
        ("sh", "true"),
    ]
    assert [step.expected for step in steps] == [[], ["1 … 3"], ["hello"], [], [], [], ["1"], []]
    assert steps[3].reason == "needs a cluster" and steps[4].fails and steps[4].text == "x\n"


def test_what_a_page_says_is_printed_is_found_in_its_order() -> None:
    assert find_missing(["a … c", "d"], "a  b\nc\nand d\n") is None
    assert find_missing(["d", "a"], "a b c d") == "a"
    assert find_missing(["0.5"], "0x5") == "0.5"


def test_a_page_that_does_not_work_fails_with_its_block(play_page: Player, tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text(
        "```sh\nexport A=1; mkdir b; cd b\n```\n```python\nimport os\nos.environ['A'] + y\n```\n"
    )
    (tmp_path / "value.md").write_text("```sh\nmkdir b; cd b\n```\n```console\n$ basename $PWD\nc\n```\n")

    with pytest.raises(pytest.fail.Exception, match=r"bad\.md:5 failed\n(?s:.*)NameError: name 'y'"):
        play_page(str(tmp_path / "bad.md"))
    for name in ("empty", "user"):
        (tmp_path / name).rename(tmp_path / f"was-{name}")
    with pytest.raises(pytest.fail.Exception, match=r"value\.md:5 does not print: c\n"):
        play_page(str(tmp_path / "value.md"))
