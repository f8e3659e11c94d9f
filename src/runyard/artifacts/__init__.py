"""Bytes by key, and content addressing on top of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.core.plugins import load_plugin

if TYPE_CHECKING:
    from runyard.artifacts.base import ArtifactStore

KNOWN = {
    "filesystem": "runyard.artifacts.filesystem:FilesystemStore",
    "memory": "runyard.artifacts.memory:MemoryStore",
}


def find_artifact_store(name: str) -> type[ArtifactStore]:
    """Return the class that keeps artifacts under that name; unknown names answer with the known ones."""
    found: type[ArtifactStore] = load_plugin("artifacts", name, KNOWN)
    return found
