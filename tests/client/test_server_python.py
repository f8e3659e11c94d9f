"""The Python of the private server: this one, an installed tool's, or an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.client.server_python import EXTRAS, PACKAGES, _lacking
from runyard.core.config.settings import Settings
from runyard.environments.pruning import list_built, prune
from runyard.environments.server_environment import find_made, release_others
from tests.server.private import start

if sys.version_info >= (3, 11):
    import tomllib

SOURCE = str(Path(__file__).parents[2] / "src")
NEW = {line.partition(">=")[0]: line.partition(">=")[2] for line in PACKAGES}
# Without site-packages this interpreter is a client's: it has no package at all.
ASK = """
from runyard.client.private_server import connect
from runyard.core.config.settings import read_settings
print(connect(read_settings()).server.info().pid)
"""


def ask(tmp_path: Path, *, path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Ask for the server from an interpreter without packages, on a machine that has what is in `path`."""
    environ = {
        "RUNYARD_HOME": os.environ["RUNYARD_HOME"],
        "HOME": str(tmp_path),
        "PATH": f"{path}:/usr/bin:/bin",
        "PYTHONPATH": SOURCE,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-S", "-c", ASK], env=environ, capture_output=True, text=True, timeout=90, check=False
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib")
def test_the_lists_of_packages_are_those_of_the_extras() -> None:
    project = tomllib.loads((Path(SOURCE).parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    assert project["dependencies"] == [] and project["requires-python"] == ">=3.8"
    assert [line.partition(";")[0] for line in extras["server"]] == list(PACKAGES)
    assert all(line.endswith("; python_version >= '3.10'") for line in extras["server"])
    assert sorted(EXTRAS.values()) == sorted(
        line for name in ("bayes", "conda", "mpi", "objects", "postgres") for line in extras[name]
    )


@pytest.mark.parametrize(
    ("version", "change", "expected"),
    [
        ((3, 10), {}, []),
        ((3, 9), {}, ["Python 3.10 or newer"]),
        ((3, 13), {"sqlalchemy": "1.4.49"}, ["sqlalchemy>=2.0.40 (there is 1.4.49)"]),
        ((3, 13), {"pydantic": "2.12.0", "numpy": "2.3.4"}, []),
        ((3, 13), {"fastapi": None, "uv": None}, ["fastapi"]),
    ],
)
def test_packages_of_other_versions_are_not_enough(
    version: tuple[int, int], change: dict[str, str | None], expected: list[str]
) -> None:
    assert _lacking(version, {**NEW, **change}) == expected


@pytest.mark.long
def test_a_client_without_packages_uses_the_python_of_an_installed_tool(home: Path, tmp_path: Path) -> None:
    tool = tmp_path / "tools/runyard/bin"
    tool.mkdir(parents=True)
    (tool / "runyard").write_text("#!/bin/sh\n")
    (tool / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for program in tool.iterdir():
        program.chmod(0o755)
    done = ask(tmp_path, path=str(tool))

    assert done.returncode == 0, done.stderr
    environ = Path(f"/proc/{done.stdout.strip()}/environ").read_bytes().split(b"\0")
    (path,) = (entry.partition(b"=")[2].decode() for entry in environ if entry.startswith(b"PYTHONPATH="))
    # This client's code and nothing else from where it lies.
    assert Path(path).parent == home / "server/code"
    assert os.path.realpath(f"{path}/runyard") == os.path.realpath(f"{SOURCE}/runyard")
    assert {name.split("-")[0] for name in os.listdir(path)} <= {"runyard", "azureml"}
    assert start(home).server.info().pid == int(done.stdout)


@pytest.mark.parametrize("has_uv", [True, False])
def test_a_client_without_packages_and_network_says_what_to_do(home: Path, tmp_path: Path, has_uv: bool) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    if has_uv:
        (programs / "uv").symlink_to(Path(sys.prefix) / "bin/uv")
    done = ask(tmp_path, path=str(programs))

    assert done.returncode == 1
    assert "making an environment for the server in" in done.stderr
    assert "The server's own environment could not be made." in done.stderr
    assert ("alembic" if has_uv else "There is no uv on PATH, and pip could not fetch it") in done.stderr
    assert "docs/guides/install.md" in done.stderr and "RUNYARD_URL" in done.stderr
    assert not (home / "server/lock").exists()


def test_an_environment_of_the_server_is_kept_until_another_takes_its_place(home: Path) -> None:
    root, user = home / "environments", home / "server/environment"
    for folder in (root, user):
        folder.mkdir(parents=True)
    for key in ("mine", "other"):
        (root / key / "prefix/bin").mkdir(parents=True)
        (root / key / "prefix/bin/python").symlink_to(sys.executable)
        (root / key / "ready.json").write_text(json.dumps({"kind": "uv", "name": "runyard-server"}))
        (root / key / "lock").touch()
    (user / "note.json").write_text(json.dumps({"a": "mine"}))
    settings = Settings(home=home)

    assert find_made(settings, ["a", "b"]) is None
    assert find_made(settings, ["a"]) == str(root / "mine/prefix/bin/python")
    assert [one.runs for one in list_built(root) if one.key == "mine"] == [["server"]]
    assert [one.key for one in prune(root, unused_s=0)] == ["other"]
    release_others(home, "newer")
    assert [one.key for one in prune(root, unused_s=0)] == ["mine"]
