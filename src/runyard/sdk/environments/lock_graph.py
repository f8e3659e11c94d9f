"""Which packages of a lock file a project needs, and under which markers: shared by uv's and Poetry's lock files.

A lock file holds the packages of every platform and Python. The lines that come out keep the markers, so that the node
that installs them takes its own.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, FrozenSet, Hashable, Iterable, List, NamedTuple, Sequence, Set, Tuple, TypeVar

from runyard.core.errors import InvalidArgument

Node = TypeVar("Node", bound=Hashable)
Condition = FrozenSet[str]  # markers that hold together
_USABLE = re.compile(r"-none-any|linux|\.tar\.|\.tgz|\.zip")  # runs are on Linux
NO_DEPS = "--no-deps"
NEVER, ALWAYS = "python_version < '0'", "python_version > '0'"


class Chosen(NamedTuple):
    """What an environment takes of a project beside its dependencies and the groups that are installed by default."""

    extras: Sequence[str] = ()
    groups: Sequence[str] = ()
    without_groups: Sequence[str] = ()
    pixi_environment: str = ""

    def check(self, file: str, *, extras: Iterable[str], groups: Iterable[str]) -> None:
        """Refuse names that the project does not have, and what its kind of file has none of.

        Raises:
            InvalidArgument: names those that there are.
        """
        for kind, asked, known in (
            ("extra", self.extras, sorted(extras)),
            ("group", [*self.groups, *self.without_groups], sorted(groups)),
        ):
            for name in asked:
                if name not in known:
                    has = f"It has {', '.join(known)}." if known else f"It has no {kind}s at all."
                    hint = f"Correct its name, or add it to the project and write {file} anew."
                    raise InvalidArgument(f"{file} has no {kind} `{name}`.", why=has, hint=hint)
        if self.pixi_environment:
            raise InvalidArgument(
                f"{file} has no environments such as `{self.pixi_environment}`.",
                why="Only pixi's files have them.",
                hint="Choose extras and groups, or name pixi.toml or pixi.lock.",
            )


NOTHING = Chosen()


class Locked(NamedTuple):
    """What an environment takes from a lock file."""

    name: str
    lines: List[str]  # pip requirements with hashes and markers, then pip options
    python: str  # a range of versions; "": any
    conda: Sequence[str] = ()
    channels: Sequence[str] = ()


def reach(
    start: Iterable[Tuple[Node, str]], edges: Callable[[Node], Iterable[Tuple[Node, str]]]
) -> Dict[Node, List[Condition]]:
    """Return the nodes that can be reached, each with the conditions of which one must hold; an empty one always does.

    `edges` gives a node's neighbours with the marker of the way there, "" for none.
    """
    found: Dict[Node, Set[Condition]] = {}
    waiting: List[Tuple[Node, Condition]] = [(node, _condition(marker)) for node, marker in start]
    while waiting:
        node, condition = waiting.pop()
        known = found.setdefault(node, set())
        if any(other <= condition for other in known):  # a way that is open more often
            continue
        known.difference_update({other for other in known if condition < other})
        known.add(condition)
        waiting += [(other, condition | _condition(marker)) for other, marker in edges(node)]
    return {node: sorted(known, key=lambda one: (len(one), sorted(one))) for node, known in found.items()}


def requirement_line(requirement: str, conditions: Sequence[Condition], hashes: Iterable[str] = ()) -> str:
    """Return one line of a requirements file, its markers joined with `or`."""
    marker = ""
    if all(conditions):
        parts = [" and ".join(_bracketed(one, len(condition)) for one in sorted(condition)) for condition in conditions]
        marker = " ; " + (parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts))
    checks = "".join(f" --hash={one}" for one in dict.fromkeys(hashes))
    return f"{requirement}{marker}{checks}"


def usable_hashes(files: Iterable[Tuple[str, str]]) -> List[str]:
    """Return the hashes of (file name, hash) that can be installed on Linux; all where there is none."""
    known = [(name, digest) for name, digest in files if digest]
    return [digest for name, digest in known if _USABLE.search(name)] or [digest for _, digest in known]


def _condition(marker: str) -> Condition:
    return frozenset([marker.strip()]) if marker.strip() else frozenset()


def _bracketed(marker: str, count: int) -> str:
    return f"({marker})" if count > 1 and " or " in marker else marker
