"""The environment `system`: an interpreter that is already there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.core.errors import NotFound, SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments import get_builder
from runyard.environments.base import BuiltEnvironment


def a_program(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_the_given_interpreter_is_used(tmp_path: Path) -> None:
    said: list[str] = []
    built = get_builder("system").build(EnvironmentSpec(interpreter=sys.executable), say=said.append)

    assert built == BuiltEnvironment(interpreter=sys.executable)
    assert said == [f"Using the interpreter {sys.executable}."]


def test_packages_of_microsofts_are_said_by_name() -> None:
    said: list[str] = []
    spec = EnvironmentSpec(interpreter=sys.executable, pip_packages=["azureml-core", "azureml-datadrift==1.0"])
    built = get_builder("system").build(spec, say=said.append)

    assert said[1] == "Provided by Runyard: azureml-core."
    assert said[2].startswith("azureml-datadrift==1.0 is not available here: ")
    assert built.warnings == said[2:]


def test_a_name_is_looked_up_on_the_submitters_path(tmp_path: Path) -> None:
    os.symlink(sys.executable, tmp_path / "python")
    built = get_builder("system").build(
        EnvironmentSpec(interpreter="python"), say=print, variables={"PATH": str(tmp_path)}
    )
    nameless = get_builder("system").build(EnvironmentSpec(), say=print, variables={"PATH": str(tmp_path)})
    nothing = get_builder("system").build(EnvironmentSpec(), say=print, variables={"PATH": ""})

    assert built.interpreter == nameless.interpreter == str(tmp_path / "python")
    assert nothing.interpreter == sys.executable


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: str(folder / "missing"), "no such file"),
        (str, "is a folder"),
        (lambda folder: a_program(folder / "plain", "", 0o644), "not executable"),
        (lambda folder: "venv/bin/python", "relative path"),
        (lambda folder: "no-such-python-here", "No folder of PATH"),
        (lambda folder: a_program(folder / "sh", "#!/bin/sh\necho hello\n"), "exited with 0"),
        (
            lambda folder: a_program(folder / "sad", "#!/bin/sh\necho oh no >&2\nexit 3\n"),
            "exited with 3 and said 'oh no'",
        ),
        (lambda folder: a_program(folder / "noise", "\x7fELF"), "cannot be started"),
    ],
)
def test_what_is_no_python_is_refused_with_the_next_step(tmp_path: Path, make: object, why: str) -> None:
    interpreter = make(tmp_path)  # type: ignore[operator]

    with pytest.raises(SubmitRejected, match=why) as caught:
        get_builder("system").build(EnvironmentSpec(interpreter=interpreter), say=print)
    assert interpreter in caught.value.what
    assert "interpreter_path" in caught.value.hint


def test_a_python_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = a_program(tmp_path / "python2", '#!/bin/sh\necho \'{"python": "2.7.18"}\'\n')

    with pytest.raises(SubmitRejected, match=r"is Python 2\.7\.18"):
        get_builder("system").build(EnvironmentSpec(interpreter=old), say=print)


def test_the_answer_of_an_interpreter_is_kept_until_it_changes(tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = '#!/bin/sh\necho x >> {}\necho \'{{"python": "3.9.1"}}\'\n'
    python = a_program(tmp_path / "python", program.format(count))
    builder = get_builder("system", cache=tmp_path / "cache")
    for _ in range(3):
        builder.build(EnvironmentSpec(interpreter=python), say=print)
    assert count.read_text() == "x\n"

    a_program(tmp_path / "python", program.format(count) + "\n")
    builder.build(EnvironmentSpec(interpreter=python), say=print)
    assert count.read_text() == "x\nx\n"


def test_packages_that_nobody_installs_are_warned_about() -> None:
    spec = EnvironmentSpec(name="mine", interpreter=sys.executable, pip_packages=["torch"])
    [warning] = get_builder("system").build(spec, say=print).warnings

    assert "`mine`" in warning
    assert f"{sys.executable} -m pip install" in warning


def test_the_description_lists_what_that_interpreter_sees(tmp_path: Path) -> None:
    found = get_builder("system").describe(BuiltEnvironment(interpreter=sys.executable))

    listed = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=False
    )
    assert found["interpreter"] == sys.executable
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert str(found["platform"]).startswith("Linux")
    packages = found["packages"]
    assert isinstance(packages, dict)
    assert packages["pytest"] == pytest.__version__
    if listed.returncode == 0:
        expected = {entry["name"].lower(): entry["version"] for entry in json.loads(listed.stdout)}
        assert {name.lower(): version for name, version in packages.items()}.items() >= expected.items()


def test_the_list_is_read_again_when_a_folder_of_the_path_changed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}
    builder = get_builder("system", cache=tmp_path / "cache")
    built = BuiltEnvironment(interpreter=sys.executable)

    def packages() -> dict[str, str]:
        found = builder.describe(built, variables=variables)["packages"]
        assert isinstance(found, dict)
        return found

    assert "Fresh" not in packages()
    (site / "fresh-1.5.dist-info").mkdir()
    (site / "fresh-1.5.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: Fresh\nVersion: 1.5\n\nVersion: 9\n"
    )
    assert packages()["Fresh"] == "1.5"
    os.rename(site / "fresh-1.5.dist-info", site / "fresh-1.6.dist-info")
    (site / "fresh-1.6.dist-info/METADATA").write_text("Name: Fresh\nVersion: 1.6\n")
    assert packages()["Fresh"] == "1.6"
    (site / "fresh-1.6.dist-info/METADATA").write_text("Name: Fresh\nVersion: 1.7\n")
    assert packages()["Fresh"] == "1.6", "kept: no folder of the path changed"


def test_a_description_that_fails_says_why_and_fails_nothing(tmp_path: Path) -> None:
    found = get_builder("system").describe(BuiltEnvironment(interpreter=str(tmp_path / "gone")))

    assert found["packages"] == {}
    assert "cannot be started" in str(found["error"])


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(NotFound, match="Known: conda, container, system, uv"):
        get_builder("nix")
