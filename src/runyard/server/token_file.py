"""The server's own token, in a file that only its owner reads."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runyard.core.errors import ServerNotStarted

TOKEN_PREFIX = "ryt_"


def ensure_token(path: Path) -> str:
    """Return the server's token, made on the first start: 256 random bits in a file that only its owner reads.

    Who calls holds the home's lock.

    Raises:
        ServerNotStarted: the file is not ours, others can read it, or it holds no token.
    """
    if not os.path.lexists(path):
        _make_token(path)
    return _read_token(path)


def _make_token(path: Path) -> None:
    """Write it beside first: a start that is cut off leaves no half token behind."""
    beside = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(TOKEN_PREFIX + os.urandom(32).hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(beside, path)


def _read_token(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise _unusable(path, f"{error}.") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        text = file.read(512).decode("latin-1").strip()
    fault = ""
    if found.st_uid != os.getuid():
        fault = f"It belongs to user {found.st_uid}."
    elif found.st_mode & 0o077:
        fault = f"Others can read it (mode {found.st_mode & 0o777:04o})."
    elif not re.fullmatch(r"ryt_[0-9a-f]{64}", text):
        fault = "It does not hold a token."
    if fault:
        raise _unusable(path, fault)
    return text


def _unusable(path: Path, why: str) -> ServerNotStarted:
    return ServerNotStarted(
        f"The server's token in `{path}` cannot be used.",
        why=why,
        hint=f"Remove it (`rm {path}`): a new one is made. Programs that hold the old one must read it again.",
    )
