"""The EnvironmentBuilder `conda`: a prefix per content key, pip packages on top; PyPI where conda is out of reach."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence
from urllib.parse import unquote, urlsplit

from runyard.core.config.paths import cache_folder, environments_folder
from runyard.core.config.settings import Settings, read_settings
from runyard.core.errors import SubmitRejected
from runyard.core.formats.python_range import is_range
from runyard.core.provided_packages import tell_absent
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import BuiltEnvironment, Check, EnvironmentBuilder, Say, SupportsLock, never
from runyard.environments.cache import CacheEntry, Marker, get_place, lock_text
from runyard.environments.conda.prefix import (
    EXTRA_HINT,
    CondaOrder,
    CondaUnavailable,
    Translated,
    check_library,
    hide_secrets,
    install_conda,
    plan_channels,
    translate,
)
from runyard.environments.pip import PipInstall, install, plan_pip
from runyard.environments.pythons import OLDEST, Python, is_too_old
from runyard.environments.system import Installed, list_installed
from runyard.environments.uv import UvBuilder, build_once, environment_key, say_left_out, who_asks


class CondaBuilder(EnvironmentBuilder, SupportsLock):
    """`python` is an interpreter that has py-rattler; None: the one that runs here."""

    def __init__(
        self, *, cache: Optional[Path] = None, settings: Optional[Settings] = None, python: Optional[str] = None
    ) -> None:
        self._settings = settings or read_settings()
        self._python = python
        self._uv = UvBuilder(cache=cache, settings=self._settings)

    def build(
        self,
        spec: EnvironmentSpec,
        *,
        say: Say,
        variables: Optional[Mapping[str, str]] = None,
        check: Check = never,
        user: Optional[str] = None,
    ) -> BuiltEnvironment:
        environ = os.environ if variables is None else variables
        try:
            built = self._build(spec, environ, say=say, check=check, user=user)
            warnings = self._python_warnings(spec)
            for warning in warnings:
                say(warning)
            return replace(built, warnings=[*warnings, *built.warnings])
        except CondaUnavailable as error:
            plan = plan_fallback(spec, error, is_allowed=self._settings.conda_fallback != "never")
            warning = _came_from_pypi(spec, plan, str(error))
        say(warning)
        asked = _from_pypi(spec, plan)
        built = self._uv.build(asked, say=say, variables=variables, check=check, user=user)
        return replace(built, warnings=[warning, *built.warnings])

    def describe(self, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None) -> Dict[str, object]:
        """As the base class says; `conda` lists the conda packages: name, version, build, sha256."""
        described = self._uv.describe(built, variables=variables)
        marker = self._place(built.key).read_marker() or Marker()
        return {**described, "conda": marker["conda"]} if "conda" in marker else described

    def lock(
        self, spec: EnvironmentSpec, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None
    ) -> str:
        """As the base class says for the pip part; conda packages stand before it as comments."""
        place = self._place(built.key)
        marker = place.read_marker() or Marker()
        if "conda" not in marker:
            return self._uv.lock(_from_pypi(spec, translate(spec.conda_packages)), built, variables=variables)
        pip = self._plan_pip(spec, os.environ if variables is None else variables)
        title = f"Exact packages of environment `{spec.name}`, Python {marker.get('python', '')}."
        text, _ = lock_text(pip, built.interpreter, _put_there_by_pip(place.prefix), title=title)
        conda = [
            f"# conda: {one['name']}={one['version']}={one['build']} sha256:{one['sha256']}" for one in marker["conda"]
        ]
        return "\n".join([*conda, text])

    def _build(
        self, spec: EnvironmentSpec, environ: Mapping[str, str], *, say: Say, check: Check, user: Optional[str]
    ) -> BuiltEnvironment:
        order = self._plan(spec)
        pip = self._plan_pip(spec, environ)
        what_counts = [
            order.specs,
            [[hide_secrets(one), _index_time(one)] for one in order.channels],
            pip.what_counts(),
        ]
        place = self._place(environment_key("conda", Python("/", ""), what_counts))
        marker = place.take(user)
        if marker is None:
            check_library(self._python)
            build_once(
                place,
                lambda fd: self._make(place, order, pip, environ, say=say, check=check, keep=[fd]),
                say=say,
                check=check,
                user=user,
                who=who_asks(user),
            )
        say(f"Environment `{spec.name}` is ready: {place.prefix}")
        variables = {"CONDA_PREFIX": str(place.prefix)}
        return BuiltEnvironment(
            interpreter=str(place.interpreter), variables=variables, warnings=tell_absent(pip.left_out), key=place.key
        )

    def _make(
        self,
        place: CacheEntry,
        order: CondaOrder,
        pip: PipInstall,
        environ: Mapping[str, str],
        *,
        say: Say,
        check: Check,
        keep: Sequence[int],
    ) -> Marker:
        packages = install_conda(
            order, str(place.prefix), variables=environ, say=say, check=check, keep=keep, python=self._python
        )
        for one in packages:
            say(f"  {one['name']} {one['version']} {one['build']}")
        say_left_out(pip.left_out, say)
        install(pip, str(place.interpreter), say=say, check=check, keep=keep)
        version = next((one["version"] for one in packages if one["name"] == "python"), "")
        return {"kind": "conda", "name": order.name, "python": version, "requirements": order.specs, "conda": packages}

    def _python_warnings(self, spec: EnvironmentSpec) -> List[str]:
        """Return what the run says when it cannot have the Python that was asked for."""
        if spec.python_version is None or not is_too_old(spec.python_version):
            return []
        oldest = ".".join(map(str, OLDEST))
        text = f"Python {spec.python_version} is too old (runs need {oldest} or newer); {oldest} is used instead."
        return [f"{text} RUNYARD_PYTHON_FALLBACK=never forbids this."]

    def _plan(self, spec: EnvironmentSpec) -> CondaOrder:
        if self._settings.python_fallback == "never" and spec.python_version and is_too_old(spec.python_version):
            raise SubmitRejected(
                f"Environment `{spec.name}` asks for Python {spec.python_version}.",
                why=f"Runs need Python {'.'.join(map(str, OLDEST))} or newer; RUNYARD_PYTHON_FALLBACK=never forbids "
                "another one.",
                hint="Ask for a newer one (`python=3.11` in the conda file), or unset it.",
            )
        cache = cache_folder(self._settings.home) / "conda"
        return CondaOrder(spec.name, plan_specs(spec), plan_channels(spec.conda_channels), str(cache))

    def _plan_pip(self, spec: EnvironmentSpec, environ: Mapping[str, str]) -> PipInstall:
        return plan_pip(
            spec,
            variables=environ,
            allows_downloads=self._settings.python_downloads,
            horovod_wheels=cache_folder(self._settings.home) / "horovod",
        )

    def _place(self, key: str) -> CacheEntry:
        return get_place(environments_folder(self._settings.home), key)


def plan_specs(spec: EnvironmentSpec) -> List[str]:
    """Return conda's specifications with the Python that was asked for, or the oldest that runs can have."""
    version = spec.python_version
    if version and is_too_old(version):
        version = ".".join(map(str, OLDEST))
    equals = "" if version and is_range(version) else "="
    python = f"python{equals}{version}" if version else "python"
    return [python, *sorted(set(spec.conda_packages))]


