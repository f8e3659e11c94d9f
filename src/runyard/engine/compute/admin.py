"""Compute targets of a workspace: create, attach, change, delete, and describe with nodes, runs and queue."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from runyard.compute.base import ClusterNode
from runyard.compute.local import node_name
from runyard.core.compute import (
    ASSET_KIND,
    LOCAL,
    POOL,
    ComputeNode,
    ComputeRun,
    ComputeSpec,
    ComputeTarget,
    check_compute,
    check_compute_name,
    check_target_name,
)
from runyard.core.compute_options import SLURM, SSH, host_of_slot
from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.formats.plain import to_plain
from runyard.core.records import Asset
from runyard.engine.compute.attach import (
    attach,
    check_cluster,
    check_no_pools,
    leave,
    resolve_pool_backend,
    with_changes,
)
from runyard.engine.context import ComputeState, EngineContext
from runyard.engine.runs.dispatch import require_reachable
from runyard.engine.runs.wait_reasons import explain
from runyard.engine.state.allocation import QueueEntry, Stage
from runyard.engine.state.backends import shown_options
from runyard.engine.state.nodes import IdleNodes
from runyard.engine.state.targets import Key, Target, spec_of, target_of
from runyard.store.base import RunStore

_NOT_ASKED = "Its nodes are shown when a run was sent there, or when it is attached."
MOST_EXPLAINED = 100  # of a queue; each costs a look at all in front of it


def describe(context: EngineContext, asset: Asset) -> ComputeTarget:
    """Return a stored target with its nodes, runs and queue."""
    target, spec = target_of(asset), spec_of(asset)
    found = ComputeTarget(
        workspace=asset.workspace,
        name=asset.name,
        spec=replace(spec, options=shown_options(spec.options)),
        created_at=asset.created_at,
        updated_at=asset.updated_at,
        nodes_since=_last_change(context.compute.idle, target.key, asset),
    )
    return _with_cluster(context, _with_runs(context, found, target), target)


def describe_cluster(context: EngineContext, workspace: str, target: Target) -> ComputeTarget:
    """Return a cluster that is named directly as a pool of all its nodes. `max_nodes` 0: no limit of ours."""
    spec = ComputeSpec(POOL, max_nodes=0, cluster=target.name, backend=target.backend, options=dict(target.options))
    found = _with_runs(context, ComputeTarget(workspace, target.name, spec), target)
    return (
        _with_cluster(context, found, target)
        if _may_be_asked(context.compute, target)
        else replace(found, note=_NOT_ASKED)
    )


def describe_local(context: EngineContext, workspace: str) -> ComputeTarget:
    """Return this machine as a target. `max_nodes` 0: no limit."""
    spec = ComputeSpec(type="Local", max_nodes=context.settings.local_runs, description="the server's machine")
    return _with_runs(context, ComputeTarget(workspace, LOCAL, spec), Target(LOCAL))


def _may_be_asked(compute: ComputeState, target: Target) -> bool:
    """Who only looks must not send this server to an address of their choice: a cluster answers with code to run."""
    if target.backend == SLURM or target.name in compute.targets.aliases.get().values():
        return True
    return compute.backends.is_made(compute.backends.key_of(target))


def _with_runs(context: EngineContext, found: ComputeTarget, target: Target) -> ComputeTarget:
    jobs = context.board.on_target(target.key)
    nodes = _nodes(context, target.key, found.spec, jobs) if target.is_pool and target.is_local else []
    return replace(found, nodes=nodes, running=_running(jobs), waiting=_waiting(context, jobs))


def _with_cluster(context: EngineContext, found: ComputeTarget, target: Target) -> ComputeTarget:
    """Return it with what its cluster says about its machines."""
    if target.is_local:
        return found
    seen = context.compute.nodes.look(context.compute.backends.key_of(target))
    if seen.nodes is None:
        held = _nodes(context, target.key, found.spec, context.board.on_target(target.key)) if target.is_pool else []
        return replace(found, nodes=held, note=seen.note)
    on_hosts = _runs_on_hosts(context, target)
    return replace(found, nodes=[_cluster_node(node, on_hosts) for node in seen.nodes], note=seen.note)


def _cluster_node(node: ClusterNode, on_hosts: dict[str, str]) -> ComputeNode:
    return ComputeNode(
        node.name,
        on_hosts.get(node.name) or on_hosts.get(node.address),
        address=node.address,
        state=node.state,
        cpus=node.cpus,
        gpu_count=node.gpus,
        memory_bytes=node.memory_bytes,
        note=node.note,
        host_key=node.host_key,
    )


def _runs_on_hosts(context: EngineContext, target: Target) -> dict[str, str]:
    """Return a run for each host of an ssh target; which nodes a cluster chose, only its cluster knows."""
    if target.backend != SSH:
        return {}
    hosts: Sequence[dict[str, str]] = target.options.get("hosts", [])
    host_of = host_of_slot(hosts)
    held = [(slot, job) for job in context.board.on_target(target.key) if not _waits(job) for slot in job.slots]
    return {hosts[host_of[slot]]["address"]: job.run_id for slot, job in held if slot < len(host_of)}


def _nodes(context: EngineContext, key: Key, spec: ComputeSpec, jobs: list[QueueEntry]) -> list[ComputeNode]:
    """Return the nodes that are there: with a run, left not long ago, or kept in any case."""
    holders = {slot: job for job in jobs if job.stage is not Stage.WAITING for slot in job.slots}
    warm = context.compute.idle.still_there(key, idle_seconds=spec.idle_seconds, now=context.clock.now())
    there = set(holders) | {slot for slot in warm if slot < spec.max_nodes}
    spare = (slot for slot in range(spec.max_nodes) if slot not in there)
    there.update(slot for slot, _ in zip(spare, range(spec.min_nodes - len(there)), strict=False))
    return [_node(slot, holders.get(slot)) for slot in sorted(there)]


def _node(slot: int, job: QueueEntry | None) -> ComputeNode:
    return ComputeNode(node_name(slot), job.run_id if job is not None else None)


def _last_change(idle: IdleNodes, key: Key, asset: Asset) -> datetime:
    released = idle.last_release(key)
    return asset.updated_at if released is None else max(released, asset.updated_at)


def _waits(job: QueueEntry) -> bool:
    """Whether it stands in a queue, ours or its cluster's."""
    return job.stage is Stage.WAITING or bool(job.wait_reason)


