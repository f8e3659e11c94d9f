"""Find an implementation of a seam by name: ours from a dict of strings, others from entry points."""

from __future__ import annotations

from typing import Any, Mapping

from runyard.core.errors import NotFound


def load_plugin(seam: str, name: str, known: Mapping[str, str]) -> Any:
    """Return the class `name` of seam `runyard.<seam>`; nothing is imported before it is chosen.

    Raises:
        NotFound: nobody provides that name; the known ones are listed.
    """
    from importlib import import_module

    target = known.get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        return getattr(import_module(module), attribute)
    # Slow to import, and only who looks for somebody else's implementation comes here.
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
