"""How a compute target stands now: its nodes, the runs on it, and what each run in its queue waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from runyard.compute.base import EngineNode
from runyard.compute.virtual_nodes import node_name
from runyard.core.compute import LOCAL, POOL, ComputeNode, ComputeRun, ComputeSpec, ComputeTarget
from runyard.core.compute_options import SLURM, SSH, host_of_place
from runyard.core.records import Asset
from runyard.engine.context import Yard
from runyard.engine.runs.wait_reasons import explain
from runyard.engine.state.compute_secrets import shown_options
from runyard.engine.state.job import Job, Stage
from runyard.engine.state.targets import Key, Target, spec_of, target_of

_NOT_ASKED = "Its nodes are shown when a run was sent there, or when it is attached."
MOST_EXPLAINED = 100  # of a queue; each costs a look at all in front of it


def describe(yard: Yard, asset: Asset) -> ComputeTarget:
    """Return a target that was made."""
    target, spec = target_of(asset), spec_of(asset)
    found = ComputeTarget(
        workspace=asset.workspace,
        name=asset.name,
        spec=replace(spec, options=shown_options(spec.options)),
        created_at=asset.created_at,
        updated_at=asset.updated_at,
        nodes_since=_last_change(yard, target.key, asset),
    )
    return _with_engine(yard, _with_runs(yard, found, target), target)


def describe_engine(yard: Yard, workspace: str, target: Target) -> ComputeTarget:
    """Return an engine that is named directly, as a pool of all its nodes: old code wants one. 0: no limit of ours."""
    spec = ComputeSpec(POOL, max_nodes=0, engine=target.name, backend=target.backend, options=dict(target.options))
    found = _with_runs(yard, ComputeTarget(workspace, target.name, spec), target)
    return _with_engine(yard, found, target) if _may_be_asked(yard, target) else replace(found, note=_NOT_ASKED)


def describe_local(yard: Yard, workspace: str) -> ComputeTarget:
    """Return the server's machine as a target. `max_nodes` 0: as many runs as come."""
    spec = ComputeSpec(type="Local", max_nodes=yard.settings.local_runs, description="the server's machine")
    return _with_runs(yard, ComputeTarget(workspace, LOCAL, spec), Target(LOCAL))


def _may_be_asked(yard: Yard, target: Target) -> bool:
    """Who only looks must not send this server to an address of their choice: a cluster answers with code to run."""
    if target.backend == SLURM or target.name in yard.targets.aliases.get().values():
        return True
    return yard.backends.is_made(yard.backends.key_of(target))


def _with_runs(yard: Yard, found: ComputeTarget, target: Target) -> ComputeTarget:
    jobs = yard.board.on_target(target.key)
    nodes = _nodes(yard, target.key, found.spec, jobs) if target.is_pool and target.is_local else []
    return replace(found, nodes=nodes, running=_running(jobs), waiting=_waiting(yard, jobs))


def _with_engine(yard: Yard, found: ComputeTarget, target: Target) -> ComputeTarget:
    """Return it with what its engine says about its machines."""
    if target.is_local:
        return found
    seen = yard.engine_nodes.look(yard.backends.key_of(target))
    if seen.nodes is None:
        held = _nodes(yard, target.key, found.spec, yard.board.on_target(target.key)) if target.is_pool else []
        return replace(found, nodes=held, note=seen.note)
    on_hosts = _runs_on_hosts(yard, target)
    return replace(found, nodes=[_engine_node(node, on_hosts) for node in seen.nodes], note=seen.note)


def _engine_node(node: EngineNode, on_hosts: dict[str, str]) -> ComputeNode:
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


def _runs_on_hosts(yard: Yard, target: Target) -> dict[str, str]:
    """Return a run for each host of an ssh target; which nodes a cluster chose, only its engine knows."""
    if target.backend != SSH:
        return {}
    hosts: Sequence[dict[str, str]] = target.options.get("hosts", [])
    places = host_of_place(hosts)
    held = [(slot, job) for job in yard.board.on_target(target.key) if not _waits(job) for slot in job.slots]
    return {hosts[places[slot]]["address"]: job.run_id for slot, job in held if slot < len(places)}


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


def _waits(job: Job) -> bool:
    """Whether it stands in a queue, ours or its engine's."""
    return job.stage is Stage.WAITING or bool(job.why)


def _running(jobs: list[Job]) -> list[ComputeRun]:
    return [ComputeRun(job.run_id, job.nodes, list(job.devices)) for job in jobs if not _waits(job)]


def _waiting(yard: Yard, jobs: list[Job]) -> list[ComputeRun]:
    waiting = [job for job in jobs if _waits(job)]
    explained = [explain(yard, job) for job in waiting[:MOST_EXPLAINED]]
    texts = explained + [""] * (len(waiting) - len(explained))
    return [ComputeRun(job.run_id, job.nodes, waits_for=text) for job, text in zip(waiting, texts, strict=True)]
