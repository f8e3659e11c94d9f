"""The compute targets that runs can name, as the scheduler sees them. In memory; made from the store at start."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from runyard.core.compute import ASSET_KIND, CONTAINER_INSTANCE, INSTANCE, LOCAL, PER_RUN, ComputeSpec
from runyard.core.errors import SubmitRejected
from runyard.core.plain import from_plain
from runyard.core.records import Asset
from runyard.store.base import RunStore

Key = tuple[str, str]


@dataclass(frozen=True)
class Target:
    """Where runs can be sent. A pool counts nodes; `local` counts runs, whatever their nodes."""

    name: str
    workspace: str = ""  # "": one and the same in every workspace
    backend: str = LOCAL
    places: int | None = None  # None: as many as come
    is_pool: bool = False
    is_stopped: bool = False

    @property
    def key(self) -> Key:
        return self.workspace, self.name

    def places_of(self, nodes: int) -> int:
        """Return how many places a run on that many nodes takes."""
        return nodes if self.is_pool else 1


class Targets:
    """Shared between threads."""

    def __init__(self, builtin: Iterable[Target]) -> None:
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

    def remove_workspace(self, workspace: str) -> None:
        with self._lock:
            self._targets = {key: target for key, target in self._targets.items() if key[0] != workspace}

    def find(self, workspace: str, name: str) -> Target | None:
        with self._lock:
            return self._targets.get((workspace, name)) or self._targets.get(("", name))

    def get(self, workspace: str, name: str) -> Target:
        """Return the target that a run of this workspace means.

        Raises:
            SubmitRejected: there is none of that name; the known ones are listed.
        """
        found = self.find(workspace, name)
        if found is None:
            raise SubmitRejected(
                f"There is no compute target `{name}` in workspace `{workspace}`.",
                why=f"Known here: {', '.join(self.list_names(workspace))}.",
                hint=f"Make it: `runyard compute create {name} --max-nodes 4`. compute_target='local' is this machine.",
            )
        return found

    def list_names(self, workspace: str) -> list[str]:
        with self._lock:
            return sorted({name for place, name in self._targets if place in ("", workspace)})


def builtin_targets(backends: Iterable[str], *, local_runs: int) -> list[Target]:
    """Return the targets that nobody made: the backends themselves, and a pool for each run that asks for one."""
    named = [Target(name, backend=name, places=local_runs or None if name == LOCAL else None) for name in backends]
    return [*named, Target(PER_RUN), Target(CONTAINER_INSTANCE)]


def target_of(asset: Asset) -> Target:
    spec = spec_of(asset)
    places = 1 if spec.type == INSTANCE else spec.max_nodes
    return Target(asset.name, asset.workspace, places=places, is_pool=True, is_stopped=spec.is_stopped)


def spec_of(asset: Asset) -> ComputeSpec:
    return from_plain(ComputeSpec, asset.document)
