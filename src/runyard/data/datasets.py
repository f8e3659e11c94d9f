"""Datasets on a node: find their files, bring them to a path, and deliver output folders.

The files are found on their datastores by path or pattern, then narrowed step by step. `bring_dataset` gives the data
itself where it lies on this machine, links to it, or a copy. An output folder is on its datastore at once where that is
on this machine; otherwise `deliver_output` copies it at the end.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import posixpath
import re
import uuid
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.plain import to_plain
from runyard.core.specs import FILE, MOUNT, DatasetInputSpec, DatasetOutputSpec, DatasetSpec, DataSource
from runyard.data.base import Count, Storage, StoredFile, count_nothing
from runyard.data.folder import below, clean_data_path, iter_files
from runyard.data.references import Node
from runyard.data.transfer import for_all, upload

Open = Callable[[str], Storage]
_SPECIAL = re.compile(r"[*?\[]")
_WHOLE = re.compile(r"([^*?\[]*?)(?:(?<=.)/\*\*)?(?:(?<=.)/\*)?")
_PARTS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_FETCH_S = 60.0


class DataFile(NamedTuple):
    name: str  # in the dataset
    datastore: str
    path: str  # on it
    size: int
    url: str = ""


def opened_once(open_storage: Open) -> Open:
    """Return what opens each datastore at its first use: that asks the server."""
    storages: Dict[str, Storage] = {}

    def opened(datastore: str) -> Storage:
        if datastore not in storages:
            storages[datastore] = open_storage(datastore)
        return storages[datastore]

    return opened


def list_files(spec: DatasetSpec, open_storage: Open) -> List[DataFile]:
    """Return the dataset's files in the order of its sources.

    Raises:
        NotFound: a source has none.
    """
    found = [file for source in spec.sources for file in _of_source(source, open_storage)]
    if len({file.name for file in found}) != len(found):  # folders with files of the same names: keep them apart
        found = [file._replace(name=file.path or file.name) for file in found]
    for step in spec.steps:
        found = narrow(found, step)
    return found


def narrow(files: Sequence[DataFile], step: Mapping[str, Any]) -> List[DataFile]:
    """Return what a step leaves. Samples and splits depend on the seed and the file's name alone."""
    what = step.get("do")
    if what == "take":
        return list(files[: int(step["count"])])
    if what == "skip":
        return list(files[int(step["count"]) :])
    if what in ("sample", "split"):
        below = [_fraction(file.name, step.get("seed")) < float(step["fraction"]) for file in files]
        wanted = not step.get("rest", False)
        return [file for file, is_below in zip(files, below) if is_below is wanted]
    if what == "filter":
        from runyard.data.expressions import fits  # few datasets have conditions

        return [file for file in files if fits(step["condition"], file_values(file, str(step.get("form") or "")))]
    raise InvalidArgument(f"A dataset of files cannot {what!r}.")


def file_values(file: DataFile, form: str) -> Dict[str, Any]:
    """Return what conditions may ask about a file: what its path says by the partition format, and its size."""
    from runyard.data.partitions import partition_values  # few datasets have them

    return {**(partition_values(form, place_of(file)) if form else {}), "Size": file.size}


def place_of(file: DataFile) -> str:
    """Return the whole path of a file, on its datastore or its web server."""
    if not file.url:
        return file.path
    from urllib.parse import unquote, urlsplit  # few datasets have addresses

    return unquote(urlsplit(file.url).path)


def fingerprint(files: Sequence[DataFile]) -> str:
    """Return a digest of the names and sizes: another one means that the data is not the same any more."""
    text = "\n".join(sorted([f"{file.name}\0{file.size}\0{file.url}" for file in files]))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _of_source(source: DataSource, open_storage: Open) -> List[DataFile]:
    if "*" in source.url.partition("?")[0]:
        from runyard.data.web import list_addresses  # few datasets have patterns of addresses

        return [DataFile(name, "", "", size, url) for name, url, size in list_addresses(source.url)]
    if source.url:
        return [DataFile(posixpath.basename(source.url.partition("?")[0]) or "data", "", "", 0, source.url)]
    base, matching = _matching(source, open_storage(source.datastore))
    if not matching:
        raise NotFound(
            f"The datastore `{source.datastore}` holds nothing at `{source.path or '/'}`.",
            hint="Upload it first: datastore.upload(src_dir, target_path).",
        )
    start = len(base) + 1 if base else 0
    return [DataFile(file.name[start:], source.datastore, file.name, file.size) for file in matching]


def _matching(source: DataSource, storage: Storage) -> Tuple[str, List[StoredFile]]:
    """Return the folder that names are relative to, and the files."""
    if not _SPECIAL.search(source.path):
        files = list(storage.iter_files(source.path))
        is_one = [file.name for file in files] == [source.path]
        return (posixpath.dirname(source.path) if is_one else source.path), files
    base = fixed_part(source.path)
    if _WHOLE.fullmatch(source.path):
        return base, [file for file in storage.iter_files(base) if file.name != base]
    pattern = compile_pattern(source.path)
    return base, [file for file in storage.iter_files(base) if pattern.fullmatch(file.name)]


