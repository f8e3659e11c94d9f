"""Record files of Weights & Biases made by hand, as its client writes them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

START = 1_700_000_000
_BLOCK = 32 << 10


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def nested(field: int, message: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(message)) + message


def text(field: int, value: str) -> bytes:
    return nested(field, value.encode())


def item(path: Sequence[str], value: Any) -> bytes:
    names = [text(2, name) for name in path] if len(path) > 1 else [text(1, path[0])]
    return b"".join(names) + text(16, json.dumps(value))


def time(seconds: float) -> bytes:
    return number(1, int(seconds)) + number(2, int(seconds % 1 * 1e9))


def run_record(run_id: str, *, project: str = "proj", config: Mapping[str, Any] | None = None) -> bytes:
    items = b"".join(nested(1, item([key], value)) for key, value in (config or {}).items())
    fields = [text(1, run_id), text(3, project), nested(4, items), text(8, "a name"), text(9, "notes"), text(10, "t")]
    return nested(17, b"".join([*fields, nested(17, time(START))]))


def history_record(step: int, values: Mapping[str, Any]) -> bytes:
    """Return a step; keys with a dot are paths."""
    every = {"_step": step, "_timestamp": START + step / 2, **values}
    items = b"".join(nested(1, item(key.split("."), value)) for key, value in every.items())
    return nested(2, items + nested(2, number(1, step)))


def summary_record(values: Mapping[str, Any]) -> bytes:
    return nested(3, b"".join(nested(1, item([key], value)) for key, value in values.items()))


def stats_record(at: float, values: Mapping[str, float]) -> bytes:
    return nested(7, nested(2, time(at)) + b"".join(nested(3, item([key], value)) for key, value in values.items()))


def output_record(line: str) -> bytes:
    return nested(13, number(1, 1) + text(3, line))


def exit_record(code: int) -> bytes:
    return nested(18, number(1, code) + number(2, 60))


def framed(records: Sequence[bytes]) -> bytes:
    """Return a file with the records, cut into blocks."""
    data = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        for kind, piece in _pieces(record, len(data)):
            left = _BLOCK - len(data) % _BLOCK
            if left < 7:
                data += bytes(left)
            data += struct.pack("<IHB", zlib.crc32(piece, zlib.crc32(bytes([kind]))), len(piece), kind) + piece
    return bytes(data)


def _pieces(record: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    is_first = True
    while True:
        left = _BLOCK - at % _BLOCK
        at += left if left < 7 else 0
        room = _BLOCK - at % _BLOCK - 7
        piece, record = record[:room], record[room:]
        yield (1 if not record else 2) if is_first else (4 if not record else 3), piece
        if not record:
            return
        is_first, at = False, at + 7 + len(piece)


def write_run(
    root: Path,
    run_id: str,
    records: Sequence[bytes],
    *,
    stamp: str = "20231114_221320",
    files: Mapping[str, bytes] | None = None,
) -> Path:
    folder = root / f"offline-run-{stamp}-{run_id}"
    (folder / "files").mkdir(parents=True)
    for name, content in (files or {}).items():
        (folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "files" / name).write_bytes(content)
    path = folder / f"run-{run_id}.wandb"
    path.write_bytes(framed(records))
    return path
