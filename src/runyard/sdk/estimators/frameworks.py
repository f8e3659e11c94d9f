"""Which packages a framework's estimator installs: `frameworks.json`, by framework version and Python."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from runyard.sdk.environments.conda_dependencies import requirement_name

HOROVOD = "horovod==0.28.1"
_found: Optional[Dict[str, Any]] = None


class Release(NamedTuple):
    framework: str
    version: str  # as frameworks.json and `framework_version` name it
    packages: List[str]
    newest_python: str

    @property
    def exact(self) -> str:
        """The version that is installed."""
        return self.packages[0].partition("==")[2]


def supported_versions(framework: str) -> List[str]:
    return list(_framework(framework)["releases"])


def find_release(
    framework: str, asked: Optional[str], *, python: Optional[str], gpu: bool, horovod: bool
) -> Optional[Release]:
    """Return the release that was asked for when it can be had on `python` (None: on any), else the newest that can."""
    releases = _framework(framework)["releases"]
    fitting = [version for version, facts in releases.items() if _fits(facts, python, horovod)]
    if not fitting:
        return None
    version = asked if asked is not None and asked in fitting else fitting[-1]
    facts = releases[version]
    packages = list(facts.get("gpu", facts["cpu"]) if gpu else facts["cpu"])
    return Release(framework, version, packages + ([HOROVOD] if horovod else []), facts["pythons"][1])


def without_named(framework: str, packages: Sequence[str], named: Sequence[str]) -> List[str]:
    """Return those packages that a user does not name himself: what he says about a package decides."""
    names = {requirement_name(line) for line in named}
    aliases = set(_framework(framework)["aliases"])
    taken = names | (aliases if names & aliases else set())
    return [package for package in packages if requirement_name(package) not in taken]


def named_version(framework: str, packages: Sequence[str]) -> str:
    """Return the version that a list of packages pins; the newest known one when it pins none."""
    aliases = _framework(framework)["aliases"]
    pins = [line.partition("==")[2] for line in packages if requirement_name(line) in aliases]
    return next((pin for pin in pins if pin), supported_versions(framework)[-1])


def _fits(facts: Dict[str, Any], python: Optional[str], horovod: bool) -> bool:
    if "pythons" not in facts or (horovod and not facts.get("horovod")):
        return False
    oldest, newest = (_numbers(version) for version in facts["pythons"])
    return python is None or oldest <= _numbers(python) <= newest


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _framework(name: str) -> Dict[str, Any]:
    global _found
    if _found is None:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frameworks.json")
        with open(path, encoding="utf-8") as file:
            _found = json.load(file)
    assert _found is not None
    framework: Dict[str, Any] = _found[name]
    return framework
