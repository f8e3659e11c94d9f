"""Several nodes on one machine: each has a loopback address and a name of its own, and its share of the GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from runyard.core.specs import NodeSpec

MOST_NODES = 250  # addresses 127.0.1.1 to 127.0.1.250


def virtual_nodes(count: int, devices: Sequence[str] = ()) -> list[NodeSpec]:
    """Return `count` nodes. A single one is this machine itself and keeps its usual address."""
    if count == 1:
        return [NodeSpec(0, "127.0.0.1", node_name(0), list(devices))]
    shares = spread(devices, count)
    return [NodeSpec(rank, f"127.0.1.{rank + 1}", node_name(rank), shares[rank]) for rank in range(count)]


def node_name(rank: int) -> str:
    return f"node-{rank}"


def spread(devices: Sequence[str], count: int) -> list[list[str]]:
    """Return each node's devices: equal parts in order; where there are fewer devices than nodes, nodes share them."""
    if len(devices) < count:
        return [[devices[rank % len(devices)]] if devices else [] for rank in range(count)]
    least, rest = divmod(len(devices), count)
    ends = [least * (rank + 1) + min(rank + 1, rest) for rank in range(count)]
    return [list(devices[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
