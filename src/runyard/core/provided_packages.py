"""Microsoft's azureml packages in lists of requirements (`provided.json`): no build installs them.

Runyard's own `azureml` stands in their place. Each is provided, replaced by another package, or absent; what they would
have brought from other makers is installed all the same.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_EXTRAS = re.compile(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*\s*\[([^\]]*)\]")
_found: Optional[Dict[str, Dict[str, Any]]] = None

PROVIDED, REPLACED, ABSENT = "provided", "replaced", "absent"


class LeftOut(NamedTuple):
    """One that was asked for. `said`: what takes its place, or why nothing does."""

    requirement: str
    state: str
    said: str
    brings: List[str]
    is_base: bool
    unless: List[str]  # packages that hold what it brings


def find_left_out(requirement: str) -> Optional[LeftOut]:
    """Return what is known of a requirement such as `azureml-defaults==1.2`; None: it is installed like any other."""
    name = package_name(requirement)
    packages = _read()
    known = name if name in packages else _pattern(name, packages)
    if not name or known is None:
        return None
    entry = packages[known]
    extras = _EXTRAS.match(requirement)
    brings = [str(line) for line in entry.get("brings", [])]
    for extra in extras[1].split(",") if extras else []:
        brings += entry.get("extras", {}).get(extra.strip().lower(), [])
    limited = {package_name(line) for line in brings if ";" in line}  # an extra's own limit is the narrower one
    brings = [line for line in brings if ";" in line or package_name(line) not in limited]
    is_base = bool(entry.get("is_base"))
    unless = [str(name) for name in entry.get("unless", [])]
    return LeftOut(requirement.strip(), str(entry["state"]), str(entry.get("said", "")), brings, is_base, unless)


def split_provided(requirements: Sequence[str]) -> Tuple[List[str], List[LeftOut]]:
    """Return (those to install, those that are left out), each in the given order."""
    found = [(line, find_left_out(line)) for line in requirements]
    return [line for line, known in found if known is None], [known for _, known in found if known is not None]


def brought_by(left_out: Sequence[LeftOut], named: Sequence[str], *, is_base: bool) -> List[str]:
    """Return the packages of other makers that those bring, less those that `named` requirements name themselves."""
    names = {package_name(line) for line in named}
    meant = [one for one in left_out if one.is_base == is_base and names.isdisjoint(one.unless)]
    lines = [line for one in meant for line in one.brings]
    return [line for line in dict.fromkeys(lines) if package_name(line) not in names]


def tell_left_out(left_out: Sequence[LeftOut]) -> List[str]:
    """Return a sentence for each, those that Runyard provides in one."""
    provided = [one.requirement for one in left_out if one.state == PROVIDED]
    told = [f"Provided by Runyard: {', '.join(provided)}."] if provided else []
    told += [f"{one.requirement} is replaced by {one.said}." for one in left_out if one.state == REPLACED]
    return told + tell_absent(left_out)


def tell_absent(left_out: Sequence[LeftOut]) -> List[str]:
    """Return a sentence for each that nothing takes the place of."""
    return [f"{one.requirement} is not available here: {one.said}." for one in left_out if one.state == ABSENT]


def package_name(requirement: str) -> str:
    """Return the package's name in the one form of PEP 503; "" when the text begins with none."""
    match = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", match[1].rstrip("-_.")).lower() if match else ""


def _pattern(name: str, packages: Dict[str, Dict[str, Any]]) -> Optional[str]:
    fitting = [known for known in packages if known.endswith("*") and name.startswith(known[:-1])]
    return max(fitting, key=len) if fitting else None


def _read() -> Dict[str, Dict[str, Any]]:
    global _found
    if _found is None:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "provided.json"), encoding="utf-8") as file:
            _found = json.load(file)["packages"]
    assert _found is not None
    return _found
