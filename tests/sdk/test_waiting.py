"""Whoever watches a run hears something before its first line."""

from __future__ import annotations

import io
from dataclasses import replace

from runyard.core.statuses import RunStatus
from runyard.sdk.runs.waiting import WaitingLine
from runyard.store.memory.store import MemoryRunStore
from runyard.testing.runs import a_run
from tests.waiting import wait_for


def test_what_the_run_does_is_said_until_it_runs() -> None:
    out = io.StringIO()
    run = replace(
        a_run(MemoryRunStore(), "r1"), status=RunStatus.PREPARING, waits_for="restoring the snapshot · 1.0 MB of 2.0 MB"
    )
    with WaitingLine("r1", out=out, first_after_s=0.01, every_s=0.01) as waiting:
        wait_for(lambda: "waiting for run r1" in out.getvalue())
        waiting.hear(run)
        wait_for(lambda: "run r1 is Preparing, 0 s: restoring the snapshot · 1.0 MB of 2.0 MB\n" in out.getvalue())
        waiting.hear(replace(run, status=RunStatus.RUNNING, waits_for=""))
        said = out.getvalue()

    assert out.getvalue() == said
