"""Calls about a run's files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from runyard.client.decoding import FilePart, read_answer, read_record, read_records
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.errors import (
    DamagedContent,
    ProtocolError,
    RunyardError,
    ServerUnreachable,
    SystemFailure,
    error_from_plain,
)
from runyard.core.formats.frames import iter_frames
from runyard.core.formats.plain import to_plain
from runyard.core.machine.files import atomic_write
from runyard.core.names import clean_file_name
from runyard.core.records import RunFile

_SMALL_BYTES = 1 << 20
_BATCH_BYTES = 8 << 20
_BATCH_FILES = 500
_MOST_RESUMES = 5  # of a download that is cut off again and again
_BATCH_TIMEOUT_S = 120.0  # many files at once, and the server's disk


class FileCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def files(self, run_id: str) -> List[RunFile]:
        """Return the run's files, sorted by name, without their chunks."""
        return read_records(RunFile, self._transport.request("GET", f"/runs/{quote(run_id)}/files"))

    def read_file(
        self, run_id: str, name: str, offset: int = 0, limit: Optional[int] = None, wait_s: Optional[float] = None
    ) -> FilePart:
        """Return bytes from `offset` on. With `wait_s`, wait that long (20 s at most) for a log to grow beyond it."""
        query = {"offset": offset, "limit": limit, "wait_s": wait_s}
        timeout_s = self._transport.timeout_s + (wait_s or 0.0)
        response = self._transport.request("GET", _file_path(run_id, name), query=query, timeout_s=timeout_s)
        return FilePart(response.read(), _size(response.headers), response.headers.get("x-runyard-complete") == "1")

    def put_file(
        self, run_id: str, file: RunFile, attempt: Optional[int] = None, replace: Optional[bool] = None
    ) -> RunFile:
        """Name content that the server already holds as a file of the run.

        Raises:
            MissingContent: the server lacks chunks.
        """
        body: Dict[str, object] = {"file": to_plain(file)}
        if attempt is not None:
            body["attempt"] = attempt
        if replace is not None:
            body["replace"] = replace
        return read_record(RunFile, self._transport.request("POST", f"/runs/{quote(run_id)}/files", json=body))

    def put_files(
        self, run_id: str, files: Sequence[RunFile], attempt: Optional[int] = None, replace: Optional[bool] = None
    ) -> List[Optional[RunyardError]]:
        """Name content that the server already holds as files of the run, 1000 at most.

        Returns for each file, in its place, the error that refused it, or None. A file that is refused (its name, or
        chunks that are missing) does not keep the others out.
        """
        named = [{"name": file.name, "size": file.size, "sha256": file.sha256, "chunks": file.chunks} for file in files]
        body: Dict[str, object] = {"files": named}
        if attempt is not None:
            body["attempt"] = attempt
        if replace is not None:
            body["replace"] = replace
        path = f"/runs/{quote(run_id)}/files/batch"
        answer = self._transport.request("POST", path, json=body, timeout_s=_BATCH_TIMEOUT_S)
        return read_answer(answer, lambda plain: _refusals(plain, len(files)))

    def fetch_files(self, run_id: str, files: Sequence[RunFile]) -> Iterator[Union[bytes, RunyardError]]:
        """Yield the bytes of some small files in their order, each checked. Ask for 1000 and about 8 MiB at most.

        A file whose content is damaged on the server yields the error that says so; the others come all the same.

        Raises:
            DamagedContent: the server sent other bytes.
        """
        from runyard.core.formats.chunks import chunk_id  # only downloads need it

        body = {"names": [file.name for file in files]}
        path = f"/runs/{quote(run_id)}/files/fetch"
        answer = self._transport.request("POST", path, json=body, timeout_s=_BATCH_TIMEOUT_S)
        frames = iter_frames(answer.read())
        for file in files:
            head, content = next(frames, ({}, memoryview(b"")))
            if "error" in head:
                yield error_from_plain(head["error"])
                continue
            data = bytes(content)
            if file.sha256:
                _check_digest(run_id, file.name, file, chunk_id(data), len(data))
            yield data

    def download_many(
        self,
        run_id: str,
        places: Sequence[Tuple[RunFile, str]],
        *,
        done: Optional[Callable[[str], None]] = None,
        progress: Optional[Callable[[int, str], None]] = None,
    ) -> None:
        """Write files, as `files()` lists them, each to its path as `download` does; small ones come together.

        Args:
            done: called with each path once its file is there.
            progress: called now and then with the bytes that have come so far, and the name of the file.

        Raises:
            DamagedContent: the content of a file is damaged on the server; all others are written.
        """
        told = done or _ignore_path
        faults: List[RunyardError] = []
        came = 0
        for batch in _batches(places):
            before, name = came, batch[0][0].name
            if len(batch) == 1:
                count = partial(_count, progress, before, name) if progress is not None else None
                try:
                    self.download(run_id, name, batch[0][1], expected=batch[0][0], progress=count)
                    told(batch[0][1])
                except DamagedContent as error:
                    faults.append(error)
                came += batch[0][0].size
                continue
            for (file, path), data in zip(batch, self.fetch_files(run_id, [file for file, _ in batch])):
                if isinstance(data, RunyardError):
                    faults.append(data)
                    continue
                with _writing(file.name, path) as out:
                    _write_all(out, data)
                told(path)
                came += file.size
                if progress is not None:
                    progress(came, file.name)
        if faults:
            raise faults[0]

    def download(
        self,
        run_id: str,
        name: str,
        path: Union[str, os.PathLike[str]],
        *,
        expected: Optional[RunFile] = None,
        progress: Optional[Callable[[int], None]] = None,
    ) -> None:
        """Write the file to `path` and nowhere else: beside it first, then renamed when its SHA-256 is right.

        Args:
            expected: the file as `files()` lists it, when the caller has it; otherwise it is asked for.
            progress: called now and then with the bytes that have come so far.

        Raises:
            DamagedContent: what came is not what the run holds; `path` is untouched.
        """
        target = os.fspath(path)
        known = expected or self._find_file(run_id, name)
        with _writing(name, target) as out:
            self._copy(run_id, name, known, out, progress or _ignore)

    def _copy(
        self, run_id: str, name: str, known: Optional[RunFile], out: Any, progress: Callable[[int], None]
    ) -> None:
        # Only downloads need it.
        from hashlib import sha256

        digest, size = sha256(), 0
        for resumes_left in reversed(range(_MOST_RESUMES)):
            begun_at = size
            try:
                query = {"offset": size} if size else None
                with self._transport.stream("GET", _file_path(run_id, name), query=query, timeout_s=120.0) as response:
                    for piece in response.iter_bytes():
                        digest.update(piece)
                        size += len(piece)
                        _write_all(out, piece)
                        progress(size)
                break
            except ServerUnreachable:  # cut off: asked from there on, the server says why, or goes on
                if size == begun_at or not resumes_left:
                    raise
        _check_digest(run_id, name, known, digest.hexdigest(), size)

    def _find_file(self, run_id: str, name: str) -> Optional[RunFile]:
        wanted = clean_file_name(name)
        return next((file for file in self.files(run_id) if file.name == wanted), None)


