"""The environment `conda`: what the solver's answers become, and what is taken from PyPI instead."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected, SystemFailure
from runyard.core.specs import EnvironmentSpec
from runyard.environments import get_builder
from runyard.environments.base import BuiltEnvironment
from runyard.environments.conda.builder import CondaBuilder, plan_specs
from tests.environments.wheels import make_wheel

SPEC = EnvironmentSpec(name="e", kind="conda", conda_packages=["tabulate=1"], python_version="3.11")
TINYLIB = {"name": "tinylib", "version": "2.0", "build": "0", "sha256": "ab"}
PYTHON = {"name": "python", "version": "3.11.7", "build": "0", "sha256": "cd"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def a_solver(folder: Path, *lines: Mapping[str, object], then: str = "") -> str:
    """Return a program that takes the solver's place: keeps its order, says the lines, does `then`."""
    program = folder / "solver"
    said = "\n".join(f"printf '%s\\n' '{json.dumps(line)}'" for line in lines)
    program.write_text(f"#!/bin/sh\ncat > {folder}/order.json\n{then}\n{said}\n")
    program.chmod(0o755)
    return str(program)


def offline_variables(folder: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder),
            "HOME": str(folder), "UV_CACHE_DIR": str(folder / "uv-cache")}  # fmt: skip


def fail_with(home: Path, tmp_path: Path, kind: str, text: str, **changes: object) -> pytest.ExceptionInfo[Exception]:
    solver = a_solver(tmp_path, {"error": kind, "text": text})
    spec = EnvironmentSpec(**{**SPEC.__dict__, **changes})  # type: ignore[arg-type]  # fields of that class
    with pytest.raises((SubmitRejected, SystemFailure)) as failed:
        CondaBuilder(settings=Settings(home=home), python=solver).build(
            spec, say=print, variables=offline_variables(tmp_path)
        )
    return failed


def test_the_solver_gets_the_order_and_its_packages_are_recorded(home: Path, tmp_path: Path) -> None:
    prefix = '$(sed \'s/.*"prefix": "\\([^"]*\\)".*/\\1/\' ' + f"{tmp_path}/order.json)"
    then = f"mkdir -p {prefix}/bin; ln -s {sys.executable} {prefix}/bin/python"
    solver = a_solver(tmp_path, {"say": "half way"}, {"packages": [PYTHON, TINYLIB]}, then=then)
    spec = EnvironmentSpec(
        name="e",
        kind="conda",
        conda_packages=["tinylib"],
        conda_channels=["/srv/c", "nodefaults"],
        python_version="3.11",
    )
    builder = CondaBuilder(settings=Settings(home=home), python=solver)
    said: list[str] = []

    variables = {**offline_variables(tmp_path), "CONDA_CHANNEL_ALIAS": "https://mirror.example.org"}
    built = builder.build(spec, say=said.append, variables=variables)
    order = json.loads((tmp_path / "order.json").read_text())
    (tmp_path / "solver").unlink()
    again = builder.build(spec, say=said.append, variables=variables)
    described = builder.describe(built, variables=variables)

    assert order["specs"] == ["python=3.11", "tinylib"]
    assert order["channels"] == ["file:///srv/c"]
    assert order["alias"] == "https://mirror.example.org"
    assert order["prefix"].startswith(str(home / "environments"))
    assert built.interpreter == f"{order['prefix']}/bin/python"
    assert built.variables == {"CONDA_PREFIX": order["prefix"]}
    assert again == built
    assert (described["conda"], described["python"]) == ([PYTHON, TINYLIB], "3.11.7")
    assert "half way" in said
    assert "# conda: tinylib=2.0=0 sha256:ab" in builder.lock(spec, built, variables=variables)