def _running(jobs: list[QueueEntry]) -> list[ComputeRun]:
    return [ComputeRun(job.run_id, job.nodes, list(job.devices)) for job in jobs if not _waits(job)]


def _waiting(context: EngineContext, jobs: list[QueueEntry]) -> list[ComputeRun]:
    waiting = [job for job in jobs if _waits(job)]
    explained = [explain(context, job) for job in waiting[:MOST_EXPLAINED]]
    texts = explained + [""] * (len(waiting) - len(explained))
    return [ComputeRun(job.run_id, job.nodes, waits_for=text) for job, text in zip(waiting, texts, strict=True)]


logger = logging.getLogger(__name__)


class ComputeTargets:
    """The compute targets of every workspace, as the server's routes ask for them.

    Thread-safe and without a lock of its own: the store refuses the second of two changes to one target. Creating,
    attaching and changing may wait for the target's cluster.
    """

    def __init__(self, context: EngineContext) -> None:
        self._context = context

    def find(self, workspace: str, name: str) -> Target | None:
        """Return the target that a run of the workspace means by `name`, also by an alias or a cluster's name."""
        return self._context.compute.targets.find(workspace, name)

    def create(self, workspace: str, name: str, spec: ComputeSpec) -> tuple[ComputeTarget, bool]:
        """Create or attach a target. The flag says whether it is new; an equal one is returned as it is.

        Raises:
            InvalidArgument: the spec is invalid.
            Conflict: there is another target of that name.
            UserError, SystemFailure: the cluster of an attached target cannot be used.
        """
        check_compute_name(name)
        spec = check_compute(spec)
        self._context.store.get_workspace(workspace)
        known = _find(self._context.store, workspace, name)
        if known is not None:
            _check_same(self._context, known, spec)
            return describe(self._context, known), False
        if name in self._context.compute.targets.aliases.get():
            return self._find_alias(workspace, name, spec), False
        spec = resolve_pool_backend(self._context, workspace, spec)
        kept = (
            _on_cluster(self._context, Target(name, workspace, spec.backend, spec.options), spec)
            if spec.backend
            else spec
        )
        asset, is_new = self._context.store.put_asset(workspace, ASSET_KIND, name, to_plain(kept))
        self._context.compute.targets.put(target_of(asset))
        logger.info("compute target %s of workspace %s: made, %s", name, workspace, spec.backend or "on this machine")
        return describe(self._context, asset), is_new

    def update(self, workspace: str, name: str, changes: Mapping[str, Any]) -> ComputeTarget:
        """Change the fields of ComputeSpec that `changes` names, and let waiting runs use the new room.

        Options of an attached target are changed one by one; None removes one.

        Raises:
            NotFound: there is no such target.
            InvalidArgument: the changed spec would be invalid.
            Conflict: runs live on the cluster that it would leave.
        """
        asset = _get(self._context.store, workspace, name)
        before = spec_of(asset)
        spec = with_changes(self._context, asset, changes) if before.is_attached else _changed_pool(before, changes)
        changed = self._context.store.update_asset(
            workspace, ASSET_KIND, name, version=asset.version, document=to_plain(spec)
        )
        self._context.compute.targets.put(target_of(changed))
        if spec.options != before.options:
            leave(self._context.compute, asset, staying=spec.options)
        self._context.events.wake.set()
        return describe(self._context, changed)

    def delete(self, workspace: str, name: str) -> None:
        """Delete or detach a target. It may be repeated.

        Raises:
            Conflict: unfinished runs or pools use it.
        """
        check_compute_name(name)
        asset = _find(self._context.store, workspace, name)
        _check_unused(self._context, workspace, name)
        self._context.store.delete_asset(workspace, ASSET_KIND, name)
        self._context.compute.targets.remove(workspace, name)
        self._context.compute.idle.forget((workspace, name))
        if asset is not None and spec_of(asset).is_attached:
            leave(self._context.compute, asset)

    def get(self, workspace: str, name: str) -> ComputeTarget:
        """Return a target with the runs on it. Every workspace has `local`, the aliases, and clusters by their names.

        Raises:
            NotFound: the workspace has no such target.
        """
        if name == LOCAL:
            return describe_local(self._context, workspace)
        asset = _find(self._context.store, workspace, name)
        if asset is not None:
            return describe(self._context, asset)
        meant = self._context.compute.targets.aliases.get().get(name)
        if meant is not None:
            return replace(self.get(workspace, meant), name=name, alias_of=meant)
        target = self._context.compute.targets.find(workspace, check_target_name(name))
        if target is None or target.is_local:
            return describe(self._context, _get(self._context.store, workspace, name))
        return describe_cluster(self._context, workspace, target)

    def list(self, workspace: str) -> list[ComputeTarget]:
        """Return the workspace's own targets and the aliases of this server, by name."""
        self._context.store.get_workspace(workspace)
        assets = self._context.store.list_assets(workspace, ASSET_KIND)
        for asset in assets:
            _ask_cluster(self._context.compute, target_of(asset))
        made = {asset.name: describe(self._context, asset) for asset in assets}
        aliases = {
            name: self._find_meant(workspace, name)
            for name in self._context.compute.targets.aliases.get()
            if name not in made
        }
        found = {**made, **{name: target for name, target in aliases.items() if target is not None}}
        return [found[name] for name in sorted(found)]

    def _find_alias(self, workspace: str, name: str, spec: ComputeSpec) -> ComputeTarget:
        """Return what a name in old code stands for here: it finds its pool there, and makes none."""
        if spec.is_attached:
            raise Conflict(
                f"`{name}` is an alias of this server, for `{self._context.compute.targets.aliases.get()[name]}`.",
                hint="Attach it under another name, or take the line out of the alias file.",
            )
        return self.get(workspace, name)

    def _find_meant(self, workspace: str, name: str) -> ComputeTarget | None:
        try:
            return self.get(workspace, name)
        except NotFound:
            return None  # a target of another workspace


