"""The ways to start this process: as the fork server, for a run, as an adopter, for an external run, as the server."""

from __future__ import annotations

import gc
import logging
import os
import sys
from typing import List, Optional

from runyard.core.config.settings import Settings, read_settings
from runyard.core.machine.facts import boot_id
from runyard.supervisor.entry import configure_logging, supervise, watch_over
from runyard.supervisor.own_processes import PreforkedSupervisor, detach_from_starter, detach_session
from runyard.supervisor.proc import set_subreaper
from runyard.supervisor.processes.adopted import Adopted
from runyard.supervisor.processes.reaper import Reaper, remove_run_folder
from runyard.supervisor.run_folder import REFUSED, RunFolder, claim, take_lock

USAGE = "usage: python -m runyard.supervisor --fork-server | --run FOLDER | --adopt FOLDER | --watch FOLDER\n"

logger = logging.getLogger(__name__)


def main(arguments: List[str]) -> int:
    """Start as the arguments say; return the exit code."""
    umask = os.umask(0o077)
    detach_session()
    if arguments == ["--serve"]:
        return serve()
    if arguments == ["--fork-server"]:
        from runyard.supervisor.fork_server import serve_forks, warm_up  # no other start needs it

        warm_up(read_settings())
        return serve_forks(lambda mode, path: start_apart(mode, path, umask))
    if len(arguments) != 2 or arguments[0] not in ("--run", "--adopt", "--watch"):
        sys.stderr.write(USAGE)
        return 2
    detach_from_starter()
    return start(arguments[0], RunFolder(arguments[1]), umask)


def start_apart(mode: str, path: str, umask: int) -> int:
    """Start as `mode` says, in a process that the fork server has just forked."""
    detach_session()
    detach_from_starter()
    return start(mode, RunFolder(path), umask)


def start(mode: str, folder: RunFolder, umask: int) -> int:
    """Become what `mode` asks for, for the run of `folder`. An orphaned run that never launched starts anew."""
    settings = read_settings()
    if mode == "--watch":
        return watch(folder, settings)
    if mode == "--adopt" and may_have_launched(folder):
        return adopt(folder, settings, umask)
    return run(folder, settings, umask, again=mode == "--adopt")


def may_have_launched(folder: RunFolder) -> bool:
    """Return whether code of the run may have started. After a reboot nothing can tell: the mark is not synced."""
    return folder.has("launched") or folder.read_object("claim").get("boot_id") != boot_id()


def run(
    folder: RunFolder,
    settings: Settings,
    umask: int,
    *,
    again: bool = False,
    early: Optional[PreforkedSupervisor] = None,
) -> int:
    """Be the reaper until the run's end. `again`: an earlier reaper died before the launch, so take over its claim.

    `early`: the supervisor that a cluster's node has already forked.
    """
    lock = take_lock(folder, "claim") if again else claim(folder)
    if lock is None:
        return 0
    folder.make_subfolders()
    set_subreaper(True)
    cookie = str(folder.read_object("job.json").get("cookie", ""))
    gc.freeze()  # keeps the memory of these objects shared with the children
    Reaper(
        folder,
        cookie=cookie,
        supervise=lambda link: supervise(folder, settings, link, umask, cookie),
        lock_fd=lock,
        is_first=not again,
        early=early,
    ).run()
    return 0


def adopt(folder: RunFolder, settings: Settings, umask: int) -> int:
    """Be the supervisor of a launched run whose reaper is gone; leave at once when another process supervises it."""
    if take_lock(folder, "supervisor.lock") is None or take_lock(folder, "claim") is None:
        return 0
    if folder.has("done"):
        if not settings.keep_run_folders and not folder.read_object(REFUSED):
            remove_run_folder(folder)
        return 0
    cookie = str(folder.read_object("job.json").get("cookie", ""))
    watch_over(folder, settings, Adopted(folder, cookie), umask)
    return 0


def watch(folder: RunFolder, settings: Settings) -> int:
    """Be the supervisor of an external run; leave at once when another process supervises it."""
    lock = claim(folder)
    if (lock is None and take_lock(folder, "claim") is None) or take_lock(folder, "supervisor.lock") is None:
        return 0
    # Only external runs need it.
    from runyard.supervisor.external_run import ExternalRun

    try:
        folder.make_subfolders()
        configure_logging(folder, settings)
        ExternalRun(folder, folder.job(), settings).run()
    except FileNotFoundError:
        if not folder.is_gone():
            raise
    return 0


def serve() -> int:
    """Start the private server from a process outside of the run's tree. Supervisors call it with `--serve`."""
    if os.fork():
        os._exit(0)
    from runyard.client.private_server import ensure

    detach_from_starter()
    settings = read_settings()
    if os.path.isdir(settings.home):  # a removed home must not come back
        ensure(settings)
    return 0