def test_without_the_library_known_packages_come_from_pypi_and_it_is_said_once(home: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path, "tabulate", "1.4")
    said: list[str] = []
    builder = CondaBuilder(settings=Settings(home=home), python=a_solver(tmp_path, {"error": "missing", "text": "no"}))

    built = builder.build(SPEC, say=said.append, variables=offline_variables(tmp_path))
    packages = builder.describe(built)["packages"]

    assert packages == {"tabulate": "1.4"}
    assert len(built.warnings) == 1
    assert "taken from PyPI (tabulate==1.*): the library py-rattler" in built.warnings[0]
    assert "RUNYARD_CONDA_FALLBACK=never" in built.warnings[0]
    assert said.count(built.warnings[0]) == 1


def test_this_python_is_asked_for_the_library_by_default(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rattler", None)
    make_wheel(tmp_path, "tabulate", "1.4")

    built = get_builder("conda", settings=Settings(home=home)).build(
        SPEC, say=print, variables=offline_variables(tmp_path)
    )

    assert isinstance(built, BuiltEnvironment)
    assert "py-rattler is not installed" in built.warnings[0]


def test_where_no_channel_answers_a_name_without_a_counterpart_is_named(home: Path, tmp_path: Path) -> None:
    text = "error sending request for url (x)\nCaused by: dns error"
    error = fail_with(home, tmp_path, "unreachable", text, conda_packages=["tabulate", "gxx_linux-64=9"]).value

    assert "no conda channel answers (dns error)" in str(error)
    assert "Of `gxx_linux-64=9` no counterpart on PyPI is known." in str(error)
    assert "pip_packages=['gxx_linux-64']" in str(error)


def test_the_fallback_can_be_forbidden(home: Path, tmp_path: Path) -> None:
    settings = Settings(home=home, conda_fallback="never")
    solver = a_solver(tmp_path, {"error": "missing", "text": "no"})
    with pytest.raises(SubmitRejected, match="RUNYARD_CONDA_FALLBACK=never forbids") as failed:
        CondaBuilder(settings=settings, python=solver).build(SPEC, say=print, variables=offline_variables(tmp_path))

    assert "runyard[conda]" in failed.value.hint


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("solve", "names and versions"), ("spec", "name>=1.5"), ("channel", "noarch/repodata.json")],
)
def test_the_solvers_own_explanation_is_the_error(home: Path, tmp_path: Path, kind: str, hint: str) -> None:
    error = fail_with(home, tmp_path, kind, "└─ tabulate 1.0 would require\n   └─ x").value

    assert isinstance(error, SubmitRejected)
    assert "└─ tabulate 1.0 would require\n   └─ x" in error.why
    assert hint in error.hint


def test_an_unreachable_folder_is_a_mistake_and_not_a_reason_for_pypi(home: Path, tmp_path: Path) -> None:
    error = fail_with(home, tmp_path, "unreachable", "error sending request", conda_channels=["/no/channel"]).value

    assert "file:///no/channel" in str(error)


def test_a_solver_that_breaks_down_is_our_failure(home: Path, tmp_path: Path) -> None:
    solver = a_solver(tmp_path, then="echo boom; exit 3")
    with pytest.raises(SystemFailure, match="boom"):
        CondaBuilder(settings=Settings(home=home), python=solver).build(
            SPEC, say=print, variables=offline_variables(tmp_path)
        )


def test_secrets_of_channels_are_neither_said_nor_shown(home: Path, tmp_path: Path) -> None:
    said: list[str] = []
    channel = "https://example.org/t/hush-hush/c"
    solver = a_solver(tmp_path, {"error": "solve", "text": f"nothing in {channel}"})
    spec = EnvironmentSpec(name="e", kind="conda", conda_packages=["x"], conda_channels=[channel])
    with pytest.raises(SubmitRejected) as failed:
        CondaBuilder(settings=Settings(home=home), python=solver).build(
            spec, say=said.append, variables=offline_variables(tmp_path)
        )

    assert "hush" not in str(failed.value) + "".join(said)


def test_a_python_stands_first_and_packages_are_sorted() -> None:
    spec = EnvironmentSpec(conda_packages=["b", "a", "b"])

    assert plan_specs(spec) == ["python", "a", "b"]
