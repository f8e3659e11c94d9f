"""The files of a stored source folder, and what two of them differ in. Nothing is written to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, NamedTuple, Tuple

from runyard.core.errors import NotFound
from runyard.snapshots.plan import PlannedFolder, plan_restore

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core.records import Run


class SnapshotFile(NamedTuple):
    path: str
    size: int
    mode: int
    chunks: Tuple[str, ...]
    link: str = ""  # where it leads, for a link


class SnapshotChange(NamedTuple):
    path: str
    kind: str  # "added", "removed" or "changed"


def list_snapshot(client: Client, run: Run) -> Dict[str, SnapshotFile]:
    """Return the files of a run's snapshot by their paths, sorted.

    Raises:
        NotFound: the run has none.
    """
    if run.snapshot_root is None:
        raise NotFound(
            f"Run `{run.id}` has no snapshot.",
            why="It was not submitted with a source folder.",
            hint="Runs of `runyard submit` and `experiment.submit` have one.",
        )
    root = plan_restore(run.snapshot_root, client.content.tree(run.snapshot_root))
    return {file.path: file for file in sorted(_walk(root))}


def compare_snapshots(old: Dict[str, SnapshotFile], new: Dict[str, SnapshotFile]) -> List[SnapshotChange]:
    """Return what was added, removed or changed between two lists, by path."""
    changes = []
    for path in sorted({*old, *new}):
        if path not in old:
            changes.append(SnapshotChange(path, "added"))
        elif path not in new:
            changes.append(SnapshotChange(path, "removed"))
        elif old[path] != new[path]:
            changes.append(SnapshotChange(path, "changed"))
    return changes


def read_snapshot_file(client: Client, file: SnapshotFile) -> bytes:
    return b"".join(data for _, data in client.content.fetch(file.chunks)) if file.chunks else b""


def _walk(root: PlannedFolder) -> List[SnapshotFile]:
    found: List[SnapshotFile] = []
    waiting = [("", root)]
    while waiting:
        prefix, folder = waiting.pop()
        found += [SnapshotFile(prefix + one.name, one.size, one.mode, tuple(one.chunks)) for one in folder.files]
        found += [SnapshotFile(prefix + one.name, 0, 0o777, (), one.target) for one in folder.links]
        waiting += [(f"{prefix}{one.name}/", below) for one, below in folder.folders]
    return found
