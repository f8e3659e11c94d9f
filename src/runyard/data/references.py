"""Data references on a node: a path before the start, and for uploads a copy after the end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Callable, Dict, List

from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.specs import DataReferenceSpec
from runyard.data.base import Count, Storage, StoredFile, count_nothing
from runyard.data.folder import iter_files
from runyard.data.transfer import download, is_stored, upload

MODES = ("mount", "download", "upload")
PREFIX = "AZUREML_DATAREFERENCE_"


@dataclass(frozen=True)
class Node:
    """What of the run's node matters here."""

    work: str  # what a relative path_on_compute is below
    side: str  # where data without a path_on_compute goes, out of the script's way
    say: Callable[[str], None]
    warn: Callable[[str], None]
    counting: Callable[[int], Count] = lambda _: count_nothing  # given how many bytes will come, what counts them


def bring(name: str, reference: DataReferenceSpec, storage: Storage, node: Node) -> str:
    """Put the data in place and return its path.

    Raises:
        NotFound, Conflict: it is not on the datastore, or something is in its way here.
    """
    local = storage.find_local(reference.path) if reference.mode == "mount" else None
    if local is not None:
        return _mount(name, reference, local, node)
    place = place_on(node, name, reference)
    if reference.mode == "upload":
        return _make_room(place)
    if reference.mode == "mount":
        node.warn(
            f"Data reference `{name}`: the datastore `{reference.datastore}` is not on this machine, so the run works "
            "on a copy; what it writes there stays on the node. as_upload() brings it back."
        )
    return _download(name, reference, storage, place, node)


def deliver(name: str, reference: DataReferenceSpec, storage: Storage, node: Node) -> None:
    """Copy what the run wrote to the datastore. Files that are there already stay, with a warning when they differ."""
    place = place_on(node, name, reference)
    files = _written(place, reference.path)
    done = upload(storage, files.items(), overwrite=reference.overwrite)
    node.say(f"Data reference `{name}`: {done.count} files, {done.size_bytes} bytes, copied to the datastore.")
    if not files:
        node.warn(f"Data reference `{name}`: the run wrote nothing to {place}, so nothing was uploaded.")
    kept = _different(storage, files, done.skipped)
    if kept:
        node.warn(
            f"Data reference `{name}`: the datastore has other files under {len(kept)} names that the run wrote "
            f"({', '.join(kept[:5])}{' …' if len(kept) > 5 else ''}); they stay. overwrite=True replaces them."
        )


def place_on(node: Node, name: str, reference: DataReferenceSpec) -> str:
    """Return where a download or upload lies on the node."""
    wanted = os.path.expanduser(reference.path_on_compute or "")
    if not wanted:
        return os.path.join(node.side, name)
    inside = os.path.normpath(wanted)
    if inside.split(os.sep)[0] == "..":
        raise InvalidArgument(
            f"The path_on_compute {reference.path_on_compute!r} of data reference `{name}` leaves the work folder.",
            hint="Give a path below it, an absolute one, or none.",
        )
    return os.path.normpath(os.path.join(node.work, inside))


def _mount(name: str, reference: DataReferenceSpec, local: str, node: Node) -> str:
    """On one machine and on shared file systems the data itself, readable and writable, is the mount."""
    if not os.path.lexists(local):
        os.makedirs(local, exist_ok=True)
        node.warn(
            f"Data reference `{name}`: `{reference.path}` was not on the datastore `{reference.datastore}`; "
            "the run got an empty folder of that name."
        )
    wanted = reference.path_on_compute
    if wanted and os.path.isabs(wanted):
        node.warn(f"Data reference `{name}`: nothing is mounted at {wanted}; the script is given {local}.")
    elif wanted:
        _link(local, place_on(node, name, reference))
    return local


def _link(local: str, place: str) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    try:
        os.symlink(local, place)
    except FileExistsError:
        raise Conflict(
            f"The data cannot be mounted at {place}.",
            why="The source folder has something of that name.",
            hint="Choose another path_on_compute, or leave it out: the script is told the path.",
        ) from None


def _download(name: str, reference: DataReferenceSpec, storage: Storage, place: str, node: Node) -> str:
    files = list(storage.iter_files(reference.path))
    if not files and reference.path:
        raise NotFound(
            f"The datastore `{reference.datastore}` holds nothing at `{reference.path}`.",
            hint="Upload it first: datastore.upload(src_dir, target_path).",
        )
    os.makedirs(place, exist_ok=True)
    start = _start_of_names(reference.path, files)
    done = download(
        storage,
        files,
        lambda file: os.path.join(place, file[start:]),
        overwrite=reference.overwrite,
        count=node.counting(sum(file.size for file in files)),
    )
    node.say(f"Data reference `{name}`: {done.count} files, {done.size_bytes} bytes, copied to {place}.")
    return os.path.join(place, files[0].name[start:]) if _is_one_file(reference.path, files) else place


def _is_one_file(path: str, files: List[StoredFile]) -> bool:
    return bool(path) and [file.name for file in files] == [path]


def _start_of_names(path: str, files: List[StoredFile]) -> int:
    """Return where, in the names on the datastore, the part begins that is kept on the node."""
    if _is_one_file(path, files):
        return path.rfind("/") + 1
    return len(path) + 1 if path else 0


def _make_room(place: str) -> str:
    """Make the folder; where the path looks like a file's, only the one above it."""
    os.makedirs(os.path.dirname(place) if os.path.splitext(place)[1] else place, exist_ok=True)
    return place


def _written(place: str, path: str) -> Dict[str, str]:
    """Return {path on the node: name on the datastore} of what lies at `place`."""
    if os.path.isfile(place):
        return {place: path or os.path.basename(place)}
    prefix = f"{path}/" if path else ""
    return {file.path: prefix + file.name for file in iter_files(place)} if os.path.isdir(place) else {}


def _different(storage: Storage, files: Dict[str, str], skipped: List[str]) -> List[str]:
    """Names whose content is not what the run wrote; an interrupted copy leaves the same content."""
    left = set(skipped)
    return [name for source, name in files.items() if name in left and not is_stored(storage, source, name)]
