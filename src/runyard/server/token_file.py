"""The server's own token, in a file that only its owner reads."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runyard.core.errors import ServerNotStarted

TOKEN_PREFIX = "ryt_"


def ensure_token(path: Path) -> str:
    """Return the server's token, made on the first start: 256 random bits in a file that only its owner reads.

    Raises:
        ServerNotStarted: the file is not ours, others can read it, or it holds no token.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return _read_token(path)
    token = TOKEN_PREFIX + os.urandom(32).hex()
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    return token


def _read_token(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
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
        raise ServerNotStarted(
            f"The server's token in `{path}` cannot be used.",
            why=fault,
            hint=f"Remove it (`rm {path}`): a new one is made. Programs that hold the old one must read it again.",
        )
    return text
