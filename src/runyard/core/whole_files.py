"""A file appears whole or not at all: written beside its place, and renamed into it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Iterator


@contextmanager
def written_beside(target: str) -> Iterator[str]:
    """Give a path to write to. What is there takes the place of `target` when the block ends well, else it goes."""
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    beside = f"{target}.{os.urandom(4).hex()}.part"
    try:
        yield beside
        os.replace(beside, target)
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise
