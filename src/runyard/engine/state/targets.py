"""The compute targets that runs can name, as the scheduler sees them, and the server's alias file.

In memory; read from the store at the start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runyard.core.compute import (
    ASSET_KIND,
    CONTAINER_INSTANCE,
    FILE,
    INSTANCE,
    KIND_OF_TYPE,
    LOCAL,
    MOST_BYTES,
    PER_RUN,
    ComputeSpec,
    find_cluster_name,
    read_aliases,
)
from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.core.formats.plain import from_plain
from runyard.core.records import Asset
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)


class AliasBook:
    """The names that the alias file gives to targets, read again when the file changes. Thread-safe.

    A file that cannot be read means no aliases; `get` then says why.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._lock = threading.Lock()
        self._seen: object = None
        self._aliases: dict[str, str] = {}
        self._fault: InvalidArgument | None = None

    def get(self) -> dict[str, str]:
        """Return name → target.

        Raises:
            InvalidArgument: the file is none; its line is named.
        """
        self._look()
        if self._fault is not None:
            raise self._fault
        return dict(self._aliases)

    def find(self, name: str) -> str | None:
        """Return what a name stands for; None when it stands for itself, or nobody can tell."""
        self._look()
        return self._aliases.get(name)

    def _look(self) -> None:
        with self._lock:
            seen = self._signature()
            if seen != self._seen:
                self._seen = seen
                self._read()

    def _signature(self) -> object:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> None:
        self._aliases, self._fault = {}, None
        if self._seen is None:
            return
        try:
            with open(self._path, encoding="utf-8") as file:
                self._aliases = read_aliases(file.read(MOST_BYTES), path=str(self._path))
        except InvalidArgument as error:
            self._fault = error
        except (OSError, ValueError) as error:
            self._fault = InvalidArgument(f"The alias file {self._path} cannot be read.", why=f"{error}.")
        if self._fault is not None:
            logger.warning("%s", self._fault)


Key = tuple[str, str]


@dataclass(frozen=True)
class Target:
    """A place to which runs can be sent. A slot is a node of a pool; of other targets, a run on any number of nodes."""

    name: str
    workspace: str = ""  # "": one and the same in every workspace
    backend: str = LOCAL  # the kind of its cluster
    options: Mapping[str, Any] = field(default_factory=dict)  # how that cluster is reached; secrets by reference
    slots: int | None = None  # None: no limit
    is_pool: bool = False
    is_stopped: bool = False

    @property
    def key(self) -> Key:
        """Workspace and name."""
        return self.workspace, self.name

    @property
    def is_local(self) -> bool:
        """Whether its runs are on the server's machine, and its GPUs are ours to give."""
        return self.backend == LOCAL

    def slots_of(self, nodes: int) -> int:
        """Return how many slots a run on that many nodes takes."""
        return nodes if self.is_pool else 1


class Targets:
    """The compute targets of all workspaces, in memory. Thread-safe.

    A name is looked up, in this order, as a target of the workspace, a built-in target, an alias, and a cluster
    (`slurm:gpu`).
    """

    def __init__(self, builtin: Iterable[Target], aliases: AliasBook) -> None:
        self.aliases = aliases
        self._lock = threading.Lock()
        self._targets = {target.key: target for target in builtin}

    def load(self, store: RunStore) -> None:
        """Read the targets of all workspaces from the store. Called once, at the start."""
        for workspace in store.list_workspaces():
            for asset in store.list_assets(workspace.name, ASSET_KIND):
                self.put(target_of(asset))

    def put(self, target: Target) -> None:
        """Add or replace a target."""
        with self._lock:
            self._targets[target.key] = target

    def remove(self, workspace: str, name: str) -> None:
        """Remove a target. It may be repeated."""
        with self._lock:
            self._targets.pop((workspace, name), None)

    def remove_workspace(self, workspace: str) -> list[Target]:
        """Remove the targets of a workspace and return them."""
        with self._lock:
            gone = [target for key, target in self._targets.items() if key[0] == workspace]
            self._targets = {key: target for key, target in self._targets.items() if key[0] != workspace}
            return gone

    def find(self, workspace: str, name: str) -> Target | None:
        """Return the target that a run of this workspace means; None if there is none."""
        found = self._find_made(workspace, name)
        if found is not None:
            return found
        meant = self.aliases.find(name)
        return _named_cluster(name) if meant is None else self._find_made(workspace, meant) or _named_cluster(meant)

    def get(self, workspace: str, name: str) -> Target:
        """Return the target that a run of this workspace means.

        Raises:
            SubmitRejected: there is none of that name; the known ones are listed.
        """
        found = self.find(workspace, name)
        if found is None:
            _refuse_cluster(name)
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
        """Return the names of the workspace's targets and of the built-in ones, sorted."""
        with self._lock:
            return sorted({name for place, name in self._targets if place in ("", workspace)})


def builtin_targets(backends: Iterable[str], *, local_runs: int) -> list[Target]:
    """Return the targets that nobody made: the backends themselves, and a pool for each run that asks for one."""
    named = [Target(name, backend=name, slots=local_runs or None if name == LOCAL else None) for name in backends]
    return [*named, Target(PER_RUN), Target(CONTAINER_INSTANCE)]


def target_of(asset: Asset) -> Target:
    """Return the stored target as the scheduler sees it."""
    spec = spec_of(asset)
    made = Target(asset.name, asset.workspace, options=spec.options, is_stopped=spec.is_stopped)
    if spec.is_attached:
        kind = KIND_OF_TYPE[spec.type]
        return replace(made, backend=kind, slots=spec.max_nodes or None, is_pool=spec.max_nodes > 0)
    slots = 1 if spec.type == INSTANCE else spec.max_nodes
    return replace(made, backend=spec.backend or LOCAL, slots=slots, is_pool=True)


def spec_of(asset: Asset) -> ComputeSpec:
    """Return the spec that the stored target was created with."""
    return from_plain(ComputeSpec, asset.document)


def _named_cluster(name: str) -> Target | None:
    try:
        found = find_cluster_name(name)
    except InvalidArgument:
        return None
    return Target(name, backend=found[0], options=found[1]) if found is not None else None


def _refuse_cluster(name: str) -> None:
    try:
        find_cluster_name(name)
    except InvalidArgument as error:
        raise SubmitRejected(error.what, why=error.why, hint=error.hint) from error
