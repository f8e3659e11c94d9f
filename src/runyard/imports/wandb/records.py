"""The record file of Weights & Biases (`run-<id>.wandb`): blocks as LevelDB's log has them, with protobuf messages.

A file begins with seven bytes; then come blocks of 32 KiB. A record is a CRC-32, a length, a type and bytes; a long one
comes in several, each within its block. Of the messages only those that hold a run's own facts are read.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from runyard.core.formats.tfevents import iter_fields
from runyard.imports.records import Meta

MAGIC = b":W&B"
HEAD_BYTES = 7
BLOCK = 32 << 10
MOST_RECORD = 1 << 30
_HEAD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_TYPE_CRC = [zlib.crc32(bytes([kind])) for kind in range(5)]
# Fields of the message Record.
HISTORY, SUMMARY, CONFIG, FILES, STATS, OUTPUT, RUN, EXIT, HEADER = 2, 3, 5, 6, 7, 13, 17, 18, 21
Note = Callable[[str], None]
Keyed = Tuple[Tuple[str, ...], Any]  # the path of a value, and the value


class RunFacts(NamedTuple):
    """What a run says of itself at its start."""

    id: str
    project: str = ""
    entity: str = ""
    group: str = ""
    job_type: str = ""
    name: str = ""
    notes: str = ""
    tags: Tuple[str, ...] = ()
    host: str = ""
    started_ns: int = 0
    config: Tuple[Keyed, ...] = ()
    sweep: str = ""


def iter_records(file: BinaryIO, note: Note) -> Iterator[bytes]:
    """Yield the whole records; `note` is told of damage, and of a last record that is not whole.

    Raises:
        ValueError: it is no such file.
    """
    head = file.read(HEAD_BYTES)
    if head[: len(MAGIC)] != MAGIC:
        raise ValueError("it is no record file of Weights & Biases")
    pieces: List[bytes] = []
    size, bad, is_torn = 0, 0, False
    for block in _iter_blocks(file):
        place, end = 0, len(block)
        while place + HEAD_BYTES <= end:
            crc, length, kind = _HEAD.unpack_from(block, place)
            if not length and not kind:
                break  # the rest of the block is empty
            stop = place + HEAD_BYTES + length
            if stop > end:
                is_torn, pieces = True, []
                break
            body = block[place + HEAD_BYTES : stop]
            place = stop
            if not 0 < kind <= _LAST or zlib.crc32(body, _TYPE_CRC[kind]) != crc:
                bad, pieces = bad + 1, []
            elif kind == _FULL:
                pieces = []
                yield body
            elif kind == _FIRST:
                pieces, size = [body], length
            elif pieces and size <= MOST_RECORD:
                pieces.append(body)
                size += length
                if kind == _LAST:
                    yield b"".join(pieces)
                    pieces = []
    if bad:
        note(f"{bad:,} of its records are damaged and were left out")
    if pieces or is_torn:
        note("its last record is not whole")


def _iter_blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the blocks; the first is shorter by the head of the file."""
    block = file.read(BLOCK - HEAD_BYTES)
    while block:
        yield block
        block = file.read(BLOCK)


def kind_of(record: bytes) -> Tuple[int, bytes]:
    """Return which message a record holds, and the message; 0 for none that is known."""
    for number, field in iter_fields(record):
        if isinstance(field, bytes) and 2 <= number <= 26 and number != 16:
            return number, field
    return 0, b""


def read_run(message: bytes) -> RunFacts:
    """Return what a RunRecord says."""
    texts: Dict[int, str] = {}
    tags: List[str] = []
    started, config = 0, b""
    for number, field in iter_fields(message):
        if not isinstance(field, bytes):
            continue
        if number == 4:
            config = field
        elif number == 10:
            tags.append(_text(field))
        elif number == 17:
            started = read_time_ns(field)
        elif number in (1, 2, 3, 6, 7, 8, 9, 12, 13):
            texts[number] = _text(field)
    updates, _removed = read_items(config)
    return RunFacts(
        id=texts.get(1, ""),
        entity=texts.get(2, ""),
        project=texts.get(3, ""),
        group=texts.get(6, ""),
        job_type=texts.get(7, ""),
        name=texts.get(8, ""),
        notes=texts.get(9, ""),
        tags=tuple(tags),
        sweep=texts.get(12, ""),
        host=texts.get(13, ""),
        started_ns=started,
        config=tuple(updates),
    )


