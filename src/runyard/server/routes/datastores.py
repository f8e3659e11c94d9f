"""The built-in datastores of a workspace, for clients and nodes that are not on the server's machine.

Folders that somebody registered are not served: with them, whoever may register could read all that the server's user
can. They are for machines that see them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from runyard.core.config.paths import datastores_folder
from runyard.core.errors import NotAllowed, NotFound, TooLarge
from runyard.core.names import check_asset_name, check_workspace_name
from runyard.core.records import RunFile
from runyard.data.datastores import BUILT_IN, folder_document
from runyard.data.folder import FolderStorage
from runyard.data.paths import below, clean_data_path
from runyard.server.access.permissions import RunPrincipal, UserPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.downloads import download_headers
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, with_json
from runyard.server.http.stored_files import check_stored
from runyard.server.storage.room import Taken

router = APIRouter(prefix="/workspaces/{workspace}/datastores/{name}/files", tags=["datastores"])
PIECE = 1 << 20
MOST_REPEATS = 256  # 1 GiB of full chunks; a file may repeat as many more as it has different ones
ZEROS = "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8"  # a full chunk of zeros: takes no disk


@dataclass(frozen=True)
class DataFileBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    file: RunFile


@router.get("")
def list_files(workspace: str, name: str, request: Request, path: str = "") -> Response:
    """List the files below a path, or the one file that is there."""
    call = call_of(request)
    call.may("read_workspace", workspace=workspace)
    document = _document(call, workspace, name)
    found = FolderStorage(document).iter_files(clean_data_path(path))
    stays = _Inside(str(document["path"]))
    return json_answer([{"name": file.name, "size": file.size} for file in found if stays(file.name)])


@router.post("", status_code=201)
@takes(DataFileBody)
async def put_file(workspace: str, name: str, request: Request) -> Response:
    """Store uploaded content as a file of the datastore, in place of what was there."""
    return await with_json(request, lambda body: _put(call_of(request), workspace, name, body))


@router.get("/{path:path}")
def get_file(workspace: str, name: str, path: str, request: Request) -> Response:
    """Download one file."""
    call = call_of(request)
    call.may("read_workspace", workspace=workspace)
    root, wanted = str(_document(call, workspace, name)["path"]), clean_data_path(path)
    descriptor = _open(root, wanted)
    size = os.fstat(descriptor).st_size
    headers = {**download_headers(wanted, size, complete=True), "Content-Length": str(size)}
    return StreamingResponse(_read(descriptor), headers=headers, media_type="application/octet-stream")


def _put(call: Call, workspace: str, name: str, body: bytes) -> Response:
    call.may("put_data", workspace=workspace)
    file = check_stored(call.services, parse(DataFileBody, body).file)
    _check_repeats(file)
    document = _document(call, workspace, name)
    pieces = call.services.content.read_file(file.chunks, offset=0, limit=file.size)
    storage, path = FolderStorage(document), clean_data_path(file.name)
    old = storage.find_file(path)
    with call.services.room.take(file.size, f"The file {file.name[:200]!r}") as taken:
        user, growth = _user_of(call), file.size - (0 if old is None else old.size)
        call.services.quotas.add_data(user, growth)
        try:
            storage.put_pieces(_counted(pieces, taken), path)
        except BaseException:
            call.services.quotas.add_data(user, -growth)
            raise
    return json_answer({"name": file.name, "size": file.size}, status=201)


def _check_repeats(file: RunFile) -> None:
    """Refuse a small request that asks for a huge file: the name of a chunk is short, and each mention is written out.

    Raises:
        TooLarge: most of the file is copies of the same few chunks.
    """
    counts = Counter(file.chunks)
    counts.pop(ZEROS, None)
    repeats, most = counts.total() - len(counts), MOST_REPEATS + len(counts)
    if repeats > most:
        raise TooLarge(
            f"The file {file.name[:200]!r} repeats chunks of its own content {repeats:,} times.",
            why=f"It has {len(counts):,} different ones, so {most:,} repeats are allowed: each one is written out.",
            hint="Upload it compressed, or keep it on a datastore of your own: Datastore.register_folder().",
        )


def _document(call: Call, workspace: str, name: str) -> dict[str, object]:
    check_asset_name(name)
    call.services.store.get_workspace(check_workspace_name(workspace))
    if name not in BUILT_IN:
        raise NotAllowed(
            f"The datastore `{name}` is not given out by the server.",
            why="It is a folder that somebody registered: it is there for machines that see that folder.",
            hint=f"Mount its file system here, or copy the data to `{BUILT_IN[0]}`.",
        )
    folder = datastores_folder(call.services.settings.home, workspace) / name
    return {**folder_document(str(folder)), "make": True}


def _user_of(call: Call) -> str:
    """Return the user whose quota a write counts for; a run writes for who submitted it, and the owner has none."""
    if isinstance(call.principal, UserPrincipal):
        return call.principal.name
    if isinstance(call.principal, RunPrincipal):
        return call.services.store.get_run(call.principal.run_id).submitted_by
    return ""


def _counted(pieces: Iterable[bytes], taken: Taken) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        taken.wrote(len(piece))


class _Inside:
    """Whether a path, all links followed, is below the folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._real = os.path.realpath(root) + os.sep

    def __call__(self, path: str) -> bool:
        return os.path.realpath(below(self._root, path)).startswith(self._real)


def _open(root: str, path: str) -> int:
    """Open a file below `root`; a link that leads out of it is not followed."""
    place = os.path.realpath(below(root, path))
    if not path or not _Inside(root)(path) or not os.path.isfile(place):
        raise NotFound(f"The datastore holds no file `{path[:200]}`.")
    return os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


def _read(descriptor: int) -> Iterator[bytes]:
    with os.fdopen(descriptor, "rb") as file:
        while piece := file.read(PIECE):
            yield piece
