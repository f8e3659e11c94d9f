"""Plain runs, workspaces and journal parts to test with."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from runyard.core.records import NewRun, Run, Workspace
from runyard.store.base import ArtifactMetric, Points, Rows, RunStore, SegmentPart


def a_workspace(name: str = "default", *, tags: dict[str, str] | None = None) -> Workspace:
    return Workspace(f"id-of-{name}", name, datetime(2026, 1, 1, tzinfo=timezone.utc), tags=tags or {})


def a_new_run(run_id: str, **fields: Any) -> NewRun:
    """Return a request for a run; its key follows from its id."""
    return NewRun(
        key=f"key-{run_id}", id=run_id, workspace="default", experiment=fields.pop("experiment", "e"), **fields
    )


def a_run(store: RunStore, run_id: str, **fields: Any) -> Run:
    """Create a run, and the workspace when there is none."""
    store.put_workspace(a_workspace())
    return store.create_run(a_new_run(run_id, **fields))[0]


def points(
    metric: str,
    values: Any,
    *,
    kind: str = "f8",
    times: Any = None,
    steps: Any = None,
) -> Points:
    """Return points of any lists or arrays, with times 0, 1, 2… unless given."""
    import numpy as np

    packed: Any = list(values) if kind == "json" else np.array(values, dtype="f8" if kind == "f8" else "i8")
    at = np.array(range(len(values)) if times is None else times, dtype=np.int64)
    return Points(metric, kind, packed, at, None if steps is None else np.array(steps, dtype=np.int64))


class Journal:
    """Ships parts of one journal segment, one after the other."""

    def __init__(
        self,
        store: RunStore,
        run_id: str,
        *,
        attempt: int = 1,
        external_writer: int = 0,
        writer: str = "r0-1-aa",
        segment: int = 0,
        rank: int = 0,
        role: str = "worker",
        wall_offset_ns: int = 0,
    ) -> None:
        self._store, self._run_id = store, run_id
        self._attempt, self._external_writer = attempt, external_writer
        self._fields: dict[str, Any] = {
            "writer": writer,
            "segment": segment,
            "rank": rank,
            "role": role,
            "wall_offset_ns": wall_offset_ns,
        }
        self.offset = 0

    def part(self, *content: Points | Rows | ArtifactMetric, **fields: Any) -> SegmentPart:
        """Return the next part without shipping it."""
        start, self.offset = self.offset, self.offset + 32
        return SegmentPart(start=start, end=self.offset, content=content, **{**self._fields, **fields})

    def ship(self, *content: Points | Rows | ArtifactMetric, **fields: Any) -> None:
        parts = [self.part(*content, **fields)]
        self._store.ingest(self._run_id, self._attempt, parts, external_writer=self._external_writer)
