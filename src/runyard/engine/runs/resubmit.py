"""Submits a run again: a new run of the same spec, code, tags and name that names its origin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runyard.core.errors import DamagedContent, NotFound, SubmitRejected
from runyard.core.machine.facts import node_variables
from runyard.core.names import make_uuid
from runyard.core.records import (
    IGNORED_PROPERTY,
    LEFT_OUT_PROPERTY,
    SNAPSHOT_PROPERTY,
    SOURCE_PROPERTY,
    NewRun,
    Run,
    make_id_like,
)
from runyard.engine.context import EngineEvents
from runyard.engine.sanitize import holds_hidden
from runyard.store.base import RunStore

ORIGIN = "runyard.resubmitted_from"
_OF_CODE = ("azureml.git.", "mlflow.source.")  # properties that the code has, whichever run it is


@dataclass(frozen=True)
class ResubmitRequest:
    """A request to submit a run again. `id` and `key` make it repeatable; the server makes them if left out."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    id: str = ""
    key: str = ""
    submitter: dict[str, str] = field(default_factory=dict)  # never stored


def resubmit_request(store: RunStore, events: EngineEvents, run_id: str, wanted: ResubmitRequest) -> NewRun:
    """Return the request for a copy of this run.

    Raises:
        SubmitRejected: the server does not hold all that the run was made of; the error says what is missing.
    """
    run = store.get_run(run_id)
    _check(store, events, run)
    return NewRun(
        key=wanted.key or make_uuid(),
        id=wanted.id or make_id_like(run),
        workspace=run.workspace,
        experiment=run.experiment,
        spec=run.spec,
        type=run.type,
        display_name=run.display_name,
        description=run.description,
        snapshot_id=run.snapshot_id,
        tags={key: value for key, value in run.tags.items() if run.id not in key},  # a sweep's name its children
        properties={**_of_code(run), ORIGIN: run.id},
        submitted_by=run.submitted_by,
    )


def own_variables() -> Mapping[str, str]:
    """Return what a run on `local` finds in its environment when nobody's shell submits it: what the server has."""
    return node_variables(os.environ)


def _check(store: RunStore, events: EngineEvents, run: Run) -> None:
    if not (run.spec.script or run.spec.command):
        raise SubmitRejected(
            f"Run `{run.id}` cannot be submitted again.",
            why="It was not launched by Runyard: it logged from a notebook or a program of yours.",
            hint="Start that program again.",
        )
    if holds_hidden(run.spec):
        raise SubmitRejected(
            f"Run `{run.id}` cannot be submitted again from here.",
            why="Its arguments or variables held a secret, which was given to its processes and not kept.",
            hint="Submit it from where the secret is: `runyard submit`, or experiment.submit(…).",
        )
    if run.snapshot_id is None:
        return
    events.hold_snapshot(run.snapshot_id)
    root = store.find_snapshot(run.snapshot_id)
    if root is None:
        raise _without_code(run, "Its code is no longer on the server.")
    try:
        events.check_snapshot(root)
    except (NotFound, DamagedContent) as error:
        raise _without_code(run, f"Its code is damaged on the server. {error.what} {error.why}".rstrip()) from error


def _without_code(run: Run, why: str) -> SubmitRejected:
    return SubmitRejected(
        f"Run `{run.id}` cannot be submitted again.",
        why=why,
        hint="Submit it from its source folder: `runyard submit`.",
    )


def _of_code(run: Run) -> dict[str, str]:
    kept = (SNAPSHOT_PROPERTY, LEFT_OUT_PROPERTY, IGNORED_PROPERTY, SOURCE_PROPERTY)
    return {key: value for key, value in run.properties.items() if key.startswith(_OF_CODE) or key in kept}
