"""Where a symbolic link leads, found in the snapshot's own tree and never on the disk."""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence, TypeVar, Union

F = TypeVar("F")
Step = Callable[[F, str], Optional[Union[F, str]]]  # what an entry of a folder is: a folder, a link's target, else None
_MOST_HOPS = 40  # as the kernel


def leaves_tree(root: F, at: Sequence[str], target: str, step: Step[F]) -> bool:
    """Whether a link in the folder `at` leads out of `root`, following links on its way as the kernel would.

    A name that is not there counts as a folder, so that a dangling link cannot lead out once its target is made.
    """
    if target.startswith("/"):
        return True
    inside = _descend(root, at, step)
    waiting = target.split("/")[::-1]
    unknown = hops = 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if unknown:
                unknown -= 1
            elif len(inside) == 1:
                return True
            else:
                inside.pop()
            continue
        found = None if unknown else step(inside[-1], part)
        if found is None:
            unknown += 1
        elif not isinstance(found, str):
            inside.append(found)
        elif found.startswith("/"):
            return True
        else:
            hops += 1
            if hops > _MOST_HOPS:
                return False
            waiting += found.split("/")[::-1]
    return False


def _descend(root: F, at: Sequence[str], step: Step[F]) -> List[F]:
    inside = [root]
    for part in at:
        found = step(inside[-1], part)
        if found is None or isinstance(found, str):
            raise ValueError(f"{part!r} is no folder of the tree")
        inside.append(found)
    return inside
