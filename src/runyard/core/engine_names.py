"""Engines by a word, `slurm:gpu`: usable as a target's name, in the alias file and in settings."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from runyard.core.compute_options import AUTO, RAY, SLURM, check_options
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_asset_name


def find_engine(name: str) -> Optional[Tuple[str, Dict[str, Any]]]:
    """Return kind and options of `slurm:PARTITION` or `ray:ADDRESS`; None for any other name.

    Raises:
        InvalidArgument: what follows the colon cannot be one.
    """
    kind, colon, rest = name.partition(":")
    if not colon or kind not in (RAY, SLURM):
        return None
    option = "partition" if kind == SLURM else "address"
    if "/" in rest:
        raise InvalidArgument(
            f"`{name[:100]}` cannot be a target's name.",
            why="A name has no slash.",
            hint="Attach it under a name: `runyard compute attach NAME ray --address ray://HOST:10001`.",
        )
    return kind, check_options(kind, {option: rest})


def read_engine(text: str) -> Optional[Tuple[str, Dict[str, Any]]]:
    """As find_engine, and `slurm` and `ray` alone are the default partition and the cluster of this machine."""
    if text == SLURM:
        return SLURM, {}
    return (RAY, {"address": AUTO}) if text == RAY else find_engine(text)


def check_target_name(name: str) -> str:
    """Return a name that a run or a request may give for a target."""
    if not isinstance(name, str) or find_engine(name) is None:
        check_asset_name(name)
    return name
