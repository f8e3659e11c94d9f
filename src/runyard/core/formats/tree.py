"""The tree object: one folder of a snapshot as canonical bytes, the same on every machine. Pure.

A tree names the chunks of its files and the trees of its folders, so its id stands for everything below it.
docs/internals/http-api.md has the form.
"""

from __future__ import annotations

import hashlib
import json
from json.encoder import encode_basestring_ascii as quote
from typing import Any, Iterable, List, NamedTuple, Sequence, Tuple, Union

from runyard.core.errors import InvalidArgument
from runyard.core.formats.chunks import CHUNK_SIZE
from runyard.core.names import CONTENT_ID

MAX_TREE_BYTES = 30 << 20  # about 190,000 files in one folder; fits one request body
MAX_DEPTH = 200
MAX_NAME_BYTES = 255
MAX_TARGET_BYTES = 4095
MAX_FILE_BYTES = 1 << 50
TREE, CHUNK = "tree", "chunk"  # what frames of a whole snapshot call the ids of their bodies
_HEAD, _TAIL = b'{"entries":[', b"]}"


class FileEntry(NamedTuple):
    name: str
    mode: int
    size: int
    chunks: Tuple[str, ...]


class FolderEntry(NamedTuple):
    name: str
    mode: int
    tree: str


class LinkEntry(NamedTuple):
    name: str
    target: str


Entry = Union[FileEntry, FolderEntry, LinkEntry]


def name_bytes(name: str) -> bytes:
    """Return the bytes of a name on disk: UTF-8, with surrogateescape for what is not."""
    return name.encode("utf-8", "surrogateescape")


def name_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def entry_bytes(entry: Entry) -> bytes:
    """Return one entry's canonical bytes; `join_entries` makes a tree of them."""
    name = quote(entry.name)
    if isinstance(entry, FileEntry):
        chunks = ",".join([f'"{chunk}"' for chunk in entry.chunks])
        text = f'{{"n":{name},"t":"f","m":{entry.mode},"s":{entry.size},"c":[{chunks}]}}'
    elif isinstance(entry, FolderEntry):
        text = f'{{"n":{name},"t":"d","m":{entry.mode},"i":"{entry.tree}"}}'
    else:
        text = f'{{"n":{name},"t":"l","l":{quote(entry.target)}}}'
    return text.encode("ascii")


def join_entries(pieces: Iterable[bytes]) -> bytes:
    """Return the tree of entries that are already in the order of their names' bytes."""
    return _HEAD + b",".join(pieces) + _TAIL


def encode_tree(entries: Iterable[Entry]) -> bytes:
    ordered = sorted(entries, key=lambda entry: name_bytes(entry.name))
    return join_entries([entry_bytes(entry) for entry in ordered])


def tree_id(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def snapshot_id(root: str) -> str:
    """Return the id of the snapshot whose root tree is `root`: the same tree is the same snapshot."""
    return "-".join((root[:8], root[8:12], root[12:16], root[16:20], root[20:32]))


def decode_tree(data: bytes) -> List[Entry]:
    """Return the entries of an untrusted tree.

    Raises:
        InvalidArgument: it is not canonical, too large, or names what no folder can hold.
    """
    if len(data) > MAX_TREE_BYTES:
        raise _bad(f"It has {len(data)} bytes; {MAX_TREE_BYTES} is the most.")
    try:
        plain = json.loads(data.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise _bad("It is not ASCII JSON.") from error
    if not isinstance(plain, dict) or not isinstance(plain.get("entries"), list):
        raise _bad("It has no list of entries.")
    entries = [_entry(item) for item in plain["entries"]]
    _check_order(entries)
    if join_entries([entry_bytes(entry) for entry in entries]) != data:
        raise _bad("Its bytes are not the canonical form of what they say.")
    return entries


def _check_order(entries: Sequence[Entry]) -> None:
    names = [name_bytes(entry.name) for entry in entries]
    for earlier, later in zip(names, names[1:]):
        if earlier >= later:
            raise _bad(f"{name_text(later)!r} comes after {name_text(earlier)!r}: names must be unique and in order.")


def _entry(item: Any) -> Entry:
    if not isinstance(item, dict):
        raise _bad("An entry is not an object.")
    name = _name(item.get("n"))
    kind = item.get("t")
    if kind == "f":
        return _file(name, item)
    if kind == "d":
        return FolderEntry(name, _mode(name, item.get("m")), _id(name, item.get("i")))
    if kind == "l":
        return LinkEntry(name, _target(name, item.get("l")))
    raise _bad(f"{name!r} is of the unknown kind {str(kind)[:40]!r}.")


def _file(name: str, item: Any) -> FileEntry:
    size = item.get("s")
    chunks = item.get("c")
    if type(size) is not int or not 0 <= size <= MAX_FILE_BYTES:
        raise _bad(f"The size of {name!r} is {str(size)[:40]!r}.")
    if not isinstance(chunks, list):
        raise _bad(f"{name!r} has no list of chunks.")
    if not len(chunks) <= size <= len(chunks) * CHUNK_SIZE:
        raise _bad(f"{name!r} has {len(chunks)} chunks for {size} bytes.")
    return FileEntry(name, _mode(name, item.get("m")), size, tuple(_id(name, chunk) for chunk in chunks))


def _name(value: Any) -> str:
    fault = name_fault(value)
    if fault:
        raise _bad(f"The name {str(value)[:100]!r} {fault}.")
    return str(value)


def name_fault(value: Any) -> str:
    """Return why `value` cannot be an entry's name; "" when it can."""
    if not isinstance(value, str) or value in ("", ".", ".."):
        return "is no name"
    if "/" in value or "\0" in value:
        return "holds `/` or NUL"
    raw = _raw(value)
    if raw is None:
        return "is not the text of a file name"
    return f"is longer than {MAX_NAME_BYTES} bytes" if len(raw) > MAX_NAME_BYTES else ""


def _target(name: str, value: Any) -> str:
    raw = _raw(value) if isinstance(value, str) else None
    if not raw or b"\0" in raw or len(raw) > MAX_TARGET_BYTES:
        raise _bad(f"The link {name!r} has the target {str(value)[:100]!r}.")
    return str(value)


def _raw(value: str) -> Any:
    """Return the bytes on disk, None where two texts would mean the same bytes or there are none."""
    try:
        raw = name_bytes(value)
    except UnicodeEncodeError:
        return None
    return raw if name_text(raw) == value else None


def _mode(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 0o777:
        raise _bad(f"The mode of {name!r} is {str(value)[:40]!r}; only permission bits are kept.")
    return value


def _id(name: str, value: Any) -> str:
    if not isinstance(value, str) or not CONTENT_ID.fullmatch(value):
        raise _bad(f"{name!r} names {str(value)[:100]!r}, which is no content id.")
    return value


def _bad(why: str) -> InvalidArgument:
    return InvalidArgument(
        "A snapshot's folder description (tree object) cannot be read.",
        why=why,
        hint="It was not made by this program, or was damaged on its way. Take the snapshot again.",
    )
