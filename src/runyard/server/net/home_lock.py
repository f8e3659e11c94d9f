"""One server per home: a lock file that names the host, the process and its socket."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.core.config.paths import server_folder
from runyard.core.errors import ServerNotStarted
from runyard.core.machine.facts import boot_id, start_ticks
from runyard.store.mounts import find_network_file_system

_OURS = frozenset({"server", "artifacts", "runs", "cache", "crashes", "environments"})


@dataclass(frozen=True)
class Holder:
    """The server process that holds the lock, or held it last."""

    host: str
    boot_id: str
    pid: int
    start_ticks: int
    socket: str


class HomeLock:
    """Held for the server's life. The kernel lets go of it however the process ends."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def is_in_place(self) -> bool:
        """Whether the home still has this lock: without it, or with another, another server may serve the home."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path, follow_symlinks=False))
        except OSError:
            return False

    def name(self, holder: Holder) -> None:
        """Write the holder into the lock file: clients find the socket there."""
        text = json.dumps(asdict(holder)).encode() + b"\n"
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))
        os.fsync(self._descriptor)

    def release(self) -> None:
        """Release the lock; an empty file means that the holder ended in order."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def prepare_home(home: Path) -> None:
    """Make `home` and its server folder, ours alone.

    Raises:
        ServerNotStarted: it belongs to another user, or others can read it and it holds more than our files.
    """
    for folder in (home, server_folder(home)):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _bad_home(home, str(error)) from error
        found = folder.stat()
        if found.st_uid != os.getuid():
            raise _bad_home(home, f"`{folder}` belongs to user {found.st_uid}, not to you ({os.getuid()}).")
        if found.st_mode & 0o077:
            _close_to_others(home, folder, found.st_mode)


def take_lock(home: Path) -> tuple[HomeLock | None, Holder | None]:
    """Return the home's lock and its last holder; (None, holder) when a live server has it.

    Raises:
        ServerNotStarted: a server on another host has this home, or had it and was cut off.
    """
    path = lock_file(home)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        is_free = _try_flock(descriptor, path)
        holder = _read_holder(descriptor)
        if holder is not None and _is_elsewhere(holder) and (not is_free or find_network_file_system(home)):
            raise _other_host(home, holder, is_alive=not is_free)
    except BaseException:
        os.close(descriptor)
        raise
    if not is_free:
        os.close(descriptor)
        return None, holder
    return HomeLock(descriptor, path), holder


def wait_for_lock(home: Path, *, patience_s: float, answers: Callable[[Holder], bool]) -> HomeLock | None:
    """Return the lock; None when a server that `answers(holder)` has it. One that is just leaving is waited for.

    Raises:
        ServerNotStarted: the holder neither answers nor leaves, or is on another host.
    """
    deadline = time.monotonic() + patience_s
    while True:
        lock, holder = take_lock(home)
        if lock is not None:
            return lock
        if holder is not None and answers(holder):
            return None
        if time.monotonic() > deadline:
            raise ServerNotStarted(
                f"A server has `{home}` and does not answer.",
                why=f"Process {holder.pid if holder else '?'} holds {lock_file(home)}.",
                hint=f"End it with `kill {holder.pid}` and try again." if holder else "`fuser` on that file names it.",
            )
        time.sleep(0.02)


def lock_file(home: Path) -> Path:
    return server_folder(home) / "lock"


def this_process(socket_path: str) -> Holder:
    return Holder(_host(), boot_id(), os.getpid(), start_ticks(), socket_path)


def _try_flock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        raise ServerNotStarted(
            f"The file system of `{path}` cannot lock files.",
            why=str(error),
            hint="Set RUNYARD_HOME to a folder on this machine's own disk.",
        ) from error
    return True


def _read_holder(descriptor: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(descriptor, 65536, 0)))
    except (ValueError, TypeError):
        return None


def _is_elsewhere(holder: Holder) -> bool:
    """A restart changes a host's boot id, a container its name: only both together are another host."""
    return holder.boot_id != boot_id() and holder.host != _host()


def _other_host(home: Path, holder: Holder, *, is_alive: bool) -> ServerNotStarted:
    state = "runs" if is_alive else "ran, and was cut off,"
    return ServerNotStarted(
        f"The home `{home}` is in use by a server on host `{holder.host}`.",
        why=f"It {state} there as process {holder.pid}; two hosts cannot share one home.",
        hint=f"Stop it there (`runyard server stop` on {holder.host}), or set RUNYARD_HOME to a folder of this host. "
        f"If that host is gone for good: rm {lock_file(home)}",
    )


def _close_to_others(home: Path, folder: Path, mode: int) -> None:
    names = {entry.name for entry in os.scandir(folder)} if folder == home else set()
    if mode & stat.S_ISVTX or not names <= _OURS:
        raise _bad_home(home, f"Others can enter it (mode {stat.S_IMODE(mode):04o}), and it holds more than our files.")
    folder.chmod(0o700)


def _bad_home(home: Path, why: str) -> ServerNotStarted:
    return ServerNotStarted(
        f"The home `{home}` cannot be used.",
        why=why,
        hint="Set RUNYARD_HOME to a folder of its own, for example ~/.local/share/runyard.",
    )


def _host() -> str:
    return socket.gethostname()
