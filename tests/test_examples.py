"""What the README and the examples show works as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.cli import main
from tests.environments.wheels import make_wheel

ROOT = Path(__file__).parent.parent


def run_python(script: Path, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=cwd,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=110,
        check=False,
    )


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_the_first_run_example_trains_and_shows_its_results(home: Path, tmp_path: Path) -> None:
    result = run_python(ROOT / "examples/first_run/submit.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr + result.stdout
    assert "353 patients to learn from, 89 to test on" in result.stdout
    assert re.search(r"^mse    21 values, from \d+\.\d to \d+\.\d$", result.stdout, re.MULTILINE)
    assert re.search(r"^r2     0\.\d{3} with alpha 0\.5$", result.stdout, re.MULTILINE)
    assert "outputs/model.pkl" in result.stdout
    assert re.search(r"^page   http://127\.0\.0\.1:\d+/", result.stdout, re.MULTILINE)


def test_the_demo_ends_with_commands_that_find_its_run() -> None:
    """The demo's run is in a home of its own: `runyard runs list` alone used to answer that there are no runs."""
    recipe = subprocess.run(
        ["make", "-s", "-n", "-o", ".venv/ready-demo", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    submit = next(line for line in recipe.stdout.splitlines() if line.endswith("examples/first_run/submit.py"))
    told = re.findall(r"^echo '  (RUNYARD_HOME.*)'$", recipe.stdout, re.MULTILINE)
    readme = [line.partition("#")[0].strip() for line in blocks("README.md", "sh")[0].splitlines()[1:2]]

    assert [shlex.split(line)[2:] for line in told] == [["runs", "list"], ["studio"]]
    for line in told:
        assert shlex.split(line)[:2] == [shlex.split(submit)[0], ".venv/bin/runyard"]
    assert readme == [line.replace(str(ROOT), "$PWD") for line in told[1:]]


def test_the_readme_run_works_word_for_word(home: Path, tmp_path: Path) -> None:
    submit, script = blocks("README.md", "python")
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project" / "train.py").write_text(script)
    (tmp_path / "submit.py").write_text(submit)

    result = run_python(tmp_path / "submit.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr + result.stdout
    assert result.stdout.rstrip().splitlines()[-1].startswith("{'loss': 0.25} [")


@pytest.mark.long
def test_the_guide_to_environments_works_word_for_word(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", "joblib", "1.5")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project" / "train.py").write_text("import joblib, os; print(os.environ['MESSAGE'], joblib.version)")
    (tmp_path / "requirements.txt").write_text("joblib\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\ndependencies = ["joblib"]\n')
    (tmp_path / "environment.yml").write_text("dependencies:\n- pip:\n  - joblib\n")
    (tmp_path / "submit.py").write_text("\n".join(blocks("docs/guides/environments.md", "python")))

    result = run_python(tmp_path / "submit.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr + result.stdout
    assert "hello 1.5" in result.stdout and "{'joblib': '1.5'}" in result.stdout
    assert result.stdout.rstrip().splitlines()[-1] == "1 Succeeded"
    assert "joblib==1.5" in (tmp_path / "requirements.lock.txt").read_text()
    assert (tmp_path / "used-environment" / "azureml_environment.json").is_file()


def test_every_command_in_the_pages_exists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {
        line.split("#")[0].strip()
        for page in ("README.md", "docs/guides/first-run.md", "docs/guides/environments.md")
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if line.startswith("runyard ")
    }

    assert len(lines) >= 6
    for line in lines:
        words = shlex.split(line.split(" -- ")[0].split(" | ")[0])[1:]
        depth = 1 if words[0] == "submit" else 2
        options = [word for word in words[depth:] if word.startswith("-")]
        with pytest.raises(SystemExit) as caught:
            main([*words[:depth], "--help"])
        page = capsys.readouterr().out
        assert caught.value.code == 0, line
        assert all(option in page for option in options), line
