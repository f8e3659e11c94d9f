"""Keys of the artifact store, checked in one place: every part is a plain file name below the root."""

from __future__ import annotations

from runyard.core.errors import InvalidArgument, NotFound

MAX_PART_BYTES = 255
RESERVED = "tmp"  # the filesystem store's half-written files


def split_key(key: str) -> list[str]:
    """Return the parts of a key such as `packs/ab12`.

    Raises:
        InvalidArgument: a part is empty, `.`, `..`, too long, or holds what no file system agrees on.
    """
    parts = key.split("/")
    for part in parts:
        if part in ("", ".", "..") or "\\" in part or not part.isprintable() or len(part.encode()) > MAX_PART_BYTES:
            raise bad_key(key, f"The part {part[:100]!r} is no plain name.")
    if parts[0] == RESERVED:
        raise bad_key(key, f"`{RESERVED}/` is kept for half-written files.")
    return parts


def split_prefix(prefix: str) -> tuple[list[str], str]:
    """Return (folders, start of the last part) of a prefix such as `packs/` or `logs/run_1/std`."""
    folders, _, start = prefix.rpartition("/")
    return (split_key(folders) if folders else []), start


def bad_key(key: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{key[:200]!r} is not a valid artifact key.", why=why)


def unknown_key(key: str) -> NotFound:
    return NotFound(f"There is no artifact `{key}`.", why="It was never stored, or it was deleted.")
