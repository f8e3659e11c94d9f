"""Build Horovod into an environment: tools, compiler, wheel, and a look whether it is right."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Dict, Iterator, List, Mapping, Sequence

from runyard.core.errors import SubmitRejected
from runyard.core.machine.whole_files import written_beside
from runyard.environments.base import Check, Say
from runyard.environments.horovod import (
    VERSION,
    Horovod,
    build_variables,
    check_cuda,
    find_frameworks,
    find_wheel,
    wheel_folder,
    write_compiler,
)
from runyard.environments.process import run_program
from runyard.environments.uv_program import find_uv, install_failed

if TYPE_CHECKING:
    from runyard.environments.pip import PipInstall

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
            with written_beside(str(folder / built.name)) as beside:
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
        """One build of a wheel at a time; who waits says so."""
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
        found = [line.strip()[:300] for line in self.lines if wanted.search(line)]
        return (found or [line.strip()[:300] for line in self.lines if line.strip()])[-12:]


def _advice(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    if "Python.h" in text:
        return f"The headers of this Python are missing: `apt-get install python{sys.version_info[0]}-dev`."
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
