"""Turns a process into the supervisor of a run. Apart from `main`, so that a node's supervisor loads no reaper."""

from __future__ import annotations

import logging
import os
import socket
import sys

from runyard.core.config.settings import Settings
from runyard.core.machine.facts import supervisor_command
from runyard.supervisor.processes.keeper import ProcessOwner, ReaperClient, ReaperGone
from runyard.supervisor.run_folder import RunFolder, take_lock

logger = logging.getLogger(__name__)


def supervise(folder: RunFolder, settings: Settings, link: socket.socket, umask: int, cookie: str) -> int:
    """Be the supervisor below a reaper until the run's end; return the exit code.

    Runs in the process that the reaper, or a cluster's node before it, forked. `link` leads to the reaper. When the
    reaper dies, this process replaces itself by an adopter; without a run folder it kills the run's processes instead.
    """
    if take_lock(folder, "supervisor.lock") is None:
        return 1
    keeper = ReaperClient(link)
    try:
        keeper.wait_for_state()
        watch_over(folder, settings, keeper, umask)
    except ReaperGone:
        if folder.is_gone():
            from runyard.supervisor.processes.killing import end_marked

            end_marked(keeper.ranks, cookie=cookie)
            return 0
        logger.warning("the reaper is gone; going on without it")
        os.execv(sys.executable, [*supervisor_command(), "--adopt", folder.path])
    return 0


def watch_over(folder: RunFolder, settings: Settings, keeper: ProcessOwner, umask: int) -> None:
    """Supervise a run until its end, with or without a reaper. Raises ReaperGone."""
    configure_logging(folder, settings)
    # Imported here: an adopter that finds the run supervised leaves without these modules.
    from runyard.supervisor.supervisor import Supervisor

    try:
        Supervisor(folder, folder.job(), keeper, settings, umask=umask).run()
    except ReaperGone:
        raise
    except BaseException:
        logger.exception("the supervisor failed")
        raise


def configure_logging(folder: RunFolder, settings: Settings) -> None:
    """Send this process's log to `system_logs/supervisor.log`, on later nodes `supervisor_<rank>.log`."""
    os.makedirs(folder.at("system_logs"), mode=0o700, exist_ok=True)
    rank = int(folder.read_object("job.json").get("node_rank") or 0)
    name = f"supervisor_{rank}.log" if rank > 0 else "supervisor.log"
    handler = logging.FileHandler(folder.at("system_logs", name), encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    logging.raiseExceptions = False  # a full disk must not print tracebacks
