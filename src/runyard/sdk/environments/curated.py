"""Azure's curated environments: their names lead to package sets of today (`curated_environments.json`)."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from typing import Any, Dict, List, Optional, Tuple

from runyard.core.errors import SubmitRejected
from runyard.sdk.config.notices import warn_once
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import UserErrorException

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "curated_environments.json")
PREFIXES = ("azureml-", "microsoft-")  # names that only curated environments have
_VERSION = "1"


def find_curated(name: str, version: Optional[str] = None) -> Optional[Environment]:
    """Return the curated environment of that name, upper and lower case alike; every version is today's packages.

    Raises:
        UserErrorException: it is one that cannot be had here.
    """
    data = _read()
    refused = _look_up(data["refused"], name)
    if refused is not None:
        raise azure_error(
            SubmitRejected(
                f"The curated environment {name!r} cannot be had here.",
                why=refused[1],
                hint="Make one with the packages that your script imports: Environment.from_pip_requirements().",
            ),
            UserErrorException,
        )
    found = _look_up(data["environments"], name)
    if found is None:
        return None
    known, entry = found
    made = _environment(name if known.endswith("*") else known, entry, version or _VERSION)
    _say(made.name, entry)
    return made


def list_curated() -> Dict[str, Environment]:
    """Return those that have a line of their own, by name."""
    entries = _read()["environments"]
    return {name: _environment(name, entries[name], _VERSION) for name in sorted(entries) if not name.endswith("*")}


def is_reserved(name: str) -> bool:
    return name.lower().startswith(PREFIXES)


def package_sets() -> Dict[Tuple[str, ...], List[str]]:
    """Return each package set with the names that lead to it."""
    found: Dict[Tuple[str, ...], List[str]] = {}
    for name, entry in _read()["environments"].items():
        found.setdefault(tuple(entry["pip"]), []).append(name)
    return found


def _look_up(entries: Dict[str, Any], name: str) -> Optional[Tuple[str, Any]]:
    spelt = {known.lower(): known for known in entries}
    wanted = name.lower()
    if wanted in spelt and not wanted.endswith("*"):
        return spelt[wanted], entries[spelt[wanted]]
    for known in sorted((known for known in spelt if known.endswith("*")), key=len, reverse=True):
        if fnmatchcase(wanted, known):
            return spelt[known], entries[spelt[known]]
    return None


def _environment(name: str, entry: Dict[str, Any], version: str) -> Environment:
    made = Environment(name)
    made.version = version
    made.environment_variables = {}
    made.python.conda_dependencies = CondaDependencies.create(pip_packages=["azureml-defaults", *entry["pip"]])
    return made


def _say(name: str, entry: Dict[str, Any]) -> None:
    packages = ", ".join(entry["pip"]) or "nothing beyond what every run has"
    text = f"The curated environment {name} is a set of today's packages here: {packages}."
    if not entry.get("as_named") and any(letter.isdigit() for letter in name):
        text += " The versions in its name are too old for today's Python; pip's newest are taken."
    if "gpu" in name.lower() or "cuda" in name.lower():
        text += " Whether they use a GPU is decided by the wheels that your index has."
    warn_once(" ".join(filter(None, (text, entry.get("said")))))


def _read() -> Dict[str, Any]:
    with open(FILE, encoding="utf-8") as file:
        found: Dict[str, Any] = json.load(file)
    return found
