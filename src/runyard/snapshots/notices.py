"""Notices to the user about a snapshot: files that were left out, possible mistakes, and large files."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from runyard.core.machine.progress import shown_size
from runyard.snapshots.cache import LeftOutSize
from runyard.snapshots.folder import Folder
from runyard.snapshots.left_out import FolderSizes
from runyard.snapshots.walk import Note

LARGE_BYTES = 300_000_000
MANY_FILES = 2_000
_SHOWN = 10
_BIGGEST = 5


def with_sizes(notes: Sequence[Note], sizes: FolderSizes) -> List[Note]:
    """Return the notes; one about a Python environment says how large it is."""
    return [
        note._replace(detail=_about(sizes.get(note.path))) if note.kind == "environment" else note for note in notes
    ]


def _about(size: LeftOutSize) -> str:
    return ("" if size.is_all else "more than ") + shown_size(size.size_bytes)


def note_lines(notes: Sequence[Note]) -> List[str]:
    """Return one line for each kind of thing that is not in the snapshot."""
    by_kind = _grouped(notes)
    lines = [note.detail for note in by_kind.get("ignore_file", [])]
    if "secret" in by_kind:
        lines.append(_secret_line(by_kind["secret"]))
    if "environment" in by_kind:
        shown = ", ".join(f"`{note.path}` ({note.detail})" for note in by_kind["environment"][:_SHOWN])
        lines.append(f"Left out {shown}: a Python environment is never part of a snapshot. A run gets its own.")
    for note in by_kind.get("special", [])[:_SHOWN]:
        lines.append(f"Skipped `{note.path}`: it is {note.detail}, which a snapshot cannot hold.")
    if "vanished" in by_kind:
        lines.append(f"Skipped, because it vanished while the snapshot was taken: {_names(by_kind['vanished'])}.")
    if "home" in by_kind:
        lines.append(f"Skipped {_names(by_kind['home'])}: it is RUNYARD_HOME, where Runyard itself keeps its runs.")
    return lines


def warning_lines(notes: Sequence[Note]) -> List[str]:
    """Return one line for each kind of thing that makes the snapshot doubtful."""
    by_kind = _grouped(notes)
    lines = []
    if "changed" in by_kind:
        lines.append(
            f"Being written while it was read, three times over: {_names(by_kind['changed'])}. "
            "The copy in the snapshot may mix old and new content."
        )
    if "swapped" in by_kind:
        lines.append(f"Replaced while the snapshot was taken, and left out: {_names(by_kind['swapped'])}.")
    return lines


def size_warning(root: Folder, *, files: int, size_bytes: int, changed_files: int) -> Optional[str]:
    """Return what makes a snapshot large, None when it is not."""
    if size_bytes <= LARGE_BYTES and changed_files <= MANY_FILES:
        return None
    sizes: Dict[str, int] = {}
    largest: List[Tuple[int, str]] = []
    for path, folder in root.iter_below():
        top = path.partition("/")[0]
        if top:
            sizes[f"{top}/"] = sizes.get(f"{top}/", 0) + folder.size
        size, name = folder.largest
        largest.append((size, f"{path}/{name}" if path else name))
    folders = sorted(((size, name) for name, size in sizes.items()), reverse=True)[:_BIGGEST]
    biggest = ", ".join(
        f"`{name}` {shown_size(size)}" for size, name in folders + sorted(largest, reverse=True)[:3] if size
    )
    return (
        f"The snapshot is large: {shown_size(size_bytes)} in {files:,} files, {changed_files:,} new or changed. "
        f"Biggest: {biggest}. Name what the run does not need in `.amlignore`; data belongs into a dataset."
    )


def _secret_line(notes: Sequence[Note]) -> str:
    return (
        f"Left out because it looks like a secret: {_names(notes)}. "
        f"To send it all the same, add the line `!{notes[0].detail}` to `.amlignore`."
    )


def _names(notes: Sequence[Note]) -> str:
    shown = ", ".join(f"`{note.path}`" for note in notes[:_SHOWN])
    return shown if len(notes) <= _SHOWN else f"{shown} and {len(notes) - _SHOWN} more"


def _grouped(notes: Sequence[Note]) -> Dict[str, List[Note]]:
    found: Dict[str, List[Note]] = {}
    for note in sorted(notes):
        found.setdefault(note.kind, []).append(note)
    return found
