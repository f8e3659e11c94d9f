"""A run's files, or those of one folder, as a zip."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Request, Response

from runyard.core.errors import NotFound
from runyard.core.names import clean_file_name
from runyard.core.records import Run, RunFile
from runyard.server.http.calls import call_of
from runyard.server.http.downloads import Window
from runyard.server.http.zips import Packed, zip_answer
from runyard.server.routes.files import as_it_is, read_window
from runyard.server.services import Services

router = APIRouter(prefix="/runs/{run_id}", tags=["files"])


@router.get("/zip")
def get_zip(run_id: str, request: Request, folder: str = "") -> Response:
    """Download the files below `folder`, or all, as one zip; a log as far as it is written."""
    call = call_of(request)
    run = call.readable_run(run_id)
    below = f"{clean_file_name(folder.rstrip('/'))}/" if folder else ""
    files = [file for file in call.services.store.list_files(run_id) if file.name.startswith(below)]
    if not files:
        raise NotFound(
            f"Run `{run_id}` has no files{f' in {folder[:200]!r}' if folder else ''}.",
            hint=f"`runyard runs files {run_id}` lists its files.",
        )
    name = f"{run_id}-{below.replace('/', '-') or 'files-'}".rstrip("-") + ".zip"
    return zip_answer(name, _packed(call.services, run, files))


def _packed(services: Services, run: Run, files: Sequence[RunFile]) -> Iterator[Packed]:
    for file in files:
        found = as_it_is(services, run, file)
        whole = Window(0, found.size, is_range=False)
        yield Packed(file.name, stat.S_IFREG | 0o644, read_window(services, found, whole), file.updated_at)
