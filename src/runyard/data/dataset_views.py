"""A dataset becomes a path on a node: the data itself where it lies on this machine, links to it, or a copy."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard.core.datasets import MOUNT, DatasetInputSpec
from runyard.core.errors import InvalidArgument, SystemFailure
from runyard.core.machine.whole_files import written_beside
from runyard.data.datasets import DataFile, Open, fingerprint, list_files, opened_once, whole_place
from runyard.data.paths import below, clean_data_path
from runyard.data.references import Node
from runyard.data.transfer import for_all

_FETCH_S = 60.0


class View(NamedTuple):
    path: str
    how: str  # in words
    facts: Dict[str, Any]  # what is kept with the run


def bring_dataset(name: str, given: DatasetInputSpec, open_storage: Open, node: Node) -> View:
    """Put the dataset in place.

    Raises:
        NotFound: it has no files.
    """
    opened = opened_once(open_storage)
    files = list_files(given.dataset, opened)
    place = _place(name, given, node)
    roots = _local_roots(files, opened) if given.mode == MOUNT else None
    if roots is not None:
        path, how = _view(given, files, roots, place)
    else:
        path, how = _copy(files, opened, place), "a copy on this node"
        if given.mode == MOUNT:
            node.warn(f"Dataset `{name}`: its files are not on this machine, so the run reads a copy of them.")
    size = sum(file.size for file in files)
    node.say(f"Dataset `{name}`: {len(files)} files, {size} bytes, {how}: {path}")
    facts = {"id": given.dataset.id, "name": given.name, "version": given.version, "mode": given.mode}
    return View(path, how, {**facts, "files": len(files), "bytes": size, "fingerprint": fingerprint(files)})


def _place(name: str, given: DatasetInputSpec, node: Node) -> str:
    wanted = os.path.expanduser(given.path_on_compute or "")
    if not wanted:
        return os.path.join(node.side, name)
    return wanted if os.path.isabs(wanted) else os.path.join(node.work, clean_data_path(wanted))


def _local_roots(files: Sequence[DataFile], opened: Open) -> Optional[Dict[str, str]]:
    """Return where the files' datastores lie on this machine; None when one of the files does not."""
    if any(file.url for file in files):
        return None
    found = {name: opened(name).find_local("") for name in {file.datastore for file in files}}
    return {name: root for name, root in found.items() if root} if all(found.values()) else None


def _view(given: DatasetInputSpec, files: Sequence[DataFile], roots: Mapping[str, str], place: str) -> Tuple[str, str]:
    """Return where the data is to be read, without a byte copied."""
    folder = whole_place(given.dataset)
    if folder is not None and not given.path_on_compute:
        path = files[0].path if len(files) == 1 and "/" not in files[0].name else folder
        return below(roots[given.dataset.sources[0].datastore], path), "read in place"
    links = [(os.path.join(place, file.name), f"{roots[file.datastore]}/{file.path}") for file in files]
    for parent in {os.path.dirname(link) for link, _ in links}:
        os.makedirs(parent, exist_ok=True)
    for link, path in links:
        try:
            os.symlink(path, link)
        except FileExistsError:  # of an attempt before this one
            pass
    return _only(files, place), "links to the data"


def _copy(files: Sequence[DataFile], opened: Open, place: str) -> str:
    targets = [(file, os.path.join(place, file.name)) for file in files]
    fetch_all([(file, target) for file, target in targets if not os.path.lexists(target)], opened)
    return _only(files, place)


def fetch_all(wanted: Sequence[Tuple[DataFile, str]], opened: Open) -> None:
    """Write files to the paths beside them, several at once where their datastores like that."""

    def fetch(pair: Tuple[DataFile, str]) -> None:
        file, target = pair
        if file.url:
            fetch_url(file.url, target)
        else:
            opened(file.datastore).fetch_file(file.path, target)

    datastores = {file.datastore for file, _ in wanted if not file.url}
    for_all(fetch, wanted, max([opened(name).at_once for name in datastores], default=1))


def _only(files: Sequence[DataFile], place: str) -> str:
    """Return the path that the script is given: of a dataset of one file, that file's."""
    return os.path.join(place, files[0].name) if len(files) == 1 else place


def fetch_url(url: str, target: str) -> None:
    """Write what an http(s) address holds to `target`, whole or not at all.

    Raises:
        InvalidArgument: it is another kind of address.
        SystemFailure: it cannot be fetched.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise InvalidArgument(f"A dataset's address must begin with http:// or https://, found {url[:100]!r}.")
    # It loads slowly, and every start of a supervisor would wait for it.
    import urllib.request

    try:
        with written_beside(target) as beside:
            with urllib.request.urlopen(url, timeout=_FETCH_S) as answer, open(beside, "xb") as out:
                shutil.copyfileobj(answer, out)
    except OSError as error:
        raise SystemFailure(f"{url} could not be fetched.", why=str(error)) from error
