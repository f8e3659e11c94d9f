"""Horovod for MPI jobs: compiled on the node against its framework and its Open MPI, once; the wheel is kept.

Wheels of Horovod do not exist, and a build without MPI sees one process only under mpirun, silently.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.errors import SubmitRejected
from runyard.core.lazy_dataclass import dataclass
from runyard.core.provided_packages import package_name
from runyard.environments.installed import list_installed

VERSION = "0.28.1"
FRAMEWORKS = {"torch": "torch", "tensorflow": "tensorflow", "tensorflow-cpu": "tensorflow"}  # package → module
NEWEST_TENSORFLOW = (2, 15)  # headers that Horovod includes are gone from later ones
CUDA_HEADER = "include/cuda_runtime.h"
_APT = {"g++": "g++", "make": "make", "mpicxx": "libopenmpi-dev", "mpirun": "openmpi-bin"}


@dataclass(frozen=True)
class Horovod:
    """What a build starts from. `wheels` is the folder where finished ones are kept."""

    mpicxx: str
    mpirun: str
    mpi: str  # "Open MPI 4.1.4"
    compiler: str
    wheels: Path
    asked: str = "horovod"  # the requirement

    @property
    def is_another(self) -> bool:
        """Whether a version was asked for that is not the one that is built."""
        return "==" in self.asked and VERSION not in self.asked

    def what_counts(self) -> List[str]:
        return ["horovod", VERSION, self.mpi]


def split_horovod(requirements: Sequence[str]) -> Tuple[List[str], str]:
    """Return the requirements without Horovod, and the line that asks for it ("": none does)."""
    asked = [line for line in requirements if package_name(line) == "horovod"]
    return [line for line in requirements if line not in asked], asked[0] if asked else ""


def plan_horovod(variables: Mapping[str, str], *, wheels: Path, asked: str = "horovod") -> Horovod:
    """Return what to build it with. Looks for programs, compiles nothing.

    Raises:
        SubmitRejected: one is missing; the message names the packages to install.
    """
    path = variables.get("PATH") or os.defpath
    found = {name: shutil.which(name, path=path) or "" for name in _APT}
    missing = [name for name, program in found.items() if not program]
    if missing:
        raise SubmitRejected(
            f"Horovod {VERSION} cannot be built on this node.",
            why=f"There is no wheel of it, so it is compiled, and {_listed(missing)} not on PATH.",
            hint=f"`apt-get install --no-install-recommends {' '.join(_APT[name] for name in missing)}`. A script that "
            "does without Horovod: `estimator.conda_dependencies.remove_pip_package('horovod')`.",
        )
    return Horovod(found["mpicxx"], found["mpirun"], _mpi_version(found["mpicxx"]), found["g++"], wheels, asked)


def find_frameworks(prefix: Path) -> Dict[str, str]:
    """Return {module: version} of what Horovod can be built for in an environment.

    Raises:
        SubmitRejected: there is nothing, or only what it cannot be built for.
    """
    names = {package_name(one.name): one.version for one in list_installed(prefix)}
    found = {module: names[package] for package, module in FRAMEWORKS.items() if package in names}
    if not found:
        raise SubmitRejected(
            f"Horovod {VERSION} cannot be built in this environment.",
            why="It has neither PyTorch nor TensorFlow.",
            hint="Add the one that the script uses to pip_packages.",
        )
    version = found.get("tensorflow", "0.0")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) > NEWEST_TENSORFLOW:
        raise SubmitRejected(
            f"Horovod {VERSION} cannot be built for TensorFlow {version}.",
            why=f"It knows TensorFlow up to {'.'.join(map(str, NEWEST_TENSORFLOW))}.",
            hint="Ask for `tensorflow-cpu==2.15.1` (Python 3.9 to 3.11), which the estimators do by themselves.",
        )
    return found


def wheel_folder(horovod: Horovod, prefix: Path, frameworks: Mapping[str, str]) -> Path:
    """Return where the wheel of one framework, MPI and Python version is kept."""
    facts = [*horovod.what_counts(), sorted(frameworks.items()), _python_tag(prefix), platform.machine()]
    return horovod.wheels / hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def find_wheel(folder: Path) -> Optional[Path]:
    return next(iter(sorted(folder.glob("horovod-*.whl"))), None)


def build_variables(horovod: Horovod, frameworks: Mapping[str, str], *, tools: Path, cores: int) -> Dict[str, str]:
    """Return what Horovod's own build reads."""
    built = {"torch": "PYTORCH", "tensorflow": "TENSORFLOW"}
    flags = {f"HOROVOD_{'WITH' if module in frameworks else 'WITHOUT'}_{name}": "1" for module, name in built.items()}
    return {
        **flags,
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_WITHOUT_GLOO": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_MPICXX_SHOW": f"{horovod.mpicxx} -show",
        "CXX": str(tools / "c++"),
        "MAKEFLAGS": f"-j{cores}",
        "PYTHONPATH": str(tools / "site"),
    }


