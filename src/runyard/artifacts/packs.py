"""Packs: many chunks in one object, each compressed when that is worth it. The index holds the place of a chunk."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runyard.core.errors import DamagedContent
from runyard.core.formats.chunks import chunk_id

PREFIX = "packs/"
RAW, ZSTD = "raw", "zstd"
_WORTH_IT = 0.95
_SMALL = 64  # below this a frame's head eats the gain
_READ_GAP = 64 << 10  # reading over a gap is cheaper than a second read
MAX_SPAN = 1 << 62
_local = threading.local()

Place = tuple[int, int, int, str]  # offset, stored bytes, plain bytes, codec


class PackEntry(NamedTuple):
    """Where a chunk lies; a row of the index."""

    pack: str
    offset: int
    stored: int
    plain: int
    codec: str


class PackSpan(NamedTuple):
    """Bytes of one pack that one read fetches."""

    pack: str
    offset: int
    length: int


def new_pack_key() -> str:
    return PREFIX + os.urandom(16).hex()


def build_pack(items: Mapping[str, bytes]) -> tuple[list[bytes], dict[str, Place]]:
    """Return the pack's pieces and the places of the chunks `items` in it. One key may be given to one pack only."""
    pieces: list[bytes] = []
    places: dict[str, Place] = {}
    offset = 0
    for name, data in items.items():
        codec, stored = _compress(data)
        pieces.append(stored)
        places[name] = (offset, len(stored), len(data), codec)
        offset += len(stored)
    return pieces, places


def plan_reads(places: Sequence[PackEntry]) -> list[PackSpan]:
    """Return the fewest sensible reads that cover all places; neighbours in a pack are read together."""
    spans: list[PackSpan] = []
    for place in sorted(set(places)):
        last = spans[-1] if spans else None
        if last and last.pack == place.pack and place.offset <= last.offset + last.length + _READ_GAP:
            end = max(last.offset + last.length, place.offset + place.stored)
            spans[-1] = PackSpan(last.pack, last.offset, end - last.offset)
        else:
            spans.append(PackSpan(place.pack, place.offset, place.stored))
    return spans


def unpack(stored: memoryview, place: PackEntry, expected_id: str) -> bytes:
    """Return the plain bytes.

    Raises:
        DamagedContent: they are not what was stored.
    """
    data: bytes | None = None
    try:
        if place.codec == ZSTD:
            data = _decompressor().decompress(stored, max_output_size=place.plain)
        elif place.codec == RAW:
            data = bytes(stored)
    except _zstandard().ZstdError:
        pass
    if data is None or len(data) != place.plain or chunk_id(data) != expected_id:
        raise damaged(expected_id, place)
    return data


def damaged(name: str, place: PackEntry) -> DamagedContent:
    """Return the error of a chunk whose bytes in its pack are not the chunk's."""
    return DamagedContent(
        f"Stored content is damaged: chunk {name} in pack `{place.pack}`.",
        why=f"The {place.stored} bytes at offset {place.offset} are not what was written there (the SHA-256 differs).",
        hint="Check the disk (`dmesg | tail`, `smartctl -a`), and bring the pack back from a backup. "
        "A snapshot that is taken again from its source does not repair it.",
    )


def _compress(data: bytes) -> tuple[str, bytes]:
    if len(data) < _SMALL:
        return RAW, data
    packed: bytes = _compressor().compress(data)
    return (ZSTD, packed) if len(packed) <= len(data) * _WORTH_IT else (RAW, data)


def _compressor() -> Any:
    if not hasattr(_local, "compressor"):
        _local.compressor = _zstandard().ZstdCompressor(level=1, write_checksum=False)
    return _local.compressor


def _decompressor() -> Any:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = _zstandard().ZstdDecompressor()
    return _local.decompressor


def _zstandard() -> Any:
    import zstandard  # a server that is only asked about runs never needs it

    return zstandard
