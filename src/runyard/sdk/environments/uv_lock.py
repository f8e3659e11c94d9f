"""Read `uv.lock`, and the lock of one script: what `uv sync --frozen` would install, as requirements with hashes."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple
from urllib.parse import parse_qs, urlsplit

from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.core.formats.python_range import plain_range
from runyard.core.formats.toml import TomlTable
from runyard.sdk.environments.lock_graph import (
    ALWAYS,
    NEVER,
    NO_DEPS,
    NOTHING,
    Chosen,
    Condition,
    Locked,
    reach,
    requirement_line,
    usable_hashes,
)

_OPEN_INDEX = re.compile(r"https://pypi[.]org/simple/?")  # of which every machine has a mirror, or itself
_DEFAULT_GROUPS = ["dev"]
_EXTRA = re.compile(r"extra\s*(==|!=)\s*'([^']*)'")
_FOLDERS = ("editable", "directory", "virtual")


class _PackagePart(NamedTuple):
    """A package of the lock, or one of its extras: an extra's packages are needed only where it is asked for."""

    position: int
    extra: str = ""


def read_uv_lock(
    lock: Mapping[str, Any], *, folder: str, project: str, pyproject: Mapping[str, Any], chosen: Chosen = NOTHING
) -> Locked:
    """Return what the project in the folder `project` needs; `folder` holds the lock, and may be a workspace above it.

    Raises:
        InvalidArgument: there is no such extra or group, or two of them exclude each other.
        SubmitRejected: the lock is of another project, or needs what cannot be installed here.
    """
    reader = _UvLock(lock, folder)
    root = reader.find_root(project)
    package = reader.packages[root]
    name = str(package.get("name", "project"))
    known = {*package.get("dev-dependencies", {}), *pyproject.get("dependency-groups", {})}
    extras = {*package.get("optional-dependencies", {}), *package.get("metadata", {}).get("provides-extras", [])}
    chosen.check("uv.lock", extras=extras, groups=known)
    groups = _groups(pyproject, package, chosen)
    _check_conflicts(lock, name, extras=chosen.extras, groups=groups)
    start = [(_PackagePart(root, extra), "") for extra in ["", *chosen.extras]]
    reader.activate(name, extras=chosen.extras, groups=groups)
    start += [place for group in groups for place in reader.group(root, group)]
    return Locked(name, reader.lines(start), plain_range(str(lock.get("requires-python", ""))))


def read_script_lock(lock: Mapping[str, Any], *, folder: str, name: str) -> Locked:
    """Return what a script with a lock of its own (`uv lock --script`) needs."""
    reader = _UvLock(lock, folder)
    wanted = lock.get("manifest", {}).get("requirements", [])
    start = [place for one in wanted for place in reader.targets(one)]
    return Locked(name, reader.lines(start), plain_range(str(lock.get("requires-python", ""))))


def _groups(pyproject: Mapping[str, Any], package: Mapping[str, Any], chosen: Chosen) -> List[str]:
    """Return the default groups and those that are asked for, without those that are not wanted."""
    known = package.get("dev-dependencies", {})
    defaults = pyproject.get("tool", {}).get("uv", {}).get("default-groups", _DEFAULT_GROUPS)
    names = list(known) if defaults == "all" else [group for group in defaults if group in known]
    return [group for group in dict.fromkeys([*names, *chosen.groups]) if group not in chosen.without_groups]


def _check_conflicts(lock: Mapping[str, Any], name: str, *, extras: Sequence[str], groups: Sequence[str]) -> None:
    for conflict in lock.get("conflicts", []):
        ours = [one for one in conflict if one.get("package", name) == name]
        both = [f"the extra `{one['extra']}`" for one in ours if one.get("extra") in extras]
        both += [f"the group `{one['group']}`" for one in ours if one.get("group") in groups]
        if len(both) > 1:
            raise InvalidArgument(
                f"{' and '.join(both)} of uv.lock exclude each other.",
                why="`conflicts` in pyproject.toml says so.",
                hint="Choose one of them; a default group is left out with without_groups= or --no-group.",
            )


