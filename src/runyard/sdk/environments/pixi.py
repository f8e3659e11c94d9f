"""Read `pixi.lock` and `pixi.toml`: conda packages for the conda builder, PyPI's on top.

Of a lock the packages of one platform and of one environment are taken, each in its exact build.
"""

from __future__ import annotations

import os
import platform
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional

from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.core.formats.python_range import is_range
from runyard.sdk.environments.lock_graph import NO_DEPS, Locked, requirement_line

_FILE = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)-(?P<build>[^-]+?)(?:\.conda|\.tar\.bz2)$")
_PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le"}
_ENVIRONMENT = "default"


def read_pixi_lock(lock: Mapping[str, Any], *, folder: str, name: str, chosen: str = "") -> Locked:
    """Return the exact packages of an environment for this machine's platform.

    Raises:
        InvalidArgument: there is no such environment.
        SubmitRejected: the lock has none for it, or is of a version that is not known.
    """
    environments = lock.get("environments", {})
    if chosen and chosen not in environments:
        raise _unknown("pixi.lock", chosen, environments)
    environment = environments.get(chosen or _ENVIRONMENT)
    here = _PLATFORMS.get(platform.machine(), f"linux-{platform.machine()}")
    if not isinstance(environment, dict) or here not in environment.get("packages", {}):
        there = sorted((environment or {}).get("packages", {})) or sorted(lock.get("environments", {}))
        raise SubmitRejected(
            f"pixi.lock has no packages of the environment `{chosen or _ENVIRONMENT}` for {here}.",
            why=f"It has: {', '.join(there) or 'nothing that is known'}.",
            hint=f"Add the platform to pixi.toml (`platforms = ['{here}']`) and type `pixi lock`.",
        )
    details = {_location(one): one for one in lock.get("packages", [])}
    conda: List[str] = []
    lines: List[str] = []
    python = ""
    for one in environment["packages"][here]:
        if "conda" in one:
            package = _conda_package(str(one["conda"]), details.get(_location(one), {}))
            if package["name"] == "python":
                python = package["version"]
            conda.append("{name}={version}={build}".format(**package))
        else:
            lines.append(_pypi_line(str(one.get("pypi", "")), details.get(_location(one), {}), folder))
    channels = [str(one["url"] if isinstance(one, dict) else one) for one in environment.get("channels", [])]
    return Locked(name, [*lines, NO_DEPS] if lines else [], python, conda, channels)


def read_pixi_project(project: Mapping[str, Any], *, folder: str, chosen: str = "") -> Locked:
    """Return what pixi.toml (or `[tool.pixi]`) asks for, where there is no lock.

    Raises:
        InvalidArgument: there is no such environment.
    """
    head = project.get("workspace") or project.get("project") or {}
    features = _features(project, chosen or _ENVIRONMENT)
    tables = [
        table
        for one in features
        for table in (one, one.get("target", {}).get("linux", {}), one.get("target", {}).get("linux-64", {}))
    ]
    conda = {key: value for table in tables for key, value in table.get("dependencies", {}).items()}
    pypi = {key: value for table in tables for key, value in table.get("pypi-dependencies", {}).items()}
    python = str(_version(conda.pop("python", "")))
    limit = re.sub(r"^=*(\d+(?:\.\d+){1,2})(?:\.\*)?$", r"\1", python)
    if limit in ("", "*"):
        limit = ""
    lines = [_declared_pypi(key, value, folder) for key, value in pypi.items()]
    listed = [one for feature in features for one in feature.get("channels", [])] + head.get("channels", [])
    channels = list(dict.fromkeys(str(one["channel"] if isinstance(one, dict) else one) for one in listed))
    specs = [_declared_conda(key, value) for key, value in conda.items()]
    return Locked(str(head.get("name") or "pixi"), lines, limit, specs, channels)


def _features(project: Mapping[str, Any], name: str) -> List[Mapping[str, Any]]:
    """Return the features of an environment; the project itself is the feature `default`."""
    environments = project.get("environments", {})
    if name != _ENVIRONMENT and name not in environments:
        raise _unknown("pixi.toml", name, [_ENVIRONMENT, *environments])
    found = environments.get(name, [])
    names = found.get("features", []) if isinstance(found, dict) else found
    own = [] if isinstance(found, dict) and found.get("no-default-feature") else [project]
    return [*own, *(project.get("feature", {}).get(one, {}) for one in names)]


def _unknown(file: str, name: str, known: Iterable[str]) -> InvalidArgument:
    return InvalidArgument(
        f"{file} has no environment `{name}`.",
        why=f"It has {', '.join(known) or 'none'}.",
        hint="Correct the environment's name.",
    )


def _location(entry: Mapping[str, Any]) -> str:
    return str(entry.get("conda") or entry.get("pypi") or entry.get("url") or "")


def _conda_package(url: str, details: Mapping[str, Any]) -> Dict[str, str]:
    match = _FILE.match(url.rsplit("/", 1)[-1])
    found = match.groupdict() if match else {}
    known: Dict[str, Optional[str]] = {key: details.get(key) or found.get(key) for key in ("name", "version", "build")}
    if not all(known.values()):
        raise SubmitRejected(
            f"The conda package {url} of pixi.lock cannot be installed.",
            why="Its address does not end as a conda package does, so that it is probably built from sources.",
            hint="Leave it out of the environment, or publish it to a channel.",
        )
    return {key: str(value) for key, value in known.items()}


def _pypi_line(url: str, details: Mapping[str, Any], folder: str) -> str:
    if "://" not in url and not url.endswith((".whl", ".tar.gz", ".zip")):
        return f"--editable {os.path.normpath(os.path.join(folder, url))}"
    name, version, digest = details.get("name"), details.get("version"), details.get("sha256")
    if name and version and digest and not url.startswith("git+"):
        return requirement_line(f"{name}=={version}", [frozenset()], [f"sha256:{digest}"])
    address = url if "://" in url else "file://" + os.path.normpath(os.path.join(folder, url))
    return f"{name} @ {address}" if name else address


def _version(value: Any) -> str:
    return str(value.get("version", "*") if isinstance(value, dict) else value)


def _declared_conda(name: str, value: Any) -> str:
    version = _version(value)
    channel = f"{value['channel']}::" if isinstance(value, dict) and value.get("channel") else ""
    if version in ("", "*"):
        return channel + name
    return f"{channel}{name}{'' if is_range(version) else '='}{version.replace(' ', '')}"


def _declared_pypi(name: str, value: Any, folder: str) -> str:
    table = value if isinstance(value, dict) else {"version": value}
    extras = f"[{','.join(table['extras'])}]" if table.get("extras") else ""
    if "path" in table:
        path = os.path.normpath(os.path.join(folder, str(table["path"])))
        return f"--editable {path}" if os.path.isdir(path) else f"{name}{extras} @ file://{path}"
    if "git" in table:
        reference = table.get("rev") or table.get("tag") or table.get("branch")
        return f"{name}{extras} @ git+{table['git']}{f'@{reference}' if reference else ''}"
    if "url" in table:
        return f"{name}{extras} @ {table['url']}"
    version = str(table.get("version", "*"))
    return f"{name}{extras}" + ("" if version == "*" else version if re.match(r"[<>=!~]", version) else f"=={version}")