def write_compiler(horovod: Horovod, tools: Path) -> None:
    """Make the compiler that the build uses. Horovod asks for C++14 whatever the flags; the last word wins."""
    program = tools / "c++"
    program.write_text(f'#!/bin/sh\nexec {horovod.compiler} "$@" -std=c++17\n', encoding="utf-8")
    program.chmod(0o755)


def _mpi_version(mpicxx: str) -> str:
    try:
        done = subprocess.run(
            [mpicxx, "--showme:version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
        )
        match = re.search(r"Open MPI (\d+(?:\.\d+)+)", (done.stdout + done.stderr).decode("utf-8", "replace"))
    except (OSError, subprocess.TimeoutExpired):
        match = None
    if match is None:
        raise SubmitRejected(
            f"Horovod {VERSION} cannot be built on this node.",
            why=f"`{mpicxx}` is not Open MPI's, which starts the processes of MPI jobs here.",
            hint="`apt-get install libopenmpi-dev openmpi-bin`, or put its folder first on PATH.",
        )
    return match.group(0)


def _python_tag(prefix: Path) -> str:
    return next((found.name for found in sorted(prefix.glob("lib/python3.*"))), "")


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return f"{' and '.join(quoted)} {'is' if len(names) == 1 else 'are'}"


def check_cuda(prefix: Path, variables: Mapping[str, str]) -> None:
    """Raises SubmitRejected: the environment's PyTorch is one for CUDA, and CUDA's headers are not on this machine."""
    cuda = _cuda_of_torch(prefix)
    if cuda is None or any(os.path.isfile(os.path.join(folder, CUDA_HEADER)) for folder in _cuda_folders(variables)):
        return
    raise SubmitRejected(
        f"Horovod {VERSION} cannot be built for this PyTorch, which is made for CUDA {cuda}.",
        why="It is compiled against CUDA's headers then, and no CUDA toolkit is installed here.",
        hint=f"Install the CUDA toolkit {cuda} and set CUDA_HOME, or use a PyTorch for the CPU: "
        "`pip config set global.extra-index-url <the index that has torch+cpu>`.",
    )


def _cuda_of_torch(prefix: Path) -> Optional[str]:
    """Return the CUDA version that PyTorch was made for; None: it is for the CPU, or not there."""
    for file in prefix.glob("lib/python3.*/site-packages/torch/version.py"):
        found = re.search(r"^cuda\b.*=\s*['\"]([\d.]+)['\"]", file.read_text(encoding="utf-8"), re.MULTILINE)
        return found[1] if found else None
    return None


def _cuda_folders(variables: Mapping[str, str]) -> List[str]:
    named = [variables[name] for name in ("CUDA_HOME", "CUDA_PATH") if variables.get(name)]
    compiler = shutil.which("nvcc", path=variables.get("PATH") or os.defpath)
    beside = [os.path.dirname(os.path.dirname(os.path.realpath(compiler)))] if compiler else []
    return named or [*beside, "/usr/local/cuda"]
