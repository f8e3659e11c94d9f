"""The archive of our code that a node of a cluster fetches: what is injected into runs, named by its SHA-256."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Dict, NamedTuple, Optional

from runyard.runtime.injection import injection_folder

_EPOCH = (2020, 1, 1, 0, 0, 0)  # the same files make the same archive, whenever they were installed
CONTENTS = "bundle.json"  # name → size, so that a node can tell whether all is there


class Bundle(NamedTuple):
    key: str
    data: bytes


class Bundles:
    """Made when a cluster's first run needs it. Shared between threads."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._made: Optional[Bundle] = None

    def get(self) -> Bundle:
        with self._lock:
            if self._made is None:
                data = pack(injection_folder(self._home))
                self._made = Bundle(hashlib.sha256(data).hexdigest(), data)
            return self._made


def pack(folder: Path) -> bytes:
    files = _list_files(folder)
    sizes = {name: len(data) for name, data in files.items()}
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, CONTENTS: json.dumps(sizes).encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return into.getvalue()


def _list_files(folder: Path) -> Dict[str, bytes]:
    found = {}
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(root, name)
            found[os.path.relpath(path, folder).replace(os.sep, "/")] = Path(path).read_bytes()
    return found
