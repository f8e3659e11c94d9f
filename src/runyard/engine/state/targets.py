"""The compute targets that runs can name, as the scheduler sees them. In memory; made from the store at start."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runyard.core.compute import (
    ASSET_KIND,
    CONTAINER_INSTANCE,
    INSTANCE,
    KIND_OF_TYPE,
    LOCAL,
    PER_RUN,
    ComputeSpec,
)
from runyard.core.engine_names import find_engine
from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.core.formats.plain import from_plain
from runyard.core.records import Asset
from runyard.engine.state.alias_book import AliasBook
from runyard.store.base import RunStore

Key = tuple[str, str]


@dataclass(frozen=True)
class Target:
    """Where runs can be sent. A pool counts nodes; others count runs, whatever their nodes."""

    name: str
    workspace: str = ""  # "": one and the same in every workspace
    backend: str = LOCAL  # the kind of its engine
    options: Mapping[str, Any] = field(default_factory=dict)  # how that engine is reached; secrets by reference
    places: int | None = None  # None: as many as come
    is_pool: bool = False
    is_stopped: bool = False

    @property
    def key(self) -> Key:
        return self.workspace, self.name

    @property
    def is_local(self) -> bool:
        """Whether its runs are on the server's machine, and its GPUs are ours to give."""
        return self.backend == LOCAL

    def places_of(self, nodes: int) -> int:
        """Return how many places a run on that many nodes takes."""
        return nodes if self.is_pool else 1


class Targets:
    """Shared between threads. A name is a target of the workspace, one that is always there, an alias, or an engine
    (`slurm:gpu`), in this order.
    """

    def __init__(self, builtin: Iterable[Target], aliases: AliasBook) -> None:
        self.aliases = aliases
        self._lock = threading.Lock()
        self._targets = {target.key: target for target in builtin}

    def load(self, store: RunStore) -> None:
        for workspace in store.list_workspaces():
            for asset in store.list_assets(workspace.name, ASSET_KIND):
                self.put(target_of(asset))

    def put(self, target: Target) -> None:
        with self._lock:
            self._targets[target.key] = target

    def remove(self, workspace: str, name: str) -> None:
        with self._lock:
            self._targets.pop((workspace, name), None)

    def remove_workspace(self, workspace: str) -> list[Target]:
        """Return those that were there."""
        with self._lock:
            gone = [target for key, target in self._targets.items() if key[0] == workspace]
            self._targets = {key: target for key, target in self._targets.items() if key[0] != workspace}
            return gone

    def find(self, workspace: str, name: str) -> Target | None:
        found = self._find_made(workspace, name)
        if found is not None:
            return found
        meant = self.aliases.find(name)
        return _named_engine(name) if meant is None else self._find_made(workspace, meant) or _named_engine(meant)

    def get(self, workspace: str, name: str) -> Target:
        """Return the target that a run of this workspace means.

        Raises:
            SubmitRejected: there is none of that name; the known ones are listed.
        """
        found = self.find(workspace, name)
        if found is None:
            _refuse_engine(name)
            known = [*self.list_names(workspace), *self._alias_names()]
            raise SubmitRejected(
                f"There is no compute target `{name}` in workspace `{workspace}`.",
                why=f"Known here: {', '.join(known)}.",
                hint=f"Make it: `runyard compute create {name} --max-nodes 4`. compute_target='local' is this machine.",
            )
        return found

    def _find_made(self, workspace: str, name: str) -> Target | None:
        with self._lock:
            return self._targets.get((workspace, name)) or self._targets.get(("", name))

    def _alias_names(self) -> list[str]:
        try:
            return sorted(self.aliases.get())
        except InvalidArgument as error:
            raise SubmitRejected(error.what, why=error.why, hint=error.hint) from error

    def list_all(self) -> list[Target]:
        """Return every target that is there, of all workspaces."""
        with self._lock:
            return list(self._targets.values())

    def list_names(self, workspace: str) -> list[str]:
        with self._lock:
            return sorted({name for place, name in self._targets if place in ("", workspace)})


def builtin_targets(backends: Iterable[str], *, local_runs: int) -> list[Target]:
    """Return the targets that nobody made: the backends themselves, and a pool for each run that asks for one."""
    named = [Target(name, backend=name, places=local_runs or None if name == LOCAL else None) for name in backends]
    return [*named, Target(PER_RUN), Target(CONTAINER_INSTANCE)]


def target_of(asset: Asset) -> Target:
    spec = spec_of(asset)
    made = Target(asset.name, asset.workspace, options=spec.options, is_stopped=spec.is_stopped)
    if spec.is_attached:
        kind = KIND_OF_TYPE[spec.type]
        return replace(made, backend=kind, places=spec.max_nodes or None, is_pool=spec.max_nodes > 0)
    places = 1 if spec.type == INSTANCE else spec.max_nodes
    return replace(made, backend=spec.backend or LOCAL, places=places, is_pool=True)


def spec_of(asset: Asset) -> ComputeSpec:
    return from_plain(ComputeSpec, asset.document)


def _named_engine(name: str) -> Target | None:
    try:
        found = find_engine(name)
    except InvalidArgument:
        return None
    return Target(name, backend=found[0], options=found[1]) if found is not None else None


def _refuse_engine(name: str) -> None:
    try:
        find_engine(name)
    except InvalidArgument as error:
        raise SubmitRejected(error.what, why=error.why, hint=error.hint) from error
