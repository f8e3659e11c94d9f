"""Which engine a new pool is put on. Decided once: a pool with runs cannot come to lie elsewhere."""

from __future__ import annotations

from dataclasses import replace

from runyard.core.compute import INSTANCE, KIND_OF_TYPE, LOCAL, ComputeSpec
from runyard.core.config.server_settings import read_server_settings
from runyard.core.engine_names import read_engine
from runyard.core.errors import InvalidArgument
from runyard.engine.context import Yard

SETTING = "compute.amlcompute.engine"


def with_engine(yard: Yard, workspace: str, spec: ComputeSpec) -> ComputeSpec:
    """Return the spec with the kind of its engine, and a pool's with how that is reached.

    Raises:
        InvalidArgument: it names an engine that is not there.
    """
    if spec.is_attached:
        return replace(spec, backend=KIND_OF_TYPE[spec.type])
    name = "" if spec.type == INSTANCE else spec.engine or configured_engine(yard)
    if name in ("", LOCAL):
        return replace(spec, engine="", backend="", options={})
    known = read_engine(name)
    if known is not None:
        return replace(spec, engine=name, backend=known[0], options=known[1])
    return _on_attached(yard, workspace, name, spec)


def configured_engine(yard: Yard) -> str:
    """Return what the server's settings say about pools; empty: they are on its own machine."""
    return read_server_settings(yard.settings.home).amlcompute_engine or yard.settings.amlcompute_engine


def _on_attached(yard: Yard, workspace: str, name: str, spec: ComputeSpec) -> ComputeSpec:
    target = yard.targets.find(workspace, name)
    if target is None or target.is_local or (target.is_pool and target.backend != KIND_OF_TYPE["VirtualMachine"]):
        raise InvalidArgument(
            f"A pool cannot be put on `{name}`.",
            why=f"It is no attached target of workspace `{workspace}`.",
            hint=f"Name one, or `slurm:PARTITION` or `ray:HOST:PORT`. `runyard server set {SETTING} VALUE` sets "
            "it for all pools.",
        )
    if target.places is not None and spec.max_nodes > target.places:
        raise InvalidArgument(
            f"A pool on `{target.name}` cannot have {spec.max_nodes} nodes.",
            why=f"That target has {target.places} places.",
            hint=f"max_nodes={target.places}, or attach more hosts.",
        )
    return replace(spec, engine=target.name, backend=target.backend, options=dict(target.options))
