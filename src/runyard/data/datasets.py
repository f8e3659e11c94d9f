"""The files of a dataset: found on their datastores by path or pattern, then narrowed step by step."""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard.core.datasets import DatasetSpec, DataSource
from runyard.core.errors import InvalidArgument, NotFound
from runyard.data.base import Storage, StoredFile

Open = Callable[[str], Storage]
_SPECIAL = re.compile(r"[*?\[]")
_WHOLE = re.compile(r"([^*?\[]*?)(?:(?<=.)/\*\*)?(?:(?<=.)/\*)?")
_PARTS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


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
    raise InvalidArgument(f"A dataset of files cannot {what!r}.")


def fingerprint(files: Sequence[DataFile]) -> str:
    """Return a digest of the names and sizes: another one means that the data is not the same any more."""
    text = "\n".join(sorted([f"{file.name}\0{file.size}\0{file.url}" for file in files]))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _of_source(source: DataSource, open_storage: Open) -> List[DataFile]:
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
