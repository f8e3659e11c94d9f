"""Which Python a build starts from."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from runyard.core.errors import SubmitRejected
from runyard.environments.pythons import find_python, list_pythons

OWN = platform.python_version()


def fake_python(path: Path, version: str, implementation: str = "cpython") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = f'{{"python": "{version}", "implementation": "{implementation}"}}'
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}


def test_without_a_version_the_given_one_is_taken_else_our_own(tmp_path: Path, variables: dict[str, str]) -> None:
    given = fake_python(tmp_path / "venv/bin/python", "3.9.4")

    assert find_python(None, given, variables=variables, cache=None)[:2] == (given, "3.9.4")
    assert find_python(None, None, variables=variables, cache=None)[:2] == (sys.executable, OWN)


def test_a_version_that_the_given_one_has_is_no_reason_to_look_further(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    fake_python(tmp_path / "bin/python3.9", "3.9.9")
    given = fake_python(tmp_path / "venv/bin/python", "3.9.4")

    assert find_python("3.9", given, variables=variables, cache=None).path == given
    assert find_python(OWN, None, variables=variables, cache=None).path == sys.executable


@pytest.mark.parametrize(
    "place",
    ["bin/python3.99", ".pyenv/versions/3.99.1/bin/python3.99", ".local/share/uv/python/cpython-3.99/bin/python3.99"],
)
def test_it_is_looked_for_on_path_in_pyenv_and_among_uvs_own(
    tmp_path: Path, variables: dict[str, str], place: str
) -> None:
    path = fake_python(tmp_path / place, "3.99.1")

    assert find_python("3.99", None, variables=variables, cache=None)[:] == (path, "3.99.1", "")


def test_shims_venvs_and_other_implementations_are_passed_over(tmp_path: Path, variables: dict[str, str]) -> None:
    fake_python(tmp_path / "shims/python3.99", "3.99.0")
    fake_python(tmp_path / "venv/bin/python3.99", "3.99.0")
    (tmp_path / "venv/pyvenv.cfg").touch()
    fake_python(tmp_path / "pypy/python3.99", "3.99.0", "pypy")
    fake_python(tmp_path / "liar/python3.99", "3.98.0")
    right = fake_python(tmp_path / "right/python3.99", "3.99.0")
    variables["PATH"] = ":".join(str(tmp_path / name) for name in ("shims", "venv/bin", "pypy", "liar", "right"))

    assert find_python("3.99", None, variables=variables, cache=None).path == right


def test_another_patch_release_is_taken_with_a_warning(tmp_path: Path, variables: dict[str, str]) -> None:
    path = fake_python(tmp_path / "bin/python3.99", "3.99.7")
    found = find_python("3.99.1", None, variables=variables, cache=None)

    assert (found.path, found.version) == (path, "3.99.7")
    assert found.warning == f"Python 3.99.1 is not on this machine; 3.99.7 is used instead ({path})."


def test_a_version_that_is_not_there_becomes_the_nearest_one(tmp_path: Path, variables: dict[str, str]) -> None:
    near = fake_python(tmp_path / "bin/python3.99", "3.99.7")
    other = fake_python(tmp_path / "bin/python3.96", "3.96.1")
    found = find_python("3.98.2", None, variables=variables, cache=None)

    assert (found.path, found.version) == (near, "3.99.7")
    assert found.warning.startswith(f"Python 3.98.2 is not on this machine; 3.99.7 is used instead ({near}).")
    assert "RUNYARD_PYTHON_FALLBACK=never" in found.warning
    assert find_python("3.95", None, variables=variables, cache=None).path == other
    assert find_python("3.97", None, variables=variables, cache=None).path == other


def test_a_python_that_is_too_old_becomes_the_oldest_that_runs_can_have(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    for version in ("3.6.15", "3.8.18", "3.9.18"):
        fake_python(tmp_path / f"bin/python{version.rpartition('.')[0]}", version)
    found = find_python("3.6.2", None, variables=variables, cache=None)

    assert found.version == "3.8.18"
    assert found.warning.startswith("Python 3.6.2 is too old (runs need 3.8 or newer); 3.8.18 is used instead (")


def test_where_that_is_forbidden_the_answer_names_those_that_are_there(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    fake_python(tmp_path / "bin/python3.99", "3.99.7")

    with pytest.raises(SubmitRejected, match=r"Python 3\.98 is not on this machine") as caught:
        find_python("3.98", None, variables=variables, cache=None, is_fallback_allowed=False)
    assert caught.value.why.startswith("There are: 3.99.7")
    assert OWN in caught.value.why
    assert "set_python_version('3.99')" in caught.value.hint
    assert "uv python install 3.98" in caught.value.hint
    assert list_pythons(variables, None)[0].version == "3.99.7"
    with pytest.raises(SubmitRejected, match=r"Python 3\.6 is too old") as caught:
        find_python("3.6", None, variables=variables, cache=None, is_fallback_allowed=False)
    assert "3.8 or newer" in caught.value.why


@pytest.mark.parametrize("wanted", ["three", "3", "3.8.1.2", ""])
def test_what_is_no_version_is_told_so(variables: dict[str, str], wanted: str) -> None:
    if not wanted:
        assert find_python(wanted, None, variables=variables, cache=None).version == OWN
        return
    with pytest.raises(SubmitRejected, match="cannot be read"):
        find_python(wanted, None, variables=variables, cache=None)
