"""Sends the files of imported runs and models: content by its hash, so that equal ones travel once."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import BinaryIO, Callable, Iterator, List, NamedTuple, Sequence, Tuple

from runyard.client.client import Client
from runyard.core.errors import RunyardError, UserError
from runyard.core.formats.chunks import Batcher, chunk_id
from runyard.core.records import RunFile
from runyard.imports.records import SourceFile

ALL, NONE = "all", "none"
SMALL_BYTES = 1 << 20  # such files are read whole, and travel many in one request
AT_ONCE = 500  # files that one request names


class Uploaded(NamedTuple):
    """What became of some files."""

    files: int
    bytes: int
    faults: List[str]  # of those that could not be read or were refused


def wanted_files(files: Sequence[SourceFile], which: str) -> List[SourceFile]:
    """Return the files that `all`, `none` or a glob such as `*.onnx` means."""
    if which == NONE:
        return []
    if which == ALL:
        return list(files)
    return [file for file in files if fnmatchcase(file.name, which) or fnmatchcase(file.name, f"*/{which}")]


class FileSender:
    """Used by many threads at once."""

    def __init__(self, client: Client, progress: Callable[[int], None]) -> None:
        self._client = client
        self._progress = progress

    def send_to_run(self, run_id: str, files: Sequence[SourceFile]) -> Uploaded:
        """Send the files of a run and name them there.

        Raises:
            RunyardError: the server is away.
        """
        count, size, faults = 0, 0, []
        for sent, unread in self.send(files):
            faults += unread
            for file, error in zip(sent, self._client.runs.put_files(run_id, sent) if sent else ()):
                if error is None:
                    count, size = count + 1, size + file.size
                else:
                    faults.append(f"file {file.name[:200]}: {error.what}")
        return Uploaded(count, size, faults)

    def send(self, files: Sequence[SourceFile]) -> Iterator[Tuple[List[RunFile], List[str]]]:
        """Send content; yield what a run or a model then names, some at a time, and faults of files that have none."""
        for at in range(0, len(files), AT_ONCE):
            sent: List[RunFile] = []
            faults: List[str] = []
            batcher = Batcher()
            for file in files[at : at + AT_ONCE]:
                try:
                    sent.append(self._send_one(file, batcher))
                except (OSError, ValueError) as error:
                    if isinstance(error, RunyardError) and not isinstance(error, UserError):
                        raise
                    faults.append(f"file {file.name[:200]}: {getattr(error, 'strerror', None) or error}")
            self._client.content.send_missing(batcher.flush(), ask_above=SMALL_BYTES)
            yield sent, faults

    def _send_one(self, file: SourceFile, batcher: Batcher) -> RunFile:
        if file.size > SMALL_BYTES:
            return self._send_large(file, file.open())
        with file.open() as content:
            data = content.read(SMALL_BYTES + 1)
            if len(data) > SMALL_BYTES:  # it has grown
                return self._send_large(file, file.open())
        self._progress(len(data))
        if not data:
            return RunFile(name=file.name, size=0, sha256=chunk_id(b""), chunks=[])
        chunk = chunk_id(data)
        full = batcher.push(chunk, data)
        if full is not None:
            self._client.content.send_missing(full, ask_above=SMALL_BYTES)
        return RunFile(name=file.name, size=len(data), sha256=chunk, chunks=[chunk])

    def _send_large(self, file: SourceFile, content: BinaryIO) -> RunFile:
        with content:
            return self._client.content.upload_file(
                content.fileno(), name=file.name, progress=lambda amount, _: self._progress(amount)
            )
