"""Where symbolic links lead. Whether one leaves the tree is found in the snapshot's own tree, never on the disk."""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar, Union

from runyard.core.errors import SnapshotRejected

F = TypeVar("F")
Step = Callable[[F, str], Optional[Union[F, str]]]  # what an entry of a folder is: a folder, a link's target, else None
_MOST_HOPS = 40  # as the kernel
_SHOWN = 5
_MANY = 3  # links of one folder: then it is the folder that should stay out


def path_inside(root: str, target: str) -> Optional[str]:
    """Return the absolute path `target` relative to the folder `root`, a real path; None when it lies elsewhere."""
    for path in (target, os.path.realpath(target)):
        if path == root or path.startswith(root.rstrip("/") + "/"):
            return path[len(root) :].strip("/")
    return None


def links_out(links: Sequence[Tuple[str, str]], ignore_file: str) -> SnapshotRejected:
    """Return the error about links, (path, target), that lead out of the source folder."""
    shown = [f"`{path}` to `{target}`" for path, target in links[:_SHOWN]]
    more = f" and {len(links) - _SHOWN} more" if len(links) > _SHOWN else ""
    what = f"The link `{links[0][0]}` leads out of the source folder, to `{links[0][1]}`."
    lines = ", ".join(f"`{line}`" for line in _lines_against(path for path, _ in links))
    return SnapshotRejected(
        what if len(links) == 1 else f"{len(links)} links lead out of the source folder: {', '.join(shown)}{more}.",
        why="A snapshot holds the source folder and nothing else; on another machine such a link would lead nowhere.",
        hint=f"To leave {'it' if len(links) == 1 else 'them'} out, add to `{ignore_file}`: {lines}. If the run needs "
        "what is there, copy it into the folder or register it as a dataset.",
    )


def _lines_against(paths: Iterable[str]) -> List[str]:
    """Return lines of an ignore file that leave these paths out: one for a folder that has many of them."""
    by_top: Dict[str, List[str]] = {}
    for path in paths:
        by_top.setdefault(path.partition("/")[0] if "/" in path else "", []).append(path)
    lines = []
    for top, below in by_top.items():
        lines += [f"/{_escaped(top)}/"] if top and len(below) >= _MANY else [f"/{_escaped(path)}" for path in below]
    return lines


def _escaped(path: str) -> str:
    text = re.sub(r"([*?\[\\])", r"\\\1", path)
    return text[:-1] + "\\ " if text.endswith(" ") else text


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
