"""Attaching targets: the cluster is reached before anything is stored, and released when no target names it any more.

It also decides which cluster a new pool is on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runyard.compute.base import SupportsCheck, SupportsConnectivity
from runyard.core.compute import (
    ASSET_KIND,
    INSTANCE,
    KIND_OF_TYPE,
    LOCAL,
    ComputeSpec,
    check_compute,
    parse_cluster_name,
)
from runyard.core.compute_options import SECRETS, check_options
from runyard.core.config.server_settings import read_server_settings
from runyard.core.config.settings import Settings
from runyard.core.errors import Conflict, InvalidArgument, SystemFailure
from runyard.core.records import Asset
from runyard.engine.context import Addresses, ComputeState, EngineContext
from runyard.engine.state.targets import Target, Targets, spec_of, target_of
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)

_OF_POOLS = ("min_nodes", "max_nodes", "idle_seconds")
SETTING = "compute.amlcompute.engine"


def attach(compute: ComputeState, addresses: Addresses, target: Target, spec: ComputeSpec) -> ComputeSpec:
    """Return the spec as it is stored, with secrets in files, once the cluster has been reached.

    Called by request threads; the cluster may take its time.

    Raises:
        UserError, SystemFailure: the cluster cannot be used; nothing is left behind.
    """
    kept = replace(spec, options=compute.secrets.keep(spec.options))
    try:
        _look(compute, addresses, replace(target, options=kept.options))
    except Exception:
        compute.secrets.forget(kept.options)
        raise
    return kept


def check_cluster(compute: ComputeState, addresses: Addresses, target: Target) -> None:
    """Raise UserError if a new pool's cluster can never take its runs. One that does not answer now may do later."""
    try:
        _look(compute, addresses, target)
    except SystemFailure as error:
        logger.warning("pool %s of workspace %s: its cluster does not answer: %s", target.name, target.workspace, error)


def with_changes(context: EngineContext, asset: Asset, changes: Mapping[str, Any]) -> ComputeSpec:
    """Return an attached target's spec with `changes`; of its options, only those named are changed.

    Raises:
        InvalidArgument: the changed spec would be invalid.
        Conflict: runs live on the cluster that it would leave.
        UserError, SystemFailure: the new cluster cannot be used.
    """
    before = spec_of(asset)
    _refuse_pools_own(asset.name, changes)
    if "options" not in changes:
        return replace(before, **changes)
    _check_left(context, asset)
    given = changes["options"]
    staying = {name: value for name, value in before.options.items() if name not in given}
    new = check_options(before.backend, given)
    shape = check_compute(replace(before, options={**_without_secrets(staying), **new}))
    kept = context.compute.secrets.keep(new)
    options = {**staying, **kept}
    try:
        _look(context.compute, context.addresses, replace(target_of(asset), options=options))
    except Exception:
        context.compute.secrets.forget(kept)
        raise
    return replace(before, **{**changes, "options": options, "max_nodes": shape.max_nodes})


def leave(compute: ComputeState, asset: Asset, staying: Mapping[str, Any] | None = None) -> None:
    """Remove what a target no longer needs: secrets, and the backend that no other target names. May be repeated."""
    before = spec_of(asset).options
    compute.secrets.forget({name: value for name, value in before.items() if (staying or {}).get(name) != value})
    _let_go(compute, target_of(asset))


def _look(compute: ComputeState, addresses: Addresses, target: Target) -> None:
    try:
        backend = compute.backends.of(target)
        if isinstance(backend, SupportsCheck):
            said = backend.check()
            logger.info("compute target %s of workspace %s: %s", target.name, target.workspace, said)
        if isinstance(backend, SupportsConnectivity) and addresses.for_nodes is not None:
            backend.check_reach(addresses.for_nodes)
    except Exception:
        _let_go(compute, target)
        raise


def _let_go(compute: ComputeState, target: Target) -> None:
    key = compute.backends.key_of(target)
    if key not in {compute.backends.key_of(other) for other in compute.targets.list_all()}:
        compute.nodes.forget(key)
        compute.backends.forget(key)


def _refuse_pools_own(name: str, changes: Mapping[str, Any]) -> None:
    found = [field for field in _OF_POOLS if field in changes]
    if found:
        raise InvalidArgument(
            f"Compute target `{name}` has no {found[0]}.",
            why="It is attached: its cluster decides how many nodes there are.",
            hint=f"A pool on it has: `runyard compute create NAME --max-nodes 4 --cluster {name}`.",
        )


def _check_left(context: EngineContext, asset: Asset) -> None:
    """Its cluster is asked about its runs by these options."""
    live = [job.run_id for job in context.board.on_target((asset.workspace, asset.name)) if job.attempt]
    if live:
        raise Conflict(
            f"Compute target `{asset.name}` has runs: `{live[0]}`{' and others' if len(live) > 1 else ''}.",
            why="They could not be found any more with other options.",
            hint="Wait for them, or attach another target.",
        )
    check_no_pools(context.store, asset.workspace, asset.name)


def check_no_pools(store: RunStore, workspace: str, name: str) -> None:
    """Raise Conflict if pools are on the target, since they share its options."""
    pools = [asset.name for asset in store.list_assets(workspace, ASSET_KIND) if spec_of(asset).cluster == name]
    if pools:
        raise Conflict(
            f"Compute target `{name}` is in use.",
            why=f"These pools are on it: {', '.join(pools)}.",
            hint=f"`runyard compute delete {pools[0]}` first.",
        )


def _without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in SECRETS}


def resolve_pool_backend(context: EngineContext, workspace: str, spec: ComputeSpec) -> ComputeSpec:
    """Return the spec with the kind of its cluster; a pool's also with the options to reach it.

    It is decided once, when the target is created: a pool with runs cannot move to another cluster.

    Raises:
        InvalidArgument: it names a cluster that does not exist.
    """
    if spec.is_attached:
        return replace(spec, backend=KIND_OF_TYPE[spec.type])
    name = "" if spec.type == INSTANCE else spec.cluster or configured_backend(context.settings)
    if name in ("", LOCAL):
        return replace(spec, cluster="", backend="", options={})
    known = parse_cluster_name(name)
    if known is not None:
        return replace(spec, cluster=name, backend=known[0], options=known[1])
    return _on_attached(context.compute.targets, workspace, name, spec)


def configured_backend(settings: Settings) -> str:
    """Return the cluster that the settings name for pools; empty: pools are on this machine."""
    return read_server_settings(settings.home).amlcompute_cluster or settings.amlcompute_cluster


def _on_attached(targets: Targets, workspace: str, name: str, spec: ComputeSpec) -> ComputeSpec:
    target = targets.find(workspace, name)
    if target is None or target.is_local or (target.is_pool and target.backend != KIND_OF_TYPE["VirtualMachine"]):
        raise InvalidArgument(
            f"A pool cannot be put on `{name}`.",
            why=f"It is no attached target of workspace `{workspace}`.",
            hint=f"Name one, or `slurm:PARTITION` or `ray:HOST:PORT`. `runyard server set {SETTING} VALUE` sets "
            "it for all pools.",
        )
    if target.slots is not None and spec.max_nodes > target.slots:
        raise InvalidArgument(
            f"A pool on `{target.name}` cannot have {spec.max_nodes} nodes.",
            why=f"That target has {target.slots} slots.",
            hint=f"max_nodes={target.slots}, or attach more hosts.",
        )
    return replace(spec, cluster=target.name, backend=target.backend, options=dict(target.options))
