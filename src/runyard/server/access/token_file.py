"""Private files of the server, which only its owner may read: its token and its keys."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runyard.core.errors import ServerNotStarted
from runyard.core.machine.files import fault_of, write_beside

TOKEN_PREFIX = "ryt_"


def make_private_file(path: Path, text: str) -> None:
    """Write the file atomically: an interrupted start leaves no half file. A file that exists stays."""
    beside = write_beside(path, text.encode("ascii") + b"\n")
    try:
        os.link(beside, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(beside)


def read_private_file(path: Path, *, pattern: str, what: str) -> str:
    """Return the file's one line.

    Raises:
        ServerNotStarted: it is not ours, others can read it, or it does not hold what it should.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise _unusable(path, what, f"{error}.") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        text = file.read(512).decode("latin-1").strip()
    fault = fault_of(found)
    if not fault and not re.fullmatch(pattern, text):
        fault = f"It does not hold a {what.partition(' ')[0]}."
    if fault:
        raise _unusable(path, what, fault)
    return text


def _unusable(path: Path, what: str, why: str) -> ServerNotStarted:
    return ServerNotStarted(
        f"The server's {what} in `{path}` cannot be used.",
        why=why,
        hint=f"Remove it (`rm {path}`): a new one is made. What the old one opened is closed from then on.",
    )


def ensure_token(path: Path) -> str:
    """Return the server's token, made on the first start: 256 random bits in a file that only its owner reads.

    The caller holds the home's lock.

    Raises:
        ServerNotStarted: the file is not ours, others can read it, or it holds no token.
    """
    if not os.path.lexists(path):
        make_private_file(path, TOKEN_PREFIX + os.urandom(32).hex())
    return read_private_file(path, pattern=TOKEN_PREFIX + r"[0-9a-f]{64}", what="token")
