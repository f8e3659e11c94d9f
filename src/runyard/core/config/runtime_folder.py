"""The short private folder for files that live as long as the private server: its socket and the lock of its start."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Mapping, Optional

from runyard.core.errors import ServerNotStarted

SOCKET_NAME = "s"
MAX_SOCKET_PATH = 107  # sockaddr_un.sun_path is 108 bytes with its closing NUL


def runtime_folder(home: Path, environ: Optional[Mapping[str, str]] = None, *, shared: str = "/tmp") -> Path:
    """Return the folder of the server for `home`, made when missing: ours, mode 0700, no link in its last parts.

    In XDG_RUNTIME_DIR; else in `shared`; else, where another user has taken the name there, in the home.

    Raises:
        ServerNotStarted: others own or may enter it, and the home's path is too long for a socket.
    """
    env = os.environ if environ is None else environ
    key = home_key(home)
    parent = env.get("XDG_RUNTIME_DIR", "")
    if parent and _fits(os.path.join(parent, f"runyard-{key}")) and _is_private(parent):
        folder = os.path.join(parent, f"runyard-{key}")
        _make_private(folder)
        return Path(folder)
    parent = os.path.join(shared, f"runyard-{os.getuid()}")
    try:
        _make_private(parent)
        _make_private(os.path.join(parent, key))
    except ServerNotStarted:
        # Every user may write into the shared folder, so another user's file can be there, which we cannot remove.
        own = own_folder(home)
        if not _fits(own):
            raise
        os.makedirs(os.path.dirname(own), 0o700, exist_ok=True)
        _make_private(own)
        return Path(own)
    return Path(parent, key)


def own_folder(home: Path) -> str:
    """Return the folder inside of the home that is used where the shared one is taken."""
    return os.path.join(os.path.realpath(str(home)), "server", "run")


def socket_path(folder: Path) -> str:
    return os.path.join(str(folder), SOCKET_NAME)


def home_key(home: Path) -> str:
    """Two spellings of one home (links, `..`) have one key."""
    # Most processes of a run never come here.
    from hashlib import sha256

    return sha256(os.fsencode(os.path.realpath(str(home)))).hexdigest()[:16]


def _fits(folder: str) -> bool:
    return len(os.fsencode(os.path.join(folder, SOCKET_NAME))) <= MAX_SOCKET_PATH


def _is_private(folder: str) -> bool:
    return _fault(folder) == ""


def _make_private(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise ServerNotStarted(
            f"The folder `{folder}` for the private server's socket could not be made.",
            why=str(error),
            hint="Set XDG_RUNTIME_DIR to a folder of your own with mode 0700.",
        ) from error
    fault = _fault(folder)
    if fault:
        raise ServerNotStarted(
            f"The folder `{folder}` cannot hold the private server's socket.",
            why=fault,
            hint=f"{_way_out(folder)} set XDG_RUNTIME_DIR to a folder of your own with mode 0700.",
        )


def _way_out(folder: str) -> str:
    is_ours = os.path.lexists(folder) and os.lstat(folder).st_uid == os.getuid()
    return (
        f"Remove it (`rm -r {folder}`), or" if is_ours else "It takes its owner or an administrator to remove it. Else"
    )


def _fault(folder: str) -> str:
    """Return what is wrong with a folder that only we may enter; "" when nothing is."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        return str(error)
    if not stat.S_ISDIR(found.st_mode):
        return "It is a link or a file, not a folder."
    if found.st_uid != os.getuid():
        return f"It belongs to user {found.st_uid}, not to you ({os.getuid()})."
    if found.st_mode & 0o077:
        return f"Others may enter it (mode {stat.S_IMODE(found.st_mode):04o}, it must be 0700)."
    return ""
