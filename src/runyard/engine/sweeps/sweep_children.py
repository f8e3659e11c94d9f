"""A sweep's child as a request: the sweep's own run with the sampled values after its arguments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runyard.core.errors import InvalidArgument
from runyard.core.formats.plain import from_plain
from runyard.core.records import NewRun, Run
from runyard.core.specs import DataReferenceSpec, RunSpec
from runyard.engine.sweeps.journal import Child
from runyard.store.base import RunStore


def child_id(parent_id: str, index: int) -> str:
    return f"{parent_id}_{index}"


def check_free_id(store: RunStore, run_id: str) -> None:
    """Raise unless a run that is no sweep's child may have this id.

    Raises:
        InvalidArgument: it is one that a sweep gives, or will give, to a child of its own.
    """
    sweep_id, _, index = run_id.rpartition("_")
    sweep = store.find_run(sweep_id) if sweep_id and index.isdecimal() else None
    if sweep is not None and sweep.spec.sweep is not None:
        raise InvalidArgument(
            f"A run cannot have the id `{run_id}`.",
            why=f"Ids that begin with `{sweep_id}_` are for the children that this sweep makes.",
            hint="Choose another id, or leave it out.",
        )


def child_request(parent: Run, spec: RunSpec, child: Child) -> NewRun:
    """Return the request for `child`; `spec` is the sweep's own with secrets in place. The same child, the same key."""
    words = [*sampled_arguments(child.parameters), *child.arguments]
    arguments = [*spec.arguments, *words]
    command = None if spec.command is None else " ".join([spec.command, *map(shlex.quote, words)])
    definition = {**spec.definition, "arguments": arguments, "command": command or ""}
    return NewRun(
        key=f"sweep:{child.run_id}",
        id=child.run_id,
        workspace=parent.workspace,
        experiment=parent.experiment,
        spec=replace(
            spec,
            data_references={**spec.data_references, **_resumed_data(parent, child)},
            arguments=arguments if command is None else spec.arguments,
            command=command,
            definition=definition,
            sweep=None,
        ),
        parent_id=parent.id,
        snapshot_id=parent.snapshot_id,
        tags={"hyperparameters": hyperparameters(child.parameters)},
        properties=dict(parent.properties),
        submitted_by=parent.submitted_by,
        owner=parent.owner,
    )


def _resumed_data(parent: Run, child: Child) -> dict[str, DataReferenceSpec]:
    """Return the data that only this child gets: the outputs of the one whose values it tries again."""
    assert parent.spec.sweep is not None
    first = parent.spec.sweep.first_trials[child.index : child.index + 1]
    given: Mapping[str, Any] = first[0].get("data_references", {}) if first else {}
    return {name: from_plain(DataReferenceSpec, dict(plain)) for name, plain in given.items()}


def sampled_arguments(parameters: Mapping[str, Any]) -> list[str]:
    """Return `--name value` for each; a name that begins with `-` is used as it is."""
    words: list[str] = []
    for name, value in parameters.items():
        words += [name if name.startswith("-") else f"--{name}", argument_text(value)]
    return words


def argument_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (list, dict)) else str(value)


def hyperparameters(parameters: Mapping[str, Any]) -> str:
    return json.dumps(dict(parameters))


def parent_tags(children: Sequence[Child]) -> dict[str, str | None]:
    """Return the tags by which the sweep's own run names its children's values."""
    found: dict[str, str | None] = {}
    for child in children:
        text = hyperparameters(child.parameters)
        found.update({child.run_id: text, f"_aml_system_{child.run_id}": text})
    return found