def read_items(message: bytes) -> Tuple[List[Keyed], List[Tuple[str, ...]]]:
    """Return the values that a message of items sets, and the paths that it removes: config, summary."""
    updates: List[Keyed] = []
    removed: List[Tuple[str, ...]] = []
    for number, field in iter_fields(message):
        if isinstance(field, bytes) and number in (1, 2):
            path, text = _item(field)
            if number == 1 and path:
                updates.append((path, _value(text)))
            elif path:
                removed.append(path)
    return updates, removed


def read_history(message: bytes) -> Tuple[Meta, Optional[int]]:
    """Return the values of a step as a tree, and the number of the step where the message has it."""
    values: Meta = {}
    step: Optional[int] = None
    for number, field in iter_fields(message):
        if not isinstance(field, bytes):
            continue
        if number == 1:
            path, text = _item(field)
            if path:
                put(values, path, _value(text))
        elif number == 2:
            found = dict(iter_fields(field)).get(1, 0)
            step = found if isinstance(found, int) else None
    return values, step


def read_stats(message: bytes) -> Tuple[int, List[Keyed]]:
    """Return ns, and what was measured of the machine then."""
    at, found = 0, []
    for number, field in iter_fields(message):
        if isinstance(field, bytes) and number == 2:
            at = read_time_ns(field)
        elif isinstance(field, bytes) and number == 3:
            path, text = _item(field)
            found.append((path, _value(text)))
    return at, found


def read_line(message: bytes) -> bytes:
    """Return what the program printed."""
    found = dict(iter_fields(message)).get(3, b"")
    return found if isinstance(found, bytes) else b""


def read_exit(message: bytes) -> Tuple[int, int]:
    """Return exit code and seconds."""
    found = dict(iter_fields(message))
    code, seconds = found.get(1, 0), found.get(2, 0)
    return (code if isinstance(code, int) else 0), (seconds if isinstance(seconds, int) else 0)


def read_version(message: bytes) -> str:
    """Return the client's version that a HeaderRecord has."""
    for number, field in iter_fields(message):
        if number == 1 and isinstance(field, bytes):
            found = dict(iter_fields(field)).get(1, b"")
            return _text(found).partition("+")[0] if isinstance(found, bytes) else ""
    return ""


def read_time_ns(message: bytes) -> int:
    """Return ns of a Timestamp."""
    found = dict(iter_fields(message))
    seconds, nanos = found.get(1, 0), found.get(2, 0)
    return int(seconds) * 10**9 + int(nanos) if isinstance(seconds, int) and isinstance(nanos, int) else 0


def put(tree: Meta, path: Tuple[str, ...], value: Any) -> None:
    """Set a value in a tree of dicts."""
    for name in path[:-1]:
        below = tree.get(name)
        if not isinstance(below, dict):
            below = tree[name] = {}
        tree = below
    tree[path[-1]] = value


def drop(tree: Meta, path: Tuple[str, ...]) -> None:
    """Remove a value from a tree of dicts."""
    for name in path[:-1]:
        below = tree.get(name)
        if not isinstance(below, dict):
            return
        tree = below
    tree.pop(path[-1], None)


def _item(message: bytes) -> Tuple[Tuple[str, ...], bytes]:
    """Return path and JSON of an item; old clients give one key, new ones a path."""
    path: List[str] = []
    text = b""
    for number, field in iter_fields(message):
        if isinstance(field, bytes):
            if number == 16:
                text = field
            elif number in (1, 2):
                path.append(_text(field))
    return tuple(path), text


def _value(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _text(text)


def _text(field: bytes) -> str:
    return field.decode("utf-8", "replace")
