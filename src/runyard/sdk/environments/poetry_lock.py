"""Read `poetry.lock`, and Poetry's own section of pyproject.toml: what `poetry install` would install."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from runyard.core.errors import SubmitRejected
from runyard.core.formats.python_range import plain_range
from runyard.core.formats.toml import TomlTable
from runyard.core.provided_packages import package_name
from runyard.sdk.environments.lock_graph import NO_DEPS, Condition, Locked, reach, requirement_line, usable_hashes

_HINT = "Type `poetry lock` with Poetry 2, or export it: `poetry export -o requirements.txt`."
_LIMIT = re.compile(r"[\^~]|(?<![<>=!~])=(?!=)|^\d|[,\s]\d")


def read_poetry_lock(lock: Mapping[str, Any], *, folder: str, pyproject: Mapping[str, Any]) -> Locked:
    """Return the packages of the main group and of those that are not optional.

    Raises:
        SubmitRejected: it is a lock of an older Poetry that does not say which of two versions is meant.
    """
    packages: List[TomlTable] = list(lock.get("package", []))
    has_groups = any("groups" in package for package in packages)
    lines = _by_group(packages, folder, pyproject) if has_groups else _by_walk(packages, folder, pyproject)
    lines += [NO_DEPS, *_indexes(packages)]
    if _is_package(pyproject):
        lines.insert(0, f"--editable {folder}")
    python = str(lock.get("metadata", {}).get("python-versions", ""))
    return Locked(project_name(pyproject), lines, plain_range(python) if python else "")


def project_name(pyproject: Mapping[str, Any]) -> str:
    poetry = pyproject.get("tool", {}).get("poetry", {})
    return str(pyproject.get("project", {}).get("name") or poetry.get("name") or "project")


def declared(poetry: Mapping[str, Any]) -> List[str]:
    """Return the main dependencies of `[tool.poetry]` as pip requirements."""
    found = []
    for name, limit in poetry.get("dependencies", {}).items():
        for one in limit if isinstance(limit, list) else [limit]:
            table = one if isinstance(one, dict) else {"version": one}
            if name.lower() != "python" and not table.get("optional"):
                found.append(_declared_line(name, table))
    return found


def _declared_line(name: str, table: Mapping[str, Any]) -> str:
    extras = f"[{','.join(table['extras'])}]" if table.get("extras") else ""
    marker = _marker(table)
    end = f" ; {marker}" if marker else ""
    if "git" in table:
        reference = table.get("rev") or table.get("tag") or table.get("branch")
        return f"{name}{extras} @ git+{table['git']}{f'@{reference}' if reference else ''}{end}"
    if "url" in table:
        return f"{name}{extras} @ {table['url']}{end}"
    version = str(table.get("version", "*"))
    limit = "" if version == "*" else plain_range(version) if _LIMIT.search(version) else version
    return f"{name}{extras}{limit}{end}"


def _marker(table: Mapping[str, Any]) -> str:
    parts = [str(table["markers"])] if table.get("markers") else []
    if table.get("python"):
        limits = plain_range(str(table["python"])).split(",")
        parts += [re.sub(r"^(\D+)(.*)$", r"python_full_version \1 '\2'", limit) for limit in limits if limit]
    if table.get("platform"):
        parts.append(f"sys_platform == '{table['platform']}'")
    return " and ".join(f"({part})" if " or " in part else part for part in parts)


def _by_group(packages: List[TomlTable], folder: str, pyproject: Mapping[str, Any]) -> List[str]:
    optional = {
        name
        for name, group in pyproject.get("tool", {}).get("poetry", {}).get("group", {}).items()
        if isinstance(group, dict) and group.get("optional")
    }
    lines = []
    for package in packages:
        groups = [group for group in package.get("groups", []) if group not in optional]
        if package.get("optional") or not groups:
            continue
        markers = package.get("markers", "")
        found = [str(markers.get(group, "")) for group in groups] if isinstance(markers, dict) else [str(markers)]
        lines.append(_line(package, folder, [frozenset([one]) if one else frozenset() for one in found]))
    return lines


def _by_walk(packages: List[TomlTable], folder: str, pyproject: Mapping[str, Any]) -> List[str]:
    """Return what the dependencies in pyproject.toml lead to: locks before Poetry 2 do not say it by themselves."""
    by_name: Dict[str, TomlTable] = {}
    for package in packages:
        name = package_name(str(package["name"]))
        if name in by_name:
            raise SubmitRejected(
                f"poetry.lock holds two versions of `{name}` and does not say for which machine each is.",
                why="It was written by Poetry 1.",
                hint=_HINT,
            )
        by_name[name] = package

    def edges(name: str) -> Iterator[Tuple[str, str]]:
        for other, limit in by_name[name].get("dependencies", {}).items():
            yield from _edge(other, limit)

    def known(pairs: Iterator[Tuple[str, str]]) -> List[Tuple[str, str]]:
        return [(name, marker) for name, marker in pairs if name in by_name]

    poetry = pyproject.get("tool", {}).get("poetry", {})
    groups = [poetry.get("dependencies", {}), poetry.get("dev-dependencies", {})]
    groups += [one.get("dependencies", {}) for one in poetry.get("group", {}).values() if not one.get("optional")]
    start = [edge for group in groups for name, limit in group.items() for edge in known(_edge(name, limit))]
    found = reach(start, lambda name: known(edges(name)))
    return [_line(by_name[name], folder, found[name]) for name in sorted(found)]


def _edge(name: str, limit: Any) -> Iterator[Tuple[str, str]]:
    for one in limit if isinstance(limit, list) else [limit]:
        table = one if isinstance(one, dict) else {}
        if not table.get("optional") and "extra ==" not in str(table.get("markers", "")):
            yield package_name(name), _marker(table)


def _line(package: Mapping[str, Any], folder: str, conditions: List[Condition]) -> str:
    name, version, source = str(package["name"]), str(package["version"]), package.get("source", {})
    hashes = usable_hashes((str(one["file"]), str(one["hash"])) for one in package.get("files", []))
    kind, url = source.get("type"), str(source.get("url", ""))
    if kind == "git":
        below = f"#subdirectory={source['subdirectory']}" if source.get("subdirectory") else ""
        return requirement_line(f"{name} @ git+{url}@{source.get('resolved_reference')}{below}", conditions)
    if kind == "directory":
        return f"--editable {os.path.normpath(os.path.join(folder, url))}"
    if kind in ("url", "file"):
        address = url if kind == "url" else "file://" + os.path.normpath(os.path.join(folder, url))
        return requirement_line(f"{name} @ {address}", conditions, hashes)
    return requirement_line(f"{name}=={version}", conditions, hashes)


def _indexes(packages: List[TomlTable]) -> List[str]:
    urls = [str(one["source"]["url"]) for one in packages if one.get("source", {}).get("type") == "legacy"]
    return [f"--extra-index-url {url}" for url in dict.fromkeys(urls)]


def _is_package(pyproject: Mapping[str, Any]) -> bool:
    poetry = pyproject.get("tool", {}).get("poetry", {})
    return "build-system" in pyproject and poetry.get("package-mode", True) is not False
