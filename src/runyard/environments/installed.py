"""What a prefix holds, read from its files: names, versions, and where a package came from when from no index."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

_FIELD = re.compile(r"^(Name|Version): *(.+?) *$", re.M)


class Installed(NamedTuple):
    name: str
    version: str
    source: Optional[Dict[str, Any]]  # the content of its direct_url.json


def list_installed(prefix: Path) -> List[Installed]:
    """Return the packages of an environment in the order of their names. Starts no process."""
    found = [_read(folder) for folder in prefix.glob("lib/python3.*/site-packages/*.dist-info")]
    return sorted((one for one in found if one is not None), key=lambda one: one.name.lower())


def _read(folder: Path) -> Optional[Installed]:
    try:
        with open(folder / "METADATA", encoding="utf-8", errors="replace") as file:
            fields = dict(_FIELD.findall(file.read(8192).split("\n\n", 1)[0]))
        return Installed(fields["Name"], fields["Version"], _source(folder))
    except (OSError, KeyError):
        return None


def _source(folder: Path) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads((folder / "direct_url.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
