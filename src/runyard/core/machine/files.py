"""Private files and atomic writes.

Private files hold secrets: only their owner may read them. Each write goes to a new file beside the target and is
renamed into place, so that an interrupted write leaves the old file.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping

from runyard.core.errors import UserError
from runyard.core.machine.portable import DIRECTORY, NOFOLLOW, READ, WRITE, has_modes, own_user

if TYPE_CHECKING:
    from pathlib import Path  # ranks load this module, and `pathlib` brings in `urllib` and `ipaddress`


def read_private(path: Path) -> Dict[str, Any]:
    """Return the file's object; {} when there is none.

    Raises:
        UserError: it is not ours, others can read it, or it is not a JSON object.
    """
    try:
        descriptor = os.open(str(path), READ | NOFOLLOW)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(path, f"{error}.", f"ls -l {path}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        text = file.read()
    fault = fault_of(found)
    if fault:
        is_ours = found.st_uid == own_user()
        raise _unusable(path, fault, f"chmod 600 {path}" if is_ours else "Set RUNYARD_HOME to a folder of your own.")
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise _unusable(path, f"It is not JSON: {error}.", f"Repair it, or remove it: rm {path}") from error
    if not isinstance(plain, dict):
        raise _unusable(path, "It does not hold a JSON object.", f"Repair it, or remove it: rm {path}")
    return plain


def write_private(path: Path, plain: Mapping[str, object]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_private(path, json.dumps(plain, indent=2, sort_keys=True).encode() + b"\n")


def replace_private(path: Path, data: bytes) -> None:
    """Write beside first and rename."""
    os.replace(str(write_beside(path, data)), str(path))


def write_beside(path: Path, data: bytes) -> Path:
    """Return a new file beside `path` that holds `data`, on the disk for good."""
    beside = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    flags = WRITE | os.O_CREAT | os.O_EXCL | NOFOLLOW
    with os.fdopen(os.open(str(beside), flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return beside


def fault_of(found: os.stat_result) -> str:
    """Return why a file does not keep a secret; "" when it does."""
    if not has_modes():
        return ""
    if found.st_uid != own_user():
        return f"It belongs to user {found.st_uid}."
    return f"Others can read it (mode {found.st_mode & 0o777:04o})." if found.st_mode & 0o077 else ""


def _unusable(path: Path, why: str, hint: str) -> UserError:
    return UserError(f"The file `{path}` cannot be used.", why=why, hint=hint)


@contextmanager
def atomic_write(target: str) -> Iterator[str]:
    """Give a path to write to. What is there takes the place of `target` when the block ends well, else it goes."""
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    beside = f"{target}.{os.urandom(4).hex()}.part"
    try:
        yield beside
        os.replace(beside, target)
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise


def write_whole(path: str, data: bytes, *, sync: bool = False) -> None:
    """Put a private file with this content in place of `path`, in a folder that exists.

    With `sync`, a loss of power leaves the old file or the new one. Which of them is certain only after `sync_folder`.
    """
    beside = f"{path}.{os.urandom(4).hex()}.new"
    try:
        write_new(beside, data, sync=sync)
        os.replace(beside, path)
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise


def write_new(path: str, data: bytes, *, sync: bool = False) -> None:
    """Make a private file. Raises FileExistsError. A crash may leave a part of it, unless it comes after a `sync`."""
    fd = os.open(path, WRITE | os.O_CREAT | os.O_EXCL | NOFOLLOW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: str) -> None:
    """Have the names in a folder survive a loss of power."""
    if not DIRECTORY:  # Windows opens no folder, and writes names by itself
        return
    fd = os.open(path, READ | DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
