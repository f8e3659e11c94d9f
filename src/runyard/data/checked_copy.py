"""A file copied and read back: what is at the target has the SHA-256 of what was read from the source."""

from __future__ import annotations

import hashlib

from runyard.core.errors import SystemFailure

BLOCK = 1 << 20


def copy_checked(source: str, target: str) -> str:
    """Write the content of `source` to the path `target` and return its SHA-256.

    Raises:
        SystemFailure: what can be read at the target is not what was written there.
    """
    digest = hashlib.sha256()
    block = memoryview(bytearray(BLOCK))
    with open(source, "rb", buffering=0) as read, open(target, "wb", buffering=0) as out:
        while True:
            count = read.readinto(block) or 0
            if not count:
                break
            piece = block[:count]
            digest.update(piece)
            while piece:
                piece = piece[out.write(piece) or 0 :]
    wanted, found = digest.hexdigest(), file_digest(target)
    if found != wanted:
        raise SystemFailure(
            f"The copy of {source} is not what was read from it: SHA-256 {found[:16]}… instead of {wanted[:16]}….",
            why=f"The file system below {target} did not keep what was written, or somebody else wrote there.",
            hint="Look at its disk (`dmesg`) and the space left on it (`df`), then repeat the transfer.",
        )
    return wanted


def file_digest(path: str) -> str:
    digest = hashlib.sha256()
    block = memoryview(bytearray(BLOCK))
    with open(path, "rb", buffering=0) as read:
        while True:
            count = read.readinto(block) or 0
            if not count:
                return digest.hexdigest()
            digest.update(block[:count])
