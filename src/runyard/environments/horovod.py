"""Horovod for MPI jobs: compiled on the node against its framework and its Open MPI, once; the wheel is kept.

Wheels of Horovod do not exist, and a build without MPI silently sees only one process under mpirun. The first functions
plan the build. `HorovodBuild` installs the tools, compiles the wheel and checks the result.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Dict, Iterator, List, Mapping, Optional, Pattern, Sequence, Tuple

from runyard.core.errors import SubmitRejected
from runyard.core.lazy_dataclass import dataclass
from runyard.core.machine.files import atomic_write
from runyard.core.provided_packages import package_name
from runyard.environments.base import Check, Say
from runyard.environments.process import run_program
from runyard.environments.system import list_installed
from runyard.environments.uv_program import find_uv, install_failed

if TYPE_CHECKING:
    from runyard.environments.pip import PipInstall


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


def plan_horovod(
    variables: Mapping[str, str], *, wheels: Path, asked: str = "horovod", own_python: str = sys.executable
) -> Horovod:
    """Return what to build it with: the Open MPI beside this Python (the extra `mpi`), else the one on PATH.

    Looks for programs, compiles nothing.

    Raises:
        SubmitRejected: one is missing; the message names the packages to install.
    """
    path = variables.get("PATH") or os.defpath
    found = {name: shutil.which(name, path=path) or "" for name in _APT}
    for folder in dict.fromkeys([os.path.dirname(own_python), *path.split(os.pathsep)]):
        programs = {name: os.path.join(folder, name) for name in ("mpicxx", "mpirun")}
        if all(os.access(program, os.X_OK) for program in programs.values()) and _has_header(programs["mpicxx"]):
            found.update(programs)
            break
    missing = [name for name, program in found.items() if not program]
    if missing:
        raise SubmitRejected(
            f"Horovod {VERSION} cannot be built on this node.",
            why=f"There is no wheel of it, so it is compiled, and {_listed(missing)} not on PATH.",
            hint=f"`apt-get install --no-install-recommends {' '.join(_APT[name] for name in missing)}`. A script that "
            "does without Horovod: `estimator.conda_dependencies.remove_pip_package('horovod')`.",
        )
    if not _has_header(found["mpicxx"]):
        raise SubmitRejected(
            f"Horovod {VERSION} cannot be built on this node.",
            why=f"There is no wheel of it, so it is compiled, and Open MPI ({found['mpicxx']}) has no header `mpi.h`.",
            hint="`apt-get install libopenmpi-dev`, or `pip install 'runyard[mpi]'` in the Python that runs the server:"
            " its Open MPI has the headers and is found by itself.",
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


def _has_header(mpicxx: str) -> bool:
    """Whether an Open MPI can be compiled against; True where its compiler does not tell."""
    try:
        done = subprocess.run(
            [mpicxx, "--showme:incdirs"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    folders = [word for word in done.stdout.decode("utf-8", "replace").split() if os.path.isabs(word)]
    return done.returncode != 0 or not folders or any(os.path.isfile(f"{folder}/mpi.h") for folder in folders)


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


# setuptools 70 and later cannot read Horovod's setup.py; cmake comes from PyPI where the machine has none.
_TOOLS = ("setuptools<70", "wheel", "pip", "packaging", "cffi", "pyyaml", "psutil", "cloudpickle")
_STEP = re.compile(r"\[ *(\d+)%\]")
_SAY_EVERY_PERCENT = 20
POLL_S = 0.2


class HorovodBuild:
    """One environment's Horovod. `pip` says from where packages come, `python` is the environment's interpreter."""

    def __init__(
        self, horovod: Horovod, pip: PipInstall, python: str, *, say: Say, check: Check, keep: Sequence[int]
    ) -> None:
        self._horovod = horovod
        self._pip = pip
        self._python = python
        self._prefix = Path(python).parent.parent
        self._say = say
        self._check = check
        self._keep = list(keep)

    def install(self) -> None:
        """Raises SubmitRejected: it cannot be built, or does not work; the message has the compiler's last words."""
        if self._horovod.is_another:
            self._say(f"`{self._horovod.asked}` is asked for; {VERSION} is the one that today's frameworks can have.")
        frameworks = find_frameworks(self._prefix)
        folder = wheel_folder(self._horovod, self._prefix, frameworks)
        words = " and ".join(f"{name} {version}" for name, version in frameworks.items())
        with self._locked(folder):
            wheel = find_wheel(folder)
            if wheel is None:
                check_cuda(self._prefix, self._pip.variables)
                self._say(f"Building Horovod {VERSION} for {words} with {self._horovod.mpi}: a few minutes, once.")
                wheel = self._make(folder, frameworks)
            else:
                self._say(f"Using Horovod {VERSION} as built earlier for {words} with {self._horovod.mpi}.")
        self._uv("--python", self._python, str(wheel))
        self._forget_file(wheel)
        self._link_mpirun()
        self._try_out(frameworks)

    def _make(self, folder: Path, frameworks: Mapping[str, str]) -> Path:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="runyard-horovod-") as name:
            tools = Path(name)
            cmake = [] if shutil.which("cmake", path=self._path()) else ["cmake<4"]
            self._uv("--python", self._python, "--target", str(tools / "site"), *_TOOLS, *cmake)
            write_compiler(self._horovod, tools)
            self._compile(tools, frameworks)
            built = find_wheel(tools / "out")
            assert built is not None
            with atomic_write(str(folder / built.name)) as beside:
                shutil.copyfile(built, beside)
        self._say(f"Horovod is built ({time.monotonic() - began:.0f} s); the wheel is kept in {folder}.")
        return folder / built.name

    def _compile(self, tools: Path, frameworks: Mapping[str, str]) -> None:
        cores = os.cpu_count() or 1
        variables = build_variables(self._horovod, frameworks, tools=tools, cores=cores)
        folders = [os.path.dirname(self._python), str(tools / "site" / "bin"), self._path()]
        environ = {**self._pip.environ(), **self._pip_variables(), **variables, "PATH": os.pathsep.join(folders)}
        argv = [self._python, "-m", "pip", "wheel", "--verbose", "--no-cache-dir", "--no-build-isolation", "--no-deps"]
        argv += ["--no-binary", "horovod", "--wheel-dir", str(tools / "out"), f"horovod=={VERSION}"]
        progress = _Progress(self._say)
        code = run_program(argv, environ=environ, say=progress.hear, check=self._check, keep=self._keep)
        if code != 0:
            self._say("Horovod's build failed; all that it said:")
            for line in progress.lines:
                self._say(line)
            raise SubmitRejected(
                f"Horovod {VERSION} could not be built for {', '.join(frameworks)}.",
                why="\n".join(progress.errors() or [f"pip exited with {code}."]),
                hint=_advice(progress.lines),
            )

    def _uv(self, *arguments: str) -> None:
        lines: List[str] = []
        argv = [find_uv(self._pip.variables), "pip", "install", *self._pip.settings.as_arguments(), *arguments]
        code = run_program(argv, environ=self._pip.environ(), say=lines.append, check=self._check, keep=self._keep)
        if code != 0:
            raise install_failed(self._pip.name, code, lines)

    def _pip_variables(self) -> Dict[str, str]:
        """Return what pip needs to find the source where the environment's own settings say."""
        settings = self._pip.settings
        found = {
            "PIP_INDEX_URL": settings.index_url or "",
            "PIP_EXTRA_INDEX_URL": " ".join(settings.extra_index_urls),
            "PIP_FIND_LINKS": " ".join(settings.find_links),
        }
        return {name: value for name, value in found.items() if value}

    def _forget_file(self, wheel: Path) -> None:
        """Let the environment's lock name the version, not a file of this machine."""
        for note in self._prefix.glob("lib/python3.*/site-packages/horovod-*.dist-info/direct_url.json"):
            note.unlink()

    def _link_mpirun(self) -> None:
        """Make the run start by the Open MPI that Horovod was built with: an environment's own mpirun comes first."""
        link = os.path.join(os.path.dirname(self._python), "mpirun")
        if not os.path.lexists(link):
            os.symlink(self._horovod.mpirun, link)

    def _try_out(self, frameworks: Mapping[str, str]) -> None:
        names = ", ".join(f"horovod.{module}" for module in frameworks)
        code = f"import {names}; assert horovod.{next(iter(frameworks))}.mpi_built(), 'it was built without MPI'"
        lines: List[str] = []
        argv = [self._python, "-c", code]
        environ = {name: value for name, value in self._pip.environ().items() if name != "RUNYARD_RUN_FOLDER"}
        if run_program(argv, environ=environ, say=lines.append, check=self._check, keep=self._keep) != 0:
            raise SubmitRejected(
                f"Horovod {VERSION} was built but cannot be imported.",
                why="\n".join(lines[-8:]),
                hint="Remove its wheels, so that the next run builds them anew: "
                f"`rm -r {self._horovod.wheels}`, then submit again.",
            )

    def _path(self) -> str:
        return self._pip.variables.get("PATH") or os.defpath

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        """One build of a wheel at a time; a build that waits says so."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            is_told = False
            while not _try_lock(fd):
                if not is_told:
                    self._say("Another run builds this Horovod; waiting for its wheel.")
                is_told = True
                self._check()
                time.sleep(POLL_S)
            self._keep.append(fd)
            yield
        finally:
            self._keep = [one for one in self._keep if one != fd]
            os.close(fd)


class _Progress:
    """Says now and then how far the compiler is; keeps all lines for an error."""

    def __init__(self, say: Say) -> None:
        self.lines: List[str] = []
        self._say = say
        self._said = 0

    def hear(self, line: str) -> None:
        self.lines.append(line)
        step = _STEP.search(line)
        percent = int(step.group(1)) if step else 0
        if percent >= self._said + _SAY_EVERY_PERCENT:
            self._said = percent
            self._say(f"Horovod: {percent} % compiled.")
        elif line.startswith("… still"):
            self._say(line)

    def errors(self) -> List[str]:
        """Return the lines that say why, else the last ones."""
        wanted = re.compile(r"\berror\b|Error:|not found|No such file", re.IGNORECASE)
        found = [line.strip()[:300] for line in _with_reasons(self.lines, wanted)]
        return (found or [line.strip()[:300] for line in self.lines if line.strip()])[-12:]


def _with_reasons(lines: Sequence[str], wanted: Pattern[str]) -> Iterator[str]:
    """Yield the lines of errors. CMake's first line names a file only; the reason is in the indented lines below."""
    is_reason = False
    for line in lines:
        is_reason = bool(_CMAKE.search(line)) or (is_reason and (not line.strip() or line.startswith("  ")))
        if line.strip() and (is_reason or wanted.search(line)):
            yield line


