"""A snapshot's files: listed, downloaded one by one or as a zip, compared with another snapshot's."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from fastapi import APIRouter, Query, Request, Response

from runyard.artifacts.content import ContentStore
from runyard.artifacts.listing import Folders, compare, list_files
from runyard.core.errors import DamagedContent, NotFound, TooLarge
from runyard.core.formats.tree import FileEntry, LinkEntry, name_bytes
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import call_of
from runyard.server.http.downloads import download_answer, window_of
from runyard.server.http.stored_files import damaged_file
from runyard.server.http.zips import Packed, link_mode, zip_answer
from runyard.server.routes.snapshots import readable_root

router = APIRouter(prefix="/snapshots/{snapshot}", tags=["content"])
MOST_LISTED = 50_000
MOST_PACKED = 500_000


@router.get("/files")
def list_snapshot_files(snapshot: str, request: Request) -> Response:
    """List a snapshot's files and links, sorted by path."""
    folders = _folders(request, snapshot)
    files, more = list_files(folders, limit=MOST_LISTED)
    return json_answer({"id": snapshot, "root": folders.root, "files": files, "more": more})


@router.get("/files/{path:path}")
def get_snapshot_file(snapshot: str, path: str, request: Request) -> Response:
    """Download one file. The path is looked up in the snapshot's own folders, never on a disk."""
    content = call_of(request).services.content
    entry = _folders(request, snapshot).find(path)
    if entry is None:
        raise NotFound(
            f"Snapshot `{snapshot}` has no file {path[:200]!r}.",
            hint=f"`GET /api/v1/snapshots/{snapshot}/files` lists what it has.",
        )
    size = entry.size if isinstance(entry, FileEntry) else len(name_bytes(entry.target))
    window = window_of(request.headers.get("range"), size=size, offset=0, limit=None)
    return download_answer(
        path, size, lambda part: _read(content, entry, offset=part.start, limit=part.length), window=window
    )


@router.get("/zip")
def get_snapshot_zip(snapshot: str, request: Request) -> Response:
    """Download all files of a snapshot as one zip."""
    content = call_of(request).services.content
    folders = _folders(request, snapshot)
    if folders.count() > MOST_PACKED:
        raise TooLarge(
            f"Snapshot `{snapshot}` has more than {MOST_PACKED} files, too many for a zip.",
            hint="Fetch it with the SDK: `run.restore_snapshot(path='code')`.",
        )
    return zip_answer(f"snapshot-{snapshot[:8]}.zip", _packed(content, folders))


@router.get("/diff")
def get_snapshot_diff(snapshot: str, request: Request, other: str = Query(alias="with")) -> Response:
    """Say which files of `with` were added, removed or changed to make this snapshot."""
    before, after = _folders(request, other), _folders(request, snapshot)
    return json_answer(compare(before, after, limit=MOST_LISTED))


def _folders(request: Request, snapshot: str) -> Folders:
    call = call_of(request)
    return Folders(call.services.content, readable_root(call, snapshot))


def _packed(content: ContentStore, folders: Folders) -> Iterator[Packed]:
    for path, entry in folders.walk():
        if entry is not None:
            mode = stat.S_IFREG | entry.mode if isinstance(entry, FileEntry) else link_mode()
            yield Packed(path, mode, _read(content, entry))


def _read(
    content: ContentStore, entry: FileEntry | LinkEntry, *, offset: int = 0, limit: int | None = None
) -> Iterator[bytes]:
    if isinstance(entry, FileEntry):
        try:
            yield from content.read_file(entry.chunks, offset=offset, limit=limit)
        except (NotFound, DamagedContent) as error:
            raise damaged_file(entry.name, error) from error
    else:
        target = name_bytes(entry.target)
        yield target[offset : len(target) if limit is None else offset + limit]
