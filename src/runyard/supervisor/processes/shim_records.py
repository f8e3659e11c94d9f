"""What rank shims wrote about the ranks that mpirun started: `starts/<rank>.json`, `exits/<rank>.json`."""

from __future__ import annotations

from typing import Any, Dict, Optional

from runyard.supervisor.run_folder import RunFolder


def read_start(folder: RunFolder, rank: int) -> Optional[Dict[str, Any]]:
    """Return `{rank, pid, start_ticks, started_boot_ns, boot_id}`, None when the rank has not started."""
    return _read(folder, f"starts/{rank}.json", rank)


def read_end(folder: RunFolder, rank: int) -> Optional[Dict[str, Any]]:
    """Return the exit record, None when the rank has not ended or nobody could write it."""
    return _read(folder, f"exits/{rank}.json", rank)


def _read(folder: RunFolder, name: str, rank: int) -> Optional[Dict[str, Any]]:
    found = folder.read_object(name)
    return found if found.get("rank") == rank else None