_CMAKE = re.compile(r"CMake Error")
_HEADER = re.compile(r"fatal error: (\S+): No such file")
_FOLDER = re.compile(r'includes non-existent path\s+"([^"]+)"')
_PACKAGES = (
    (r"(?:^|/)Python\.h$|/python3", f"python{sys.version_info[0]}-dev"),
    (r"(?:^|/)mpi[^/]*\.h$|openmpi|/mpi", "libopenmpi-dev"),
    (r"cuda|nccl", "nvidia-cuda-toolkit"),
)


def _advice(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    header, folder = _HEADER.search(text), _FOLDER.search(text)
    if header or folder:
        missing = header[1] if header else folder[1] if folder else ""
        package = next((package for pattern, package in _PACKAGES if re.search(pattern, missing)), "")
        what = f"The header `{missing}` is missing" if header else f"The folder of headers `{missing}` is missing"
        return f"{what}: `apt-get install {package}`." if package else f"{what}: install the package that has it."
    if re.search(r"Could NOT find MPI|MPI_CXX", text):
        return "Open MPI cannot be compiled against: `apt-get install libopenmpi-dev`, or `pip install 'runyard[mpi]'`."
    if re.search(r"CMAKE_CXX_COMPILER|No CMAKE_C\w*_COMPILER|compiler.*not (?:able|found)", text):
        return "The C++ compiler is missing or does not work: `apt-get install g++`."
    if "No matching distribution" in text or "Could not find a version" in text:
        return "The package index does not offer Horovod's source; `pip config list` shows which ones are asked."
    return (
        "The build log azureml-logs/20_image_build_log.txt of the run has more. Horovod is known to build with PyTorch "
        "2.13 and TensorFlow 2.15 on Python 3.11."
    )


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
