"""Compute targets of a workspace: make, change, delete, and how each stands now."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from runyard.compute.virtual_nodes import node_name
from runyard.core.compute import (
    ASSET_KIND,
    LOCAL,
    ComputeNode,
    ComputeRun,
    ComputeSpec,
    ComputeTarget,
    check_compute,
    check_compute_name,
)
from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.plain import to_plain
from runyard.core.records import Asset
from runyard.engine.job import Job, Stage
from runyard.engine.targets import Key, spec_of, target_of
from runyard.engine.waits import explain
from runyard.engine.yard import Yard

logger = logging.getLogger(__name__)

MOST_EXPLAINED = 100  # of a queue; each costs a look at all in front of it


def create_target(yard: Yard, workspace: str, name: str, spec: ComputeSpec) -> tuple[ComputeTarget, bool]:
    """Make a target; the flag says whether it is new. The same one again is the one that is there.

    Raises:
        InvalidArgument: no target can be like this.
        Conflict: there is another one of that name.
    """
    check_compute_name(name)
    check_compute(spec)
    yard.store.get_workspace(workspace)
    known = _find(yard, workspace, name)
    if known is not None:
        _check_same(known, spec)
        return describe(yard, known), False
    asset, is_new = yard.store.put_asset(workspace, ASSET_KIND, name, to_plain(spec))
    yard.targets.put(target_of(asset))
    logger.info("compute target %s of workspace %s: made, %d nodes at most", name, workspace, spec.max_nodes)
    return describe(yard, asset), is_new


def update_target(yard: Yard, workspace: str, name: str, changes: Mapping[str, Any]) -> ComputeTarget:
    """Change what is named in `changes`, fields of ComputeSpec; who waits may start by it.

    Raises:
        NotFound: there is no such target.
        InvalidArgument: no target can be like this.
    """
    asset = _get(yard, workspace, name)
    spec = check_compute(replace(spec_of(asset), **changes))
    changed = yard.store.update_asset(workspace, ASSET_KIND, name, version=asset.version, document=to_plain(spec))
    yard.targets.put(target_of(changed))
    yard.wake.set()
    return describe(yard, changed)


def delete_target(yard: Yard, workspace: str, name: str) -> None:
    """Delete a target; twice is fine.

    Raises:
        Conflict: runs wait for it or are on it.
    """
    check_compute_name(name)
    used = yard.board.on_target((workspace, name))
    if used:
        runs = ", ".join(f"`{job.run_id}`" for job in used[:3])
        raise Conflict(
            f"Compute target `{name}` is in use.",
            why=f"{len(used)} unfinished {'run names' if len(used) == 1 else 'runs name'} it: {runs}.",
            hint=f"Wait for them, or cancel: `runyard runs cancel {used[0].run_id}`.",
        )
    yard.store.delete_asset(workspace, ASSET_KIND, name)
    yard.targets.remove(workspace, name)
    yard.idle.forget((workspace, name))


def get_target(yard: Yard, workspace: str, name: str) -> ComputeTarget:
    """Return a target with what is on it; `local` is there in every workspace."""
    return describe_local(yard, workspace) if name == LOCAL else describe(yard, _get(yard, workspace, name))


def list_targets(yard: Yard, workspace: str) -> list[ComputeTarget]:
    """Return those that were made in the workspace, by name."""
    yard.store.get_workspace(workspace)
    return [describe(yard, asset) for asset in yard.store.list_assets(workspace, ASSET_KIND)]


def describe(yard: Yard, asset: Asset) -> ComputeTarget:
    key, spec = (asset.workspace, asset.name), spec_of(asset)
    jobs = yard.board.on_target(key)
    return ComputeTarget(
        workspace=asset.workspace,
        name=asset.name,
        spec=spec,
        created_at=asset.created_at,
        updated_at=asset.updated_at,
        nodes=_nodes(yard, key, spec, jobs),
        nodes_since=_last_change(yard, key, asset),
        running=_running(jobs),
        waiting=_waiting(yard, jobs),
    )


def describe_local(yard: Yard, workspace: str) -> ComputeTarget:
    """Return the server's machine as a target. `max_nodes` 0: as many runs as come."""
    jobs = yard.board.on_target(("", LOCAL))
    spec = ComputeSpec(type="Local", max_nodes=yard.settings.local_runs, description="the server's machine")
    return ComputeTarget(workspace, LOCAL, spec, running=_running(jobs), waiting=_waiting(yard, jobs))


def check_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that are named; raise InvalidArgument when there are none."""
    named = {field.name: changes[field.name] for field in fields(ComputeSpec) if changes.get(field.name) is not None}
    if not named:
        raise InvalidArgument("Nothing is changed.", hint="Name what shall change, such as max_nodes.")
    return named


def _nodes(yard: Yard, key: Key, spec: ComputeSpec, jobs: list[Job]) -> list[ComputeNode]:
    """Return the nodes that are there: with a run, left not long ago, or kept in any case."""
    holders = {slot: job for job in jobs if job.stage is not Stage.WAITING for slot in job.slots}
    warm = yard.idle.still_there(key, idle_seconds=spec.idle_seconds, now=yard.clock.now())
    there = set(holders) | {slot for slot in warm if slot < spec.max_nodes}
    spare = (slot for slot in range(spec.max_nodes) if slot not in there)
    there.update(slot for slot, _ in zip(spare, range(spec.min_nodes - len(there)), strict=False))
    return [_node(slot, holders.get(slot)) for slot in sorted(there)]


def _node(slot: int, job: Job | None) -> ComputeNode:
    return ComputeNode(node_name(slot), job.run_id if job is not None else None)


def _last_change(yard: Yard, key: Key, asset: Asset) -> datetime:
    released = yard.idle.last_release(key)
    return asset.updated_at if released is None else max(released, asset.updated_at)


def _running(jobs: list[Job]) -> list[ComputeRun]:
    return [ComputeRun(job.run_id, job.nodes, list(job.devices)) for job in jobs if job.stage is not Stage.WAITING]


def _waiting(yard: Yard, jobs: list[Job]) -> list[ComputeRun]:
    waiting = [job for job in jobs if job.stage is Stage.WAITING]
    explained = [explain(yard, job) for job in waiting[:MOST_EXPLAINED]]
    texts = explained + [""] * (len(waiting) - len(explained))
    return [ComputeRun(job.run_id, job.nodes, waits_for=text) for job, text in zip(waiting, texts, strict=True)]


def _check_same(known: Asset, spec: ComputeSpec) -> None:
    if spec_of(known) == spec:
        return
    raise Conflict(
        f"There is a compute target `{known.name}` already, with other settings.",
        why=f"It is of type {spec_of(known).type} with at most {spec_of(known).max_nodes} nodes.",
        hint=f"Use it: ComputeTarget(ws, '{known.name}'); change it: `runyard compute update {known.name}`.",
    )


def _find(yard: Yard, workspace: str, name: str) -> Asset | None:
    try:
        return yard.store.get_asset(workspace, ASSET_KIND, name)
    except NotFound:
        return None


def _get(yard: Yard, workspace: str, name: str) -> Asset:
    found = _find(yard, workspace, name)
    if found is None:
        known = [asset.name for asset in yard.store.list_assets(workspace, ASSET_KIND)]
        raise NotFound(
            f"There is no compute target `{name}` in workspace `{workspace}`.",
            why=f"Known here: {', '.join(known) or 'none yet'}.",
            hint=f"Make it: `runyard compute create {name} --max-nodes 4`.",
        )
    return found
