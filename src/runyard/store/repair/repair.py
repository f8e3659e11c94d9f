"""`runyard server repair`: a damaged SQLite file is replaced by one with all that can be read of it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.core.machine.files import sync_folder
from runyard.store.repair.salvage import Salvage, salvage

_COMPANIONS = ("-wal", "-shm")


@dataclass(frozen=True)
class Repaired:
    """What a repair found and where the damaged file is."""

    salvage: Salvage
    damaged_file: Path | None  # where the old one is now; None: it was sound and stays


def repair(path: Path) -> Repaired:
    """Check the file and, unless it is sound, put a repaired one in its place. No server may have it open.

    Raises:
        StoreUnavailable: nothing can be read.
    """
    new = path.with_name(f"{path.name}.repaired-{os.getpid()}")
    had_journal = os.path.exists(f"{os.path.realpath(path)}-wal")
    try:
        found = salvage(path, new)
        if found.is_sound:
            return Repaired(found, None)
        return Repaired(found, _replace(path, new))
    finally:
        for ending in ("", "-journal", *_COMPANIONS):
            Path(f"{new}{ending}").unlink(missing_ok=True)
        for ending in () if had_journal else _COMPANIONS:  # made by reading
            Path(f"{os.path.realpath(path)}{ending}").unlink(missing_ok=True)


def _replace(path: Path, new: Path) -> Path:
    """Keep the old file and its journal under another name; a crash in between leaves the old one where it was."""
    kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    real = Path(os.path.realpath(path))
    for ending in ("", "-wal"):
        with suppress(FileNotFoundError):
            os.link(f"{real}{ending}", f"{kept}{ending}")
    for ending in _COMPANIONS:  # SQLite would apply the old journal to the new file
        Path(f"{real}{ending}").unlink(missing_ok=True)
    os.chmod(new, 0o600)
    with open(new, "rb") as file:
        os.fsync(file.fileno())
    os.rename(new, real)
    sync_folder(str(real.parent))
    return kept
