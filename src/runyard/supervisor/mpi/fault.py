"""Tells when mpirun itself is the cause of a run's failure. Apart from `find`: every run's end asks, few search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence, Set

from runyard.launchers.base import MPIRUN
from runyard.supervisor.diagnosis.log_tail import read_tail
from runyard.supervisor.processes.exits import has_failed
from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.documents import ErrorDetails, RunError
    from runyard.core.formats.run_files import RankExit

LOG = "system_logs/mpirun.log"


def find_mpirun_fault(folder: RunFolder, counting: Set[int], exits: Sequence[RankExit]) -> Optional[RunError]:
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


def _ended(record: RankExit) -> int:
    return int(record.get("ended_boot_ns") or 0)


def _fault(folder: RunFolder, own: RankExit, sentence: str) -> RunError:
    lines = read_tail(folder.at(LOG), LOG).last()
    details: ErrorDetails = {"kind": "mpirun", "exit_code": own.get("code"), "log": LOG, "last_lines": lines}
    if own.get("signal"):
        details["signal"] = own["signal"]
    message = "\n".join([sentence, "", f"Last lines of {LOG}:", *lines]) if lines else sentence
    return {"code": "UserError", "message": message, "details": details}