def _count(progress: Callable[[int, str], None], before: int, name: str, size: int) -> None:
    progress(before + size, name)


@contextmanager
def _writing(name: str, target: str) -> Iterator[Any]:
    """Give a file to write to, which takes the place of `target` when the block ends well."""
    try:
        with atomic_write(target) as beside, open(beside, "xb", buffering=0) as out:
            yield out
    except OSError as error:
        if isinstance(error, SystemFailure):
            raise
        raise SystemFailure(
            f"The file `{name}` could not be written to `{target}`.",
            why=str(error),
            hint="Choose another place with output_file_path.",
        ) from error


def _batches(places: Sequence[Tuple[RunFile, str]]) -> Iterator[List[Tuple[RunFile, str]]]:
    """Yield files that one request fetches, in their order; large ones and logs alone."""
    batch: List[Tuple[RunFile, str]] = []
    size = 0
    for file, path in places:
        if file.kind != "blob" or not file.sha256 or file.size > _SMALL_BYTES:
            yield [(file, path)]
            continue
        if batch and (len(batch) >= _BATCH_FILES or size + file.size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((file, path))
        size += file.size
    if batch:
        yield batch


def _check_digest(run_id: str, name: str, known: Optional[RunFile], digest: str, size: int) -> None:
    if known is not None and known.sha256 and digest != known.sha256:
        raise DamagedContent(
            f"The file `{name}` of run `{run_id}` came damaged.",
            why=f"{size} bytes with SHA-256 {digest} came; {known.size} with {known.sha256} were due.",
            hint="Download it again. If it happens again, the server's disk may be damaged.",
        )


def _refusals(plain: Mapping[str, Any], count: int) -> List[Optional[RunyardError]]:
    errors = {int(refused["index"]): error_from_plain(refused["error"]) for refused in plain["refused"]}
    return [errors.get(index) for index in range(count)]


def _file_path(run_id: str, name: str) -> str:
    return f"/runs/{quote(run_id)}/files/{quote(clean_file_name(name), safe=b'/')}"


def _size(headers: Mapping[str, str]) -> int:
    text = headers.get("x-runyard-size", "")
    if not text.isdigit():
        raise ProtocolError("The server did not say how large the file is.", why=f"X-Runyard-Size holds {text[:40]!r}.")
    return int(text)


def _ignore(_done: int) -> None:
    pass


def _ignore_path(_path: str) -> None:
    pass


def _write_all(out: Any, piece: bytes) -> None:
    view = memoryview(piece)
    while len(view):
        view = view[out.write(view) :]