def check_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that are named; raise InvalidArgument when there are none."""
    keys = {field.name: field.metadata.get("alias", field.name) for field in fields(ComputeSpec)}
    named = {name: changes[key] for name, key in keys.items() if changes.get(key) is not None}
    if not named:
        raise InvalidArgument("Nothing is changed.", hint="Name what shall change, such as max_nodes.")
    return named


def _on_cluster(context: EngineContext, target: Target, spec: ComputeSpec) -> ComputeSpec:
    """Return the spec as it is stored, when the cluster can be used and its machines reach this server."""
    require_reachable(context.addresses, target.backend)
    if spec.is_attached:
        return attach(context.compute, context.addresses, target, spec)
    check_cluster(context.compute, context.addresses, target)
    return spec


def _changed_pool(before: ComputeSpec, changes: Mapping[str, Any]) -> ComputeSpec:
    if "options" in changes:
        raise InvalidArgument("A pool has no options.", hint="Name what an attached target has.")
    return check_compute(replace(before, **changes))


def _check_unused(context: EngineContext, workspace: str, name: str) -> None:
    used = context.board.on_target((workspace, name))
    if used:
        runs = ", ".join(f"`{job.run_id}`" for job in used[:3])
        raise Conflict(
            f"Compute target `{name}` is in use.",
            why=f"{len(used)} unfinished {'run names' if len(used) == 1 else 'runs name'} it: {runs}.",
            hint=f"Wait for them, or cancel: `runyard runs cancel {used[0].run_id}`.",
        )
    check_no_pools(context.store, workspace, name)


def _ask_cluster(compute: ComputeState, target: Target) -> None:
    if not target.is_local:
        compute.nodes.ask(compute.backends.key_of(target))


def _check_same(context: EngineContext, known: Asset, spec: ComputeSpec) -> None:
    there = spec_of(known)
    if there.is_attached and there.type == spec.type:
        is_same = context.compute.secrets.is_same(there.options, spec.options)
    else:
        # The cluster was chosen when the pool was made; what is configured now concerns new ones.
        cluster = spec.cluster or there.cluster
        is_same = replace(spec, backend=there.backend, options=there.options, cluster=cluster) == there
    if is_same:
        return
    raise Conflict(
        f"There is a compute target `{known.name}` already, with other settings.",
        why=f"It is of type {there.type}{'' if there.is_attached else f' with at most {there.max_nodes} nodes'}.",
        hint=f"Use it: ComputeTarget(ws, '{known.name}'); change it: `runyard compute update {known.name}`.",
    )


def _find(store: RunStore, workspace: str, name: str) -> Asset | None:
    try:
        return store.get_asset(workspace, ASSET_KIND, name)
    except NotFound:
        return None


def _get(store: RunStore, workspace: str, name: str) -> Asset:
    found = _find(store, workspace, name)
    if found is None:
        known = [asset.name for asset in store.list_assets(workspace, ASSET_KIND)]
        raise NotFound(
            f"There is no compute target `{name}` in workspace `{workspace}`.",
            why=f"Known here: {', '.join(known) or 'none yet'}.",
            hint=f"Make it: `runyard compute create {name} --max-nodes 4`.",
        )
    return found
