"""examples/extending, installed as a user would install it: its own tests pass and its sweep runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/extending"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that has what this one has, and the example beside it."""
    folder = tmp_path_factory.mktemp("extending")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    python = folder / "env/bin/python"
    (site,) = (folder / "env/lib").glob("python*/site-packages")
    (site / "beside.pth").write_text(f"{ROOT / 'src'}\n{sysconfig.get_path('purelib')}\n")
    shutil.copytree(EXAMPLE, folder / "source")
    install = ["pip", "install", "--quiet", "--offline", "--no-config", "--no-deps", "--no-build-isolation"]
    done = run([sys.executable, "-m", "uv", *install, "--python", str(python), str(folder / "source")], folder)
    assert done.returncode == 0, done.stderr
    return python


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=dict(os.environ), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("suite", ["processes", "replicas", "sqlite_artifacts", "tuning"])
def test_the_tests_of_the_example_pass(
    suite: str, python: Path, tmp_path: Path, session_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    monkeypatch.setenv("TMPDIR", str(session_folder))

    done = run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/test_{suite}.py"], tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout


@pytest.mark.long
def test_the_sweep_of_the_example_uses_its_sampler_and_its_policy(home: Path, python: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "sweep", tmp_path / "sweep")

    done = run([str(python), "sweep/submit.py"], tmp_path)

    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.splitlines()[-3:] == [
        '{"--x": 0.5} Canceled',
        '{"--x": 0.25} Canceled',
        '{"--x": 0.75} Canceled',
    ]


def test_the_pages_name_every_entry_point_of_the_example() -> None:
    project = (EXAMPLE / "pyproject.toml").read_text()
    groups = [line.split('"')[1] for line in project.splitlines() if line.startswith("[project.entry-points.")]
    pages = "".join(page.read_text() for page in (ROOT / "docs/extending").glob("*.md"))

    assert len(groups) == 5
    assert [group for group in groups if f'entry-points."{group}"' not in pages] == []
