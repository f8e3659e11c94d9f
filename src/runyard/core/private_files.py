"""Small JSON files that hold secrets: only their owner reads them, and a write that is cut off leaves the old one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict

from runyard.core.errors import UserError


def read_private(path: Path) -> Dict[str, Any]:
    """Return the file's object; {} when there is none.

    Raises:
        UserError: it is not ours, others can read it, or it is not a JSON object.
    """
    try:
        descriptor = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(path, f"{error}.", f"ls -l {path}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        text = file.read()
    if found.st_uid != os.getuid():
        raise _unusable(path, f"It belongs to user {found.st_uid}.", "Set RUNYARD_HOME to a folder of your own.")
    if found.st_mode & 0o077:
        raise _unusable(path, f"Others can read it (mode {found.st_mode & 0o777:04o}).", f"chmod 600 {path}")
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise _unusable(path, f"It is not JSON: {error}.", f"Repair it, or remove it: rm {path}") from error
    if not isinstance(plain, dict):
        raise _unusable(path, "It does not hold a JSON object.", f"Repair it, or remove it: rm {path}")
    return plain


def write_private(path: Path, plain: Dict[str, Any]) -> None:
    """Write beside first and rename."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(str(beside), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(plain, file, indent=2, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(str(beside), str(path))


def _unusable(path: Path, why: str, hint: str) -> UserError:
    return UserError(f"The file `{path}` cannot be used.", why=why, hint=hint)
