"""Horovod in an environment: not asked for at the index, planned with the node's own tools, kept by key."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments.horovod import (
    Horovod,
    _advice,
    _Progress,
    build_variables,
    check_cuda,
    find_frameworks,
    find_wheel,
    plan_horovod,
    split_horovod,
    wheel_folder,
    write_compiler,
)
from runyard.environments.pip import plan_pip

PROGRAMS = ("g++", "make", "mpicxx", "mpirun")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Stand-ins for compiler, make and Open MPI, alone on a PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        write_program(folder / name, "echo 'mpicxx: Open MPI 4.1.4 (Language: C++)'")
    return folder


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def environment(prefix: Path, **packages: str) -> Path:
    """A prefix that has these packages, as their metadata says it."""
    for name, version in packages.items():
        folder = prefix / "lib/python3.11/site-packages" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    return prefix


def a_horovod(wheels: Path) -> Horovod:
    return Horovod("/usr/bin/mpicxx", "/usr/bin/mpirun", "Open MPI 4.1.4", "/usr/bin/g++", wheels)


def test_horovod_is_taken_out_of_the_requirements() -> None:
    assert split_horovod(["torch==2.13.0", "Horovod==0.19.5", "rich"]) == (["torch==2.13.0", "rich"], "Horovod==0.19.5")
    assert split_horovod(["horovod-stubs", "rich"]) == (["horovod-stubs", "rich"], "")


@pytest.mark.parametrize(
    ("asked", "is_another"), [("horovod", False), ("horovod==0.28.1", False), ("horovod==0.19.5", True)]
)
def test_another_version_than_the_one_that_is_built_is_known(tmp_path: Path, asked: str, is_another: bool) -> None:
    assert replace(a_horovod(tmp_path), asked=asked).is_another is is_another


def test_an_environment_with_horovod_has_a_key_of_its_own(tools: Path, tmp_path: Path) -> None:
    variables = {"PATH": str(tools), "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}

    def plan(*packages: str, **options: Path) -> object:
        return plan_pip(EnvironmentSpec(pip_packages=list(packages)), variables=variables, **options)

    without = plan("torch", horovod_wheels=tmp_path)
    asked = plan("torch", "horovod", horovod_wheels=tmp_path)
    assert without.what_counts() == plan("torch").what_counts()  # type: ignore[attr-defined]
    assert asked.requirements == ["torch"] and asked.horovod.mpi == "Open MPI 4.1.4"  # type: ignore[attr-defined]
    assert asked.what_counts()[:-1] == without.what_counts()  # type: ignore[attr-defined]
    assert asked.what_counts()[-1] == ["horovod", "0.28.1", "Open MPI 4.1.4"]  # type: ignore[attr-defined]
    assert plan("horovod").requirements == ["horovod"]  # type: ignore[attr-defined]  # images install it themselves


@pytest.mark.parametrize(
    ("program", "package"),
    [("g++", "g++"), ("make", "make"), ("mpicxx", "libopenmpi-dev"), ("mpirun", "openmpi-bin")],
)
def test_a_missing_tool_is_named_with_what_to_install(tools: Path, program: str, package: str) -> None:
    (tools / program).unlink()

    with pytest.raises(SubmitRejected) as caught:
        plan_horovod({"PATH": str(tools)}, wheels=tools)
    assert f"`{program}` is not on PATH" in caught.value.why
    assert f"apt-get install --no-install-recommends {package}`" in caught.value.hint


def test_another_mpi_is_refused(tools: Path) -> None:
    write_program(tools / "mpicxx", "echo 'g++ -show: MPICH 4.0'")

    with pytest.raises(SubmitRejected, match="is not Open MPI's"):
        plan_horovod({"PATH": str(tools)}, wheels=tools)


def test_it_is_built_for_the_frameworks_that_are_there(tmp_path: Path) -> None:
    both = environment(tmp_path / "both", torch="2.13.0+cpu", tensorflow_cpu="2.15.1")

    assert find_frameworks(both) == {"torch": "2.13.0+cpu", "tensorflow": "2.15.1"}
    with pytest.raises(SubmitRejected, match="neither PyTorch nor TensorFlow"):
        find_frameworks(environment(tmp_path / "none", rich="1.0"))
    with pytest.raises(SubmitRejected, match=r"for TensorFlow 2\.21\.0[\s\S]*tensorflow-cpu==2\.15\.1"):
        find_frameworks(environment(tmp_path / "new", tensorflow="2.21.0"))


def test_wheels_are_kept_by_framework_mpi_and_python(tmp_path: Path) -> None:
    prefix = environment(tmp_path / "env", torch="2.13.0")
    horovod = a_horovod(tmp_path / "wheels")
    first = wheel_folder(horovod, prefix, {"torch": "2.13.0"})

    assert first == wheel_folder(horovod, prefix, {"torch": "2.13.0"}) and first.parent == tmp_path / "wheels"
    others = {
        wheel_folder(horovod, prefix, {"torch": "2.12.0"}),
        wheel_folder(horovod, prefix, {"tensorflow": "2.13.0"}),
        wheel_folder(replace(horovod, mpi="Open MPI 5.0.1"), prefix, {"torch": "2.13.0"}),
        wheel_folder(horovod, tmp_path / "other python", {"torch": "2.13.0"}),
    }
    assert len(others | {first}) == 5
    assert find_wheel(first) is None


def test_the_build_knows_mpi_and_nothing_else(tmp_path: Path) -> None:
    variables = build_variables(a_horovod(tmp_path), {"torch": "2.13.0"}, tools=tmp_path, cores=3)

    assert variables["HOROVOD_WITH_PYTORCH"] == variables["HOROVOD_WITHOUT_TENSORFLOW"] == "1"
    assert variables["HOROVOD_WITH_MPI"] == variables["HOROVOD_WITHOUT_GLOO"] == "1"
    assert variables["HOROVOD_MPICXX_SHOW"] == "/usr/bin/mpicxx -show" and variables["MAKEFLAGS"] == "-j3"


def test_the_compiler_gets_the_newer_language_as_its_last_word(tools: Path, tmp_path: Path) -> None:
    write_program(tools / "g++", 'echo "$@"')
    write_compiler(replace(a_horovod(tmp_path), compiler=str(tools / "g++")), tmp_path)

    done = subprocess.run([tmp_path / "c++", "-std=gnu++14", "x.cc"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "-std=gnu++14 x.cc -std=c++17"


def test_progress_is_told_in_steps_and_errors_are_found() -> None:
    said: list[str] = []
    progress = _Progress(said.append)
    for line in ("[  3%] a.cc", "[ 25%] b.cc", "[ 30%] c.cc", "b.cc:3: error: no such thing", "[ 61%] d.cc"):
        progress.hear(line)

    assert said == ["Horovod: 25 % compiled.", "Horovod: 61 % compiled."]
    assert progress.errors() == ["b.cc:3: error: no such thing"]
    assert _advice(["x.cc:1: fatal error: Python.h: No such file or directory"]) == (
        "The header `Python.h` is missing: `apt-get install python3-dev`."
    )
    assert _advice(["x.cc:1: fatal error: mpi.h: No such file"]).endswith("`apt-get install libopenmpi-dev`.")
    assert _advice(["fatal error: other.h: No such file"]) == (
        "The header `other.h` is missing: install the package that has it."
    )
    assert "`apt-get install g++`" in _advice(["No CMAKE_CXX_COMPILER could be found."])
    assert "pip config list" in _advice(["ERROR: No matching distribution found for horovod"])


def test_the_reason_below_cmakes_error_is_kept() -> None:
    progress = _Progress(print)
    for line in (
        "-- Found MPI", "CMake Error in torch/CMakeLists.txt:", "  Imported target includes non-existent path", "",
        '    "/usr/lib/x86_64-linux-gnu/openmpi/include"', "", "  in its interface.", "-- Generating done",
    ):  # fmt: skip
        progress.hear(line)

    assert progress.errors() == [
        "CMake Error in torch/CMakeLists.txt:",
        "Imported target includes non-existent path",
        '"/usr/lib/x86_64-linux-gnu/openmpi/include"',
        "in its interface.",
    ]
    assert _advice(progress.lines).endswith("openmpi/include` is missing: `apt-get install libopenmpi-dev`.")


def test_the_open_mpi_beside_the_servers_python_is_found_without_path(tools: Path, tmp_path: Path) -> None:
    beside = tmp_path / "venv/bin"
    beside.mkdir(parents=True)
    for name in ("mpicxx", "mpirun"):
        write_program(beside / name, "echo 'mpicxx: Open MPI 5.0.11 (Language: C++)'")
    found = plan_horovod({"PATH": str(tools)}, wheels=tools, own_python=str(beside / "python"))

    assert (found.mpicxx, found.mpirun) == (str(beside / "mpicxx"), str(beside / "mpirun"))
    assert found.mpi == "Open MPI 5.0.11" and found.compiler == str(tools / "g++")


def test_an_open_mpi_without_headers_is_passed_over_or_named(tools: Path, tmp_path: Path) -> None:
    other = tmp_path / "other/bin"
    other.mkdir(parents=True)
    write_program(other / "mpirun", "")
    write_program(other / "mpicxx", f"case $1 in *incdirs) echo {other}/include ;; *) echo Open MPI 4.1.4 ;; esac")

    assert plan_horovod({"PATH": f"{other}:{tools}"}, wheels=tools).mpicxx == str(tools / "mpicxx")
    (tools / "mpicxx").unlink()
    with pytest.raises(SubmitRejected, match="cannot be built on this node") as caught:
        plan_horovod({"PATH": f"{other}:{tools}"}, wheels=tools)
    assert "has no header `mpi.h`" in caught.value.why and "libopenmpi-dev" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", True),
        ("cuda = '12.8'\n", True),
        ("cuda: Optional[str] = None\n", False),
    ],
)
def test_a_pytorch_for_cuda_needs_cudas_headers(tmp_path: Path, text: str, is_refused: bool) -> None:
    version = tmp_path / "prefix/lib/python3.11/site-packages/torch/version.py"
    version.parent.mkdir(parents=True)
    version.write_text(f"__version__ = '2.13.0'\n{text}")
    variables = {"PATH": str(tmp_path), "CUDA_HOME": str(tmp_path / "cuda")}
    if not is_refused:
        check_cuda(tmp_path / "prefix", variables)
        return

    with pytest.raises(SubmitRejected) as caught:
        check_cuda(tmp_path / "prefix", variables)
    assert "made for CUDA 1" in caught.value.what and "CUDA_HOME" in caught.value.hint
    header = tmp_path / "cuda/include/cuda_runtime.h"
    header.parent.mkdir(parents=True)
    header.write_text("")
    check_cuda(tmp_path / "prefix", variables)
