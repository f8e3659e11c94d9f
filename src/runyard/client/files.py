"""Calls about a run's files."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from runyard.client.answers import FilePart, read_record, read_records
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.errors import ProtocolError, SystemFailure
from runyard.core.names import clean_file_name
from runyard.core.plain import to_plain
from runyard.core.records import RunFile
from runyard.core.whole_files import written_beside


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
        body: Dict[str, Any] = {"file": to_plain(file)}
        if attempt is not None:
            body["attempt"] = attempt
        if replace is not None:
            body["replace"] = replace
        return read_record(RunFile, self._transport.request("POST", f"/runs/{quote(run_id)}/files", json=body))

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
            ProtocolError: what came is not what the run holds; `path` is untouched.
        """
        target = os.fspath(path)
        known = expected or self._find_file(run_id, name)
        try:
            with written_beside(target) as beside, open(beside, "xb", buffering=0) as out:
                self._copy(run_id, name, known, out, progress or _ignore)
        except OSError as error:
            if isinstance(error, SystemFailure):
                raise
            raise SystemFailure(
                f"The file `{name}` could not be written to `{target}`.",
                why=str(error),
                hint="Choose another place with output_file_path.",
            ) from error

    def _copy(
        self, run_id: str, name: str, known: Optional[RunFile], out: Any, progress: Callable[[int], None]
    ) -> None:
        # Only downloads need it.
        from hashlib import sha256

        digest, size = sha256(), 0
        with self._transport.stream("GET", _file_path(run_id, name), timeout_s=120.0) as response:
            for piece in response.iter_bytes():
                digest.update(piece)
                size += len(piece)
                _write_all(out, piece)
                progress(size)
        if known is not None and known.sha256 and digest.hexdigest() != known.sha256:
            raise ProtocolError(
                f"The file `{name}` of run `{run_id}` came damaged.",
                why=f"{size} bytes with SHA-256 {digest.hexdigest()} came; {known.size} with {known.sha256} were due.",
                hint="Download it again. If it happens again, the server's disk may be damaged.",
            )

    def _find_file(self, run_id: str, name: str) -> Optional[RunFile]:
        wanted = clean_file_name(name)
        return next((file for file in self.files(run_id) if file.name == wanted), None)


def _file_path(run_id: str, name: str) -> str:
    return f"/runs/{quote(run_id)}/files/{quote(clean_file_name(name), safe=b'/')}"


def _size(headers: Mapping[str, str]) -> int:
    text = headers.get("x-runyard-size", "")
    if not text.isdigit():
        raise ProtocolError("The server did not say how large the file is.", why=f"X-Runyard-Size holds {text[:40]!r}.")
    return int(text)


def _ignore(_done: int) -> None:
    pass


def _write_all(out: Any, piece: bytes) -> None:
    view = memoryview(piece)
    while len(view):
        view = view[out.write(view) :]