def plan_fallback(spec: EnvironmentSpec, why: CondaUnavailable, *, is_allowed: bool) -> Translated:
    """Return the same packages in pip's words.

    Raises:
        SubmitRejected: that is forbidden, or one of them has no known counterpart on PyPI.
    """
    cure = EXTRA_HINT if why.is_missing else "Name a channel that can be reached (a folder, too: `/path/of/channel`)"
    what = f"The conda packages of environment `{spec.name}` cannot be installed: {why}."
    if not is_allowed:
        raise SubmitRejected(
            what, why="RUNYARD_CONDA_FALLBACK=never forbids to take them from PyPI.", hint=f"{cure}, or unset it."
        )
    plan = translate(spec.conda_packages)
    if plan.unknown:
        one = plan.unknown[0].split("::")[-1]
        raise SubmitRejected(
            what,
            why=f"Of {', '.join(f'`{name}`' for name in plan.unknown)} no counterpart on PyPI is known.",
            hint=f"{cure}; or name the package as pip knows it: pip_packages=['{one.split('=')[0].split(' ')[0]}'].",
        )
    return plan


def _from_pypi(spec: EnvironmentSpec, plan: Translated) -> EnvironmentSpec:
    return replace(spec, kind="uv", pip_packages=[*plan.requirements, *spec.pip_packages], conda_packages=[])


def _came_from_pypi(spec: EnvironmentSpec, plan: Translated, why: str) -> str:
    left_out = f" Left out, because wheels bring it along: {', '.join(plan.left_out)}." if plan.left_out else ""
    packages = ", ".join(plan.requirements) or "none"
    return (
        f"The conda packages of environment `{spec.name}` are taken from PyPI ({packages}): {why}.{left_out} "
        "RUNYARD_CONDA_FALLBACK=never forbids this."
    )


def _index_time(channel: str) -> List[int]:
    """Return when a folder's index changed: other content under the same name is another environment."""
    if not channel.startswith("file:"):
        return []
    found = Path(unquote(urlsplit(channel).path)).glob("*/repodata.json")
    return sorted(path.stat().st_mtime_ns for path in found)


def _put_there_by_pip(prefix: Path) -> List[Installed]:
    """Return the packages that came on top of conda's own."""
    notes = prefix.glob("lib/python3.*/site-packages/*.dist-info/INSTALLER")
    ours = {note.parent.name.partition("-")[0].lower() for note in notes if note.read_text("utf-8").strip() == "uv"}
    return [one for one in list_installed(prefix) if re.sub(r"[-_.]+", "_", one.name).lower() in ours]
