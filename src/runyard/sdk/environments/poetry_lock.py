"""Read `poetry.lock`, and Poetry's own section of pyproject.toml: what `poetry install` would install."""

from __future__ import annotations

import os
import re
from typing import Any, Container, Dict, Iterable, Iterator, List, Mapping, Set, Tuple

from runyard.core.errors import SubmitRejected
from runyard.core.formats.python_range import plain_range
from runyard.core.formats.toml import TomlTable
from runyard.core.provided_packages import package_name
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

_HINT = "Type `poetry lock` with Poetry 2, or export it: `poetry export -o requirements.txt`."
_EXTRA = re.compile(r"""extra\s*==\s*(["'])([^"']*)\1""")
_LIMIT = re.compile(r"[\^~]|(?<![<>=!~])=(?!=)|^\d|[,\s]\d")


def read_poetry_lock(
    lock: Mapping[str, Any], *, folder: str, pyproject: Mapping[str, Any], chosen: Chosen = NOTHING
) -> Locked:
    """Return the packages of the main group, of the groups that are not optional, and of what is chosen.

    Raises:
        InvalidArgument: there is no such extra or group.
        SubmitRejected: it is a lock of an older Poetry that does not say which of two versions is meant.
    """
    packages: List[TomlTable] = list(lock.get("package", []))
    extras: TomlTable = lock.get("extras", {})
    groups = _groups(pyproject, chosen, extras)
    if any("groups" in package for package in packages):
        lines = _by_group(packages, folder, groups, chosen.extras)
    else:
        optional = {package_name(name) for extra in chosen.extras for name in extras[extra]}
        lines = _by_walk(packages, folder, pyproject, groups, optional)
    lines += [NO_DEPS, *_indexes(packages)]
    if _is_package(pyproject):
        lines.insert(0, f"--editable {folder}")
    python = str(lock.get("metadata", {}).get("python-versions", ""))
    return Locked(project_name(pyproject), lines, plain_range(python) if python else "")


def project_name(pyproject: Mapping[str, Any]) -> str:
    poetry = pyproject.get("tool", {}).get("poetry", {})
    return str(pyproject.get("project", {}).get("name") or poetry.get("name") or "project")


def declared(poetry: Mapping[str, Any], chosen: Chosen = NOTHING) -> List[str]:
    """Return the main dependencies of `[tool.poetry]`, and those of what is chosen, as pip requirements."""
    optional = {package_name(name) for extra in chosen.extras for name in poetry.get("extras", {}).get(extra, [])}
    tables = [poetry.get("dependencies", {})]
    tables += [poetry.get("group", {}).get(group, {}).get("dependencies", {}) for group in chosen.groups]
    found = []
    for name, limit in [item for each in tables for item in each.items()]:
        for one in limit if isinstance(limit, list) else [limit]:
            table = one if isinstance(one, dict) else {"version": one}
            if name.lower() != "python" and (not table.get("optional") or package_name(name) in optional):
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


def known_groups(pyproject: Mapping[str, Any]) -> Set[str]:
    """Return the names of the project's groups, Poetry's own and the standard's."""
    poetry = pyproject.get("tool", {}).get("poetry", {})
    old = {"dev"} if "dev-dependencies" in poetry else set()
    return {*poetry.get("group", {}), *pyproject.get("dependency-groups", {}), *old}


def _groups(pyproject: Mapping[str, Any], chosen: Chosen, extras: Iterable[str]) -> Set[str]:
    """Return the groups that are installed, `main` among them."""
    known = known_groups(pyproject)
    chosen.check("poetry.lock", extras=extras, groups={"main", *known})
    tables = pyproject.get("tool", {}).get("poetry", {}).get("group", {})
    usual = {name for name in known if not tables.get(name, {}).get("optional")}
    return ({"main"} | usual | set(chosen.groups)) - set(chosen.without_groups)


def _by_group(packages: List[TomlTable], folder: str, groups: Container[str], extras: Container[str]) -> List[str]:
    lines = []
    for package in packages:
        markers = package.get("markers", "")
        ways = [
            _with_extras(str(markers.get(group, "") if isinstance(markers, dict) else markers), extras)
            for group in package.get("groups", [])
            if group in groups
        ]
        found = [way for way in ways if way != NEVER]
        if found and not (package.get("optional") and not _EXTRA.search(str(markers))):
            lines.append(_line(package, folder, [frozenset([one]) if one else frozenset() for one in found]))
    return lines


def _with_extras(marker: str, extras: Container[str]) -> str:
    """Return a marker with its extras decided: NEVER where it cannot hold, "" where it always does."""
    decided = _EXTRA.sub(lambda found: ALWAYS if found.group(2) in extras else NEVER, marker)
    if decided == marker or "(" in decided:
        return decided
    ways = [way.split(" and ") for way in decided.split(" or ")]
    left = [[term for term in way if term != ALWAYS] for way in ways if NEVER not in way]
    return "" if [] in left else " or ".join(" and ".join(way) for way in left) or NEVER


def _by_walk(
    packages: List[TomlTable],
    folder: str,
    pyproject: Mapping[str, Any],
    groups: Container[str],
    optional: Container[str],
) -> List[str]:
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
    tables = [poetry.get("dependencies", {})] if "main" in groups else []
    tables += [poetry.get("dev-dependencies", {})] if "dev" in groups else []
    tables += [one.get("dependencies", {}) for name, one in poetry.get("group", {}).items() if name in groups]
    start = [edge for table in tables for name, limit in table.items() for edge in known(_edge(name, limit, optional))]
    found = reach(start, lambda name: known(edges(name)))
    return [_line(by_name[name], folder, found[name]) for name in sorted(found)]


def _edge(name: str, limit: Any, optional: Container[str] = ()) -> Iterator[Tuple[str, str]]:
    for one in limit if isinstance(limit, list) else [limit]:
        table = one if isinstance(one, dict) else {}
        is_wanted = not table.get("optional") or package_name(name) in optional
        if is_wanted and "extra ==" not in str(table.get("markers", "")):
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
