"""Archiving: runs leave the usual lists, with all below them, and stay as they are otherwise."""

from __future__ import annotations

from runyard.core.errors import NotFound
from runyard.core.records import Run
from runyard.engine.context import Yard


def archive(yard: Yard, run_id: str, archived: bool) -> Run:
    """Archive a run and all below it, or bring them back; return the run."""
    run = yard.store.update_run(run_id, archived=archived)
    for below in yard.store.list_family(run_id)[1:]:
        try:
            yard.store.update_run(below, archived=archived)
        except NotFound:
            continue  # it is deleted
        yard.on_change(below)
    yard.on_change(run_id)
    return run
