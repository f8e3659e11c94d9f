"""Packages whose place Runyard takes (`provided.json`): every run has them, so they are left out of every build."""

from __future__ import annotations

import json
import os
import re
from typing import List, Optional, Sequence, Tuple

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_found: Optional[List[str]] = None


def is_provided(requirement: str) -> bool:
    """Whether a requirement such as `azureml-defaults==1.2` names one of them."""
    name = package_name(requirement)
    return any(name.startswith(known[:-1]) if known.endswith("*") else name == known for known in _read())


def split_provided(requirements: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Return (those to install, those that Runyard provides), each in the given order."""
    provided = [line for line in requirements if is_provided(line)]
    return [line for line in requirements if line not in provided], provided


def package_name(requirement: str) -> str:
    """Return the package's name in the one form of PEP 503; "" when the text begins with none."""
    match = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", match[1].rstrip("-_.")).lower() if match else ""


def _read() -> List[str]:
    global _found
    if _found is None:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "provided.json"), encoding="utf-8") as file:
            _found = [str(name) for name in json.load(file)["packages"]]
    return _found
