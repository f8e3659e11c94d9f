"""Small files of the server that only its owner may read: its token, its keys."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runyard.core.errors import ServerNotStarted


def make_private_file(path: Path, text: str) -> None:
    """Write it beside first: a start that is cut off leaves no half file behind. Whoever was first stays."""
    beside = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
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
    if found.st_uid != os.getuid():
        raise _unusable(path, what, f"It belongs to user {found.st_uid}.")
    if found.st_mode & 0o077:
        raise _unusable(path, what, f"Others can read it (mode {found.st_mode & 0o777:04o}).")
    if not re.fullmatch(pattern, text):
        raise _unusable(path, what, f"It does not hold a {what.partition(' ')[0]}.")
    return text


def _unusable(path: Path, what: str, why: str) -> ServerNotStarted:
    return ServerNotStarted(
        f"The server's {what} in `{path}` cannot be used.",
        why=why,
        hint=f"Remove it (`rm {path}`): a new one is made. What the old one opened is closed from then on.",
    )