def whole_place(spec: DatasetSpec) -> Optional[str]:
    """Return the path of the file or folder that the dataset is all of: `data`, `data/*`, `data/**`, `data/**/*`."""
    if len(spec.sources) != 1 or spec.steps or spec.sources[0].url:
        return None
    found = _WHOLE.fullmatch(spec.sources[0].path)
    return found[1] if found else None


def fixed_part(path: str) -> str:
    """Return the folder above the first part that is a pattern."""
    parts = path.split("/")
    first = next(index for index, part in enumerate(parts) if _SPECIAL.search(part))
    return "/".join(parts[:first])


def compile_pattern(path: str) -> re.Pattern[str]:
    """`*` stays within a folder, `**` goes through folders; a pattern that fits a folder means all below it."""
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", path)
    text = "".join(_PARTS.get(piece, re.escape(piece)) for piece in pieces)
    return re.compile(f"{text}(?:/.*)?")


def _fraction(name: str, seed: Any) -> float:
    digest = hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:7], "big") / (1 << 56)


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
    place = _input_place(name, given, node)
    roots = _local_roots(files, opened) if given.mode == MOUNT else None
    if roots is not None:
        path, how = _view(given, files, roots, place)
    else:
        path, how = _copy(files, opened, place, node), "a copy on this node"
        if given.mode == MOUNT:
            node.warn(f"Dataset `{name}`: its files are not on this machine, so the run reads a copy of them.")
    size = sum(file.size for file in files)
    node.say(f"Dataset `{name}`: {len(files)} files, {size} bytes, {how}: {path}")
    facts = {"id": given.dataset.id, "name": given.name, "version": given.version, "mode": given.mode}
    return View(path, how, {**facts, "files": len(files), "bytes": size, "fingerprint": fingerprint(files)})


def _input_place(name: str, given: DatasetInputSpec, node: Node) -> str:
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


def _copy(files: Sequence[DataFile], opened: Open, place: str, node: Node) -> str:
    targets = [(file, os.path.join(place, file.name)) for file in files]
    missing = [(file, target) for file, target in targets if not os.path.lexists(target)]
    fetch_all(missing, opened, node.counting(sum(file.size for file, _ in missing)))
    return _only(files, place)


def fetch_all(wanted: Sequence[Tuple[DataFile, str]], opened: Open, count: Count = count_nothing) -> None:
    """Write files to the paths beside them, several at once where that is quicker; `count` hears of their bytes."""

    def fetch(pair: Tuple[DataFile, str]) -> None:
        file, target = pair
        if file.url:
            fetch_url(file.url, target)
            count(os.path.getsize(target))
        else:
            opened(file.datastore).fetch_file(file.path, target, count)

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
    from runyard.data.web import fetch  # it loads slowly, and every start of a supervisor would wait for it

    fetch(url, target)


def open_output(name: str, output: DatasetOutputSpec, storage: Storage, node: Node) -> str:
    """Make the folder and return its path."""
    local = storage.find_local(output.path) if output.mode == MOUNT and not output.source else None
    path = local if local is not None else _output_place(name, output, node)
    os.makedirs(path, exist_ok=True)
    return path


def deliver_output(name: str, output: DatasetOutputSpec, storage: Storage, node: Node) -> None:
    """Copy what the run wrote, unless it was written in place. May be repeated."""
    if output.mode == MOUNT and not output.source and storage.find_local(output.path) is not None:
        return
    place = _output_place(name, output, node)
    found = {file.path: file.name for file in iter_files(place)} if os.path.isdir(place) else {}
    chosen: Dict[str, str] = {path: below for path, below in found.items() if _is_wanted(below, output)}
    prefix = f"{output.path}/" if output.path else ""
    done = upload(storage, [(path, prefix + below) for path, below in chosen.items()], overwrite=output.overwrite)
    node.say(f"Output `{name}`: {done.count} files, {done.size_bytes} bytes, copied to `{output.datastore}`.")
    if not chosen:
        node.warn(f"Output `{name}`: the run wrote nothing to {place}.")


def registered_output(output: DatasetOutputSpec, run_id: str) -> Dict[str, Any]:
    """Return the document of the dataset that a run's output becomes."""
    asked = output.register
    source = DataSource(output.datastore, "/".join(filter(None, (output.path, asked.get("glob")))))
    reader, steps = dict(asked.get("reader") or {}), list(asked.get("steps") or [])
    spec = DatasetSpec(str(uuid.uuid4()), asked.get("kind") or FILE, [source], steps=steps, reader=reader)
    about = {"description": asked.get("description") or "", "tags": dict(asked.get("tags") or {})}
    return {"spec": to_plain(spec), **about, "run_id": run_id}


def _output_place(name: str, output: DatasetOutputSpec, node: Node) -> str:
    if output.source and os.path.isabs(output.source):
        return output.source
    return os.path.join(node.work, clean_data_path(output.source)) if output.source else os.path.join(node.side, name)


def _is_wanted(name: str, output: DatasetOutputSpec) -> bool:
    return not output.globs or any(fnmatch.fnmatch(name, glob) for glob in output.globs)