class _UvLock:
    def __init__(self, lock: Mapping[str, Any], folder: str) -> None:
        self.packages: List[TomlTable] = list(lock.get("package", []))
        self._folder = folder
        self._active: Set[str] = set()
        self._options: List[str] = []

    def find_root(self, project: str) -> int:
        for index, package in enumerate(self.packages):
            path = next((package["source"][kind] for kind in _FOLDERS if kind in package.get("source", {})), None)
            if path is not None and os.path.realpath(os.path.join(self._folder, path)) == os.path.realpath(project):
                return index
        raise SubmitRejected(
            f"uv.lock in {self._folder} does not know the project in {project}.",
            why="It is older than the project, or of another one.",
            hint="Type `uv lock` there.",
        )

    def activate(self, project: str, *, extras: Iterable[str], groups: Iterable[str]) -> None:
        """Note which extras and groups the markers of conflicting ones may count as active."""
        for kind, names in (("extra", extras), ("group", groups)):
            self._active.update(f"{kind}-{len(project)}-{project}-{name}" for name in names)

    def group(self, root: int, name: str) -> List[Tuple[_PackagePart, str]]:
        found = self.packages[root].get("dev-dependencies", {}).get(name, [])
        return [place for dependency in found for place in self.targets(dependency)]

    def lines(self, start: List[Tuple[_PackagePart, str]]) -> List[str]:
        """Return the requirements, then the options that say from where they come."""
        conditions: Dict[int, List[Condition]] = {}
        for place, found in reach(start, self._edges).items():
            conditions.setdefault(place.position, []).extend(found)
        lines = [line for index in sorted(conditions) for line in self._requirement(index, conditions[index])]
        return [*lines, NO_DEPS, *dict.fromkeys(self._options)]

    def targets(self, dependency: Mapping[str, Any]) -> List[Tuple[_PackagePart, str]]:
        """Return the places that a dependency leads to: the package, and those of its extras that are asked for."""
        index = self._find(dependency)
        marker = _EXTRA.sub(self._activity, str(dependency.get("marker", "")))
        extras = dependency.get("extra", dependency.get("extras", []))
        return [(_PackagePart(index, extra), marker) for extra in ["", *extras]]

    def _edges(self, place: _PackagePart) -> Iterator[Tuple[_PackagePart, str]]:
        package = self.packages[place.position]
        needed = package.get("optional-dependencies", {}).get(place.extra, []) if place.extra else []
        for dependency in needed if place.extra else package.get("dependencies", []):
            yield from self.targets(dependency)

    def _activity(self, match: re.Match[str]) -> str:
        """Return the marker of an extra or a group that conflicts with another one."""
        return ALWAYS if (match.group(2) in self._active) == (match.group(1) == "==") else NEVER

    def _find(self, dependency: Mapping[str, Any]) -> int:
        for index, package in enumerate(self.packages):
            if package.get("name") == dependency.get("name") and all(
                key not in dependency or dependency[key] == package.get(key) for key in ("version", "source")
            ):
                return index
        raise SubmitRejected(
            f"uv.lock in {self._folder} lacks the package `{dependency.get('name')}`.",
            why="Another package of it needs that one, so the file was cut or edited.",
            hint="Type `uv lock` there.",
        )

    def _requirement(self, index: int, conditions: List[Condition]) -> List[str]:
        package = self.packages[index]
        name, version, source = str(package["name"]), package.get("version"), package.get("source", {})
        if "virtual" in source:
            return []
        folder = source.get("editable") or source.get("directory")
        if folder is not None:
            return [f"--editable {os.path.normpath(os.path.join(self._folder, folder))}"]
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        hashes = usable_hashes((_file_name(one), str(one.get("hash", ""))) for one in files)
        if "registry" in source:
            self._note_index(str(source["registry"]))
            return [requirement_line(f"{name}=={version}", conditions, hashes)]
        return [requirement_line(f"{name} @ {self._address(name, source)}", conditions, hashes)]

    def _note_index(self, registry: str) -> None:
        if _OPEN_INDEX.fullmatch(registry):
            return
        is_address = "://" in registry
        place = registry if is_address else os.path.normpath(os.path.join(self._folder, registry))
        self._options.append(f"--extra-index-url {place}" if is_address else f"--find-links {place}")

    def _address(self, name: str, source: Mapping[str, Any]) -> str:
        if "git" in source:
            parts = urlsplit(str(source["git"]))
            below = parse_qs(parts.query).get("subdirectory")
            address = parts._replace(query="", fragment="").geturl()
            return f"git+{address}@{parts.fragment}" + (f"#subdirectory={below[0]}" if below else "")
        if "url" in source:
            return str(source["url"])
        if "path" in source:
            return "file://" + os.path.normpath(os.path.join(self._folder, str(source["path"])))
        raise SubmitRejected(
            f"The package `{name}` of uv.lock comes from {', '.join(source) or 'nowhere'}.",
            why="Known are registry, git, url, path, directory, editable and virtual.",
            hint="Run with uv itself: `runyard submit -- uv run --frozen train.py`.",
        )


def _file_name(file: Mapping[str, Any]) -> str:
    return str(file.get("filename") or file.get("url") or file.get("path") or "").rsplit("/", 1)[-1]


def find_lock(folder: str, name: str = "uv.lock") -> Optional[str]:
    """Return the lock of a project: in its folder, or in that of the workspace above it."""
    here = os.path.abspath(folder)
    while True:
        path = os.path.join(here, name)
        if os.path.isfile(path):
            return path
        if os.path.exists(os.path.join(here, ".git")) or os.path.dirname(here) == here:
            return None
        here = os.path.dirname(here)
