"""What an exit record says, and how far a failure can be from being the cause of a run's."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from runyard.supervisor.run_folder import RunFolder

CAUSE, ABORTED, CONSEQUENCE, STOPPED, HELPER = range(5)


def has_failed(record: Mapping[str, Any]) -> bool:
    return bool(record.get("code") or record.get("signal") or record.get("unknown"))


def has_raised(folder: RunFolder, ranks: Sequence[Mapping[str, Any]], exits: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a rank's program has failed, though its process is still there: MPI_Finalize may wait for the others."""
    ended = {record["rank"] for record in exits}
    return any(folder.has(f"exceptions/{entry['pid']}.json") for entry in ranks if entry["rank"] not in ended)
