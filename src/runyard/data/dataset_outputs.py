"""A folder that a run writes to: on its datastore at once where that is on this machine, else copied at the end."""

from __future__ import annotations

import fnmatch
import os
import uuid
from typing import Any, Dict

from runyard.core.datasets import MOUNT, DatasetOutputSpec, DatasetSpec, DataSource
from runyard.core.formats.plain import to_plain
from runyard.data.base import Storage
from runyard.data.paths import clean_data_path
from runyard.data.references import Node
from runyard.data.transfer import upload
from runyard.data.walk import iter_files


def open_output(name: str, output: DatasetOutputSpec, storage: Storage, node: Node) -> str:
    """Make the folder and return its path."""
    local = storage.find_local(output.path) if output.mode == MOUNT and not output.source else None
    path = local if local is not None else _place(name, output, node)
    os.makedirs(path, exist_ok=True)
    return path


def deliver_output(name: str, output: DatasetOutputSpec, storage: Storage, node: Node) -> None:
    """Copy what the run wrote, unless it was written in place. May be repeated."""
    if output.mode == MOUNT and not output.source and storage.find_local(output.path) is not None:
        return
    place = _place(name, output, node)
    found = {file.path: file.name for file in iter_files(place)} if os.path.isdir(place) else {}
    chosen: Dict[str, str] = {path: below for path, below in found.items() if _is_wanted(below, output)}
    prefix = f"{output.path}/" if output.path else ""
    done = upload(storage, [(path, prefix + below) for path, below in chosen.items()], overwrite=output.overwrite)
    node.say(f"Output `{name}`: {done.count} files, {done.size_bytes} bytes, copied to `{output.datastore}`.")
    if not chosen:
        node.warn(f"Output `{name}`: the run wrote nothing to {place}.")


def registered_output(output: DatasetOutputSpec, run_id: str) -> Dict[str, Any]:
    """Return the document of the dataset that a run's output becomes."""
    spec = DatasetSpec(str(uuid.uuid4()), sources=[DataSource(output.datastore, output.path)])
    about = {"description": output.register.get("description") or "", "tags": dict(output.register.get("tags") or {})}
    return {"spec": to_plain(spec), **about, "run_id": run_id}


def _place(name: str, output: DatasetOutputSpec, node: Node) -> str:
    if output.source and os.path.isabs(output.source):
        return output.source
    return os.path.join(node.work, clean_data_path(output.source)) if output.source else os.path.join(node.side, name)


def _is_wanted(name: str, output: DatasetOutputSpec) -> bool:
    return not output.globs or any(fnmatch.fnmatch(name, glob) for glob in output.globs)
