"""What a replica gets beside registered models: the stored source, and local models that were never registered.

Both are one snapshot. Local models lie in its folder `.runyard-models/NAME/VERSION`, as in a replica's
`azureml-models`; `replica.py` finds them there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Tuple

from runyard.core.formats.tree import Entry, FileEntry, FolderEntry, decode_tree, encode_tree, tree_id
from runyard.core.machine.progress import Progress
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.files import plain_form
from runyard.sdk.runs.source import store_source

if TYPE_CHECKING:
    from runyard.client.client import Client

LOCAL_MODELS = ".runyard-models"
_FILE_MODE, _FOLDER_MODE = 0o644, 0o755


@dataclass(frozen=True)
class ScriptSource:
    """The code of a service: a folder and a script in it, or single files of which `entry` is the script.

    `files`: path on this machine → name in the app root. With `folder` they are added to it.
    """

    entry: str
    folder: Optional[str] = None
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder_name(self) -> str:
        """The name by which scripts know their folder; "" when the script comes alone."""
        return os.path.basename(self.folder.rstrip(os.sep)) if self.folder else ""


def script_source(entry_script: str, source_directory: Optional[str] = None) -> ScriptSource:
    """Return where a script's code is: `entry_script` is a path, below the folder when there is one.

    Raises:
        WebserviceException: the script lies outside of the folder.
    """
    if source_directory is None:
        path = os.path.abspath(entry_script)
        return ScriptSource(os.path.basename(path), files={path: os.path.basename(path)})
    folder = os.path.abspath(source_directory)
    relative = os.path.relpath(os.path.join(folder, entry_script), folder).replace(os.sep, "/")
    if relative.split("/")[0] == os.pardir:
        raise WebserviceException(f"The entry script `{entry_script}` is outside of the source directory {folder}.")
    return ScriptSource(relative, folder)


def store_code(
    client: Client, source: Optional[ScriptSource], local_models: Mapping[Tuple[str, int], str]
) -> Optional[str]:
    """Send source and local models, as far as the server lacks them; return the snapshot. None: there is nothing.

    Args:
        client: of the server.
        source: the script; None for models that need none.
        local_models: (name, version) → the path of the model's file or folder on this machine.
    """
    builder = _TreeBuilder(client)
    entries: List[Entry] = []
    if source is not None and source.folder:
        stored = store_source(client, source.folder)
        if not local_models and not source.files:
            return stored.snapshot_id
        entries = list(decode_tree(client.content.tree(stored.root)[stored.root]))
    if source is None and not local_models:
        return None
    added: Dict[str, str] = {name: path for path, name in (source.files if source is not None else {}).items()}
    for (name, version), path in local_models.items():
        base = os.path.basename(os.path.abspath(path))
        added[f"{LOCAL_MODELS}/{plain_form(name)}/{version}/{base}"] = os.path.abspath(path)
    with Progress("storing the files of the service") as progress:
        root = builder.merge(entries, added, progress)
        return client.content.put_snapshot(root, builder.files, builder.size_bytes)


class _TreeBuilder:
    """Makes trees of files that lie anywhere on this machine."""

    def __init__(self, client: Client) -> None:
        self._content = client.content
        self.files = 0
        self.size_bytes = 0

    def merge(self, entries: List[Entry], added: Mapping[str, str], progress: Progress) -> str:
        """Store a folder of `entries` and of `added`, name with `/` → path; return its tree."""
        groups: Dict[str, Dict[str, str]] = {}
        made: Dict[str, Entry] = {one.name: one for one in entries}
        for name, path in added.items():
            first, _, rest = name.partition("/")
            if rest:
                groups.setdefault(first, {})[rest] = path
            else:
                made[first] = self._entry(first, path, progress)
        for first, inner in groups.items():
            made[first] = FolderEntry(first, _FOLDER_MODE, self.merge([], inner, progress))
        return self._put(list(made.values()))

    def _entry(self, name: str, path: str, progress: Progress) -> Entry:
        if os.path.isdir(path):
            inner = {one.name: one.path for one in os.scandir(path) if one.is_dir() or one.is_file()}
            return FolderEntry(name, _FOLDER_MODE, self.merge([], inner, progress))
        try:
            stored = self._content.upload_file(path, name=name, progress=progress.add)
        except OSError as error:
            raise WebserviceException(f"`{path}` cannot be read: {error.strerror}.") from error
        self.files += 1
        self.size_bytes += stored.size
        return FileEntry(name, _FILE_MODE, stored.size, tuple(stored.chunks))

    def _put(self, entries: List[Entry]) -> str:
        data = encode_tree(entries)
        name = tree_id(data)
        self._content.put_trees([(name, data)])
        return name
