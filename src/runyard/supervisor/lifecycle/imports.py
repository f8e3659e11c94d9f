"""The run imports the code of its snapshot, wherever that code was installed as editable.

An editable install leads to the user's own folder, which may have changed since the submit. Its counterparts in the
work folder go on the import path before the installed packages (`runtime/injected_sitecustomize.py`).
"""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, NamedTuple, Optional

from runyard.environments.editable import LiveCode, find_live_code, is_project
from runyard.supervisor.run_folder import remove_tree

LINKS = "imports"  # folder of the run folder: packages whose folders have other names
_OURS = "runyard"


class Imports(NamedTuple):
    path: List[str]  # folders of the import path
    warnings: List[str]


def plan_imports(
    interpreter: str,
    variables: Mapping[str, str],
    *,
    source: str,
    work: str,
    links_folder: str,
    mirrors: Optional[Mapping[str, str]] = None,
) -> Imports:
    """Return what to put on the import path so that the run imports its snapshot; the work folder itself comes last.

    Args:
        source: the folder that the snapshot was made from; "": nobody knows.
        mirrors: copies of folders of the snapshot that are installed as editable, and these folders.
        links_folder: is made anew, when packages need a name that their folder does not have.
    """
    remove_tree(links_folder)
    path: Dict[str, None] = {}
    links: Dict[str, str] = {}
    live: Dict[str, List[str]] = {}
    pairs = [*(mirrors or {}).items(), (source, work)]
    for code in find_live_code(interpreter, variables) if source else ():
        if code.package == _OURS:  # it is injected into every run
            continue
        roots = [] if code.comes_first else [_counterpart(code, *pair) for pair in pairs]
        root = next(filter(None, roots), None)
        if root is not None:
            path[root] = None
            continue
        targets = [] if code.comes_first else [_linked(code, *pair) for pair in pairs]
        target = next(filter(None, targets), None)
        if target is not None:
            links[os.path.basename(target) if target.endswith(".py") else code.module or _name(source)] = target
        elif code.module or is_project(code.path):
            live.setdefault(code.package, []).append(code.path)
    if links:
        os.mkdir(links_folder, 0o700)
        for name, target in links.items():
            os.symlink(target, os.path.join(links_folder, name))
        path[links_folder] = None
    path[work] = None
    return Imports(list(path), [_warning(package, folders, source) for package, folders in live.items()])


def snapshot_path(path: str, source: str, work: str) -> Optional[str]:
    """Return what stands in the work folder for a path below the source folder; None when nothing does."""
    real = os.path.realpath(path) if source and os.path.isabs(path) else ""
    if not real or not (real == source or real.startswith(source.rstrip("/") + "/")):
        return None
    found = os.path.join(work, os.path.relpath(real, source)) if real != source else work
    return found if os.path.exists(found) else None


def _counterpart(code: LiveCode, source: str, work: str) -> Optional[str]:
    """Return the folder of the snapshot from which the code can be imported under its own name."""
    if not code.module:
        return snapshot_path(code.path, source, work)
    below = code.module.replace(".", "/")
    for tail in (f"/{below}", f"/{below}.py"):
        if code.path.endswith(tail) and snapshot_path(code.path, source, work):
            return snapshot_path(code.path[: -len(tail)] or "/", source, work)
    return None


def _linked(code: LiveCode, source: str, work: str) -> Optional[str]:
    """Return the folder or file of the snapshot that a link must give its name."""
    if code.module:
        return snapshot_path(code.path, source, work) if "." not in code.module else None
    # The source folder is itself a package of a folder on the path.
    is_package = os.path.dirname(source) == code.path and os.path.exists(os.path.join(work, "__init__.py"))
    return work if is_package and _name(source).isidentifier() else None


def _name(source: str) -> str:
    return os.path.basename(source)


def _warning(package: str, folders: List[str], source: str) -> str:
    return (
        f"The package `{package}` is installed as editable from `{folders[0]}`, which is no part of the snapshot of "
        f"`{source}`: the run uses its live code, with changes that you make after the submit. For a fixed version, "
        "install it without `-e`, or submit from a folder that holds both."
    )
