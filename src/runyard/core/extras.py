"""Packages that only some users need: loaded where they are used, with words where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from runyard.core.errors import MissingExtra


def load_extra(module: str, *, needs: str, hint: str) -> Any:
    """Return the module.

    Args:
        needs: who needs it, in words: "Datasets of tables need".

    Raises:
        MissingExtra: it is not installed here.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtra(
            f"{needs} the package `{package}`.", why="It is not installed in this Python.", hint=hint
        ) from error
