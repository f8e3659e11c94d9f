"""Paths on a datastore: relative, `/` between folders, and never out of their root."""

from __future__ import annotations

import os
from typing import Optional

from runyard.core.errors import InvalidArgument


def clean_data_path(path: Optional[str]) -> str:
    """Return the one canonical form of a path on a datastore; the datastore itself is the empty text.

    Raises:
        InvalidArgument: it leaves the datastore, or no file can have that name.
    """
    if path is None:
        return ""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument(f"A path on a datastore must be text, found {type(path).__name__} ({path!r:.100}).")
    text = str(os.fspath(path))
    parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in text:
        raise InvalidArgument(
            f"The path {text[:200]!r} leaves the datastore or cannot be a file's name.",
            hint="Name it relative to the datastore, such as `data/train`.",
        )
    return "/".join(parts)


def below(root: str, path: str) -> str:
    """Return the place of a clean path below the folder `root`."""
    return os.path.join(root, *path.split("/")) if path else root
