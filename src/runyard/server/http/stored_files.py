"""A file that a client names is content that the server holds: looked at before the name is given."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from runyard.artifacts.content import size_of
from runyard.core.errors import DamagedContent, InvalidArgument, NotFound, RunyardError, UserError
from runyard.core.names import check_content_id, clean_file_name
from runyard.core.records import RunFile
from runyard.server.services import Services

logger = logging.getLogger(__name__)


def check_stored(services: Services, file: RunFile) -> RunFile:
    """Return the file under its canonical name.

    Raises:
        MissingContent: some of its chunks are not stored.
        InvalidArgument: it is no stored content, or its size is wrong.
    """
    return _checked(file, services.content.chunk_sizes(_chunks_of(file)))


def check_many_stored(services: Services, files: Sequence[RunFile]) -> list[RunFile | UserError]:
    """Return each file under its canonical name, or what is wrong with it; the index is asked once for all.

    A file that is refused does not keep the others out.
    """
    chunks: list[str] = []
    faults: dict[int, UserError] = {}
    for at, file in enumerate(files):
        try:
            chunks += _chunks_of(file)
        except UserError as error:
            faults[at] = error
    sizes = services.content.chunk_sizes(chunks)
    return [faults.get(at) or _try_one(file, sizes) for at, file in enumerate(files)]


def _try_one(file: RunFile, sizes: Mapping[str, int]) -> RunFile | UserError:
    try:
        return _checked(file, sizes)
    except UserError as error:
        return error


def _chunks_of(file: RunFile) -> list[str]:
    if file.kind != "blob":
        raise InvalidArgument("Only stored content can be named as a file; logs are shipped.")
    for chunk in file.chunks:
        check_content_id(chunk)
    if file.sha256 is not None:
        check_content_id(file.sha256)
    return file.chunks


def _checked(file: RunFile, sizes: Mapping[str, int]) -> RunFile:
    held = size_of(file.chunks, sizes)
    if held != file.size:
        raise InvalidArgument(f"The file {file.name[:200]!r} should have {file.size} bytes, its chunks have {held}.")
    return replace(file, name=clean_file_name(file.name), complete=True, updated_at=None)


def naming_damage(services: Services, run_id: str, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a run's file piece by piece; where its content is damaged or gone, name the file in the error and the run.

    Raises:
        DamagedContent: it is.
    """
    try:
        yield from pieces
    except (NotFound, DamagedContent) as error:
        found = damaged_file(name, error)
        logger.error("run %s: %s", run_id, found)
        note_damage(services, run_id, found)
        raise found from error


def note_damage(services: Services, run_id: str, error: DamagedContent) -> None:
    """Show a warning on the run, once."""
    warning = {"source": "server", "message": f"{error.what} {error.why}"}
    run = services.store.find_run(run_id)
    if run is not None and warning not in run.warnings:
        services.store.update_run(run_id, warnings_add=[warning])


def damaged_file(name: str, error: RunyardError) -> DamagedContent:
    """Return the error of a file whose stored bytes are damaged or gone."""
    state = "damaged" if isinstance(error, DamagedContent) else "missing"
    return DamagedContent(
        f"The content of the file `{name[:200]}` is {state} on the server.",
        why=f"{error.what} {error.why}".strip(),
        hint=error.hint or "Bring the folder `artifacts` of the server's home back from a backup, then download again.",
    )
