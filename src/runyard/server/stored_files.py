"""A file that a client names is content that the server holds: looked at before the name is given."""

from __future__ import annotations

from dataclasses import replace

from runyard.core.errors import InvalidArgument
from runyard.core.names import check_content_id
from runyard.core.records import RunFile
from runyard.server.filenames import file_name
from runyard.server.services import Services


def check_stored(services: Services, file: RunFile) -> RunFile:
    """Return the file under its canonical name.

    Raises:
        MissingContent: some of its chunks are not stored.
        InvalidArgument: it is no stored content, or its size is wrong.
    """
    if file.kind != "blob":
        raise InvalidArgument("Only stored content can be named as a file; logs are shipped.")
    for chunk in file.chunks:
        check_content_id(chunk)
    if file.sha256 is not None:
        check_content_id(file.sha256)
    held = services.content.file_size(file.chunks)
    if held != file.size:
        raise InvalidArgument(f"The file {file.name[:200]!r} should have {file.size} bytes, its chunks have {held}.")
    return replace(file, name=file_name(file.name), complete=True, updated_at=None)
