"""Load implementations of seams by name, and optional packages.

`load_plugin` looks in a dict of strings for Runyard's implementations, then in entry points for others. `load_extra`
imports a package that only some users need, and raises an error with a hint where it is missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Mapping

from runyard.core.errors import MissingExtra, NotFound


def load_plugin(seam: str, name: str, known: Mapping[str, str]) -> Any:
    """Return the class `name` of seam `runyard.<seam>`; nothing is imported before it is chosen.

    Raises:
        NotFound: there is no implementation of that name; the known ones are listed.
    """
    from importlib import import_module

    target = known.get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        return getattr(import_module(module), attribute)
    # Slow to import, and needed only for an implementation that is not Runyard's.
    from importlib.metadata import entry_points

    found: Any = entry_points()
    group = f"runyard.{seam}"
    points = found.select(group=group) if hasattr(found, "select") else found.get(group, [])
    by_name = {point.name: point for point in points}
    if name in by_name:
        return by_name[name].load()
    raise NotFound(
        f"There is no {seam} implementation called `{name}`.",
        hint=f"Known: {', '.join(sorted({*known, *by_name}))}.",
    )


def load_extra(module: str, *, needs: str, hint: str) -> Any:
    """Return the module.

    Args:
        needs: the beginning of the message: "Datasets of tables need".

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
