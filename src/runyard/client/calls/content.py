"""Content by its hash: chunks of files, the trees that name them, snapshots."""

from __future__ import annotations

import os
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
    Union,
)

from runyard.client.decoding import read_answer
from runyard.client.transport import Transport
from runyard.core.errors import InvalidArgument, ProtocolError, error_from_plain
from runyard.core.formats.chunks import BATCH_BYTES, Batcher, Chunk, chunk_id, read_chunks
from runyard.core.formats.frames import iter_frames, pack_frame
from runyard.core.formats.tree import tree_id
from runyard.core.machine.portable import NOCTTY, NONBLOCK, READ
from runyard.core.records import RunFile

T = TypeVar("T")

ASK_AT_ONCE = 20_000  # ids in one question: 1.3 MB
TIMEOUT_S = 120.0  # a body of 8 MiB on a slow line, and the server's disk


class ContentCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._server_id: Optional[str] = None

    def server_id(self) -> str:
        """Return the id of the server that holds the content; asked once."""
        if self._server_id is None:
            self._server_id = read_answer(self._transport.request("GET", "/server"), lambda plain: str(plain["id"]))
        return self._server_id

    def close(self) -> None:
        """Close this thread's connection: a thread that ends would leave it open."""
        self._transport.close()

    def missing(self, ids: Sequence[str]) -> List[str]:
        """Return those chunks that the server does not have."""
        found: List[str] = []
        for start in range(0, len(ids), ASK_AT_ONCE):
            part = list(ids[start : start + ASK_AT_ONCE])
            found += self._ask("/chunks/missing", {"ids": part}, lambda plain: list(plain["missing"]))
        return found

    def put(self, chunks: Iterable[Chunk]) -> None:
        """Send chunks in one request (at most 32 MiB); those that the server has are harmless."""
        self._send("/chunks", chunks)

    def release(self, ids: Sequence[str]) -> None:
        """Take back chunks of an upload that failed: their space is free then, unless another upload needs them."""
        for start in range(0, len(ids), ASK_AT_ONCE):
            self._ask("/chunks/release", {"ids": list(ids[start : start + ASK_AT_ONCE])}, lambda plain: None)

    def fetch(self, ids: Sequence[str]) -> Iterator[Chunk]:
        """Yield (id, bytes) in the order asked for, each checked against its id. Ask for about 8 MiB at a time.

        Raises:
            ProtocolError: the server sent other bytes.
            DamagedContent: the server's disk holds other bytes, or none.
        """
        answer = self._transport.request("POST", "/chunks/fetch", json={"ids": list(ids)}, timeout_s=TIMEOUT_S)
        frames = iter_frames(answer.read())
        for name in ids:
            head, body = next(frames, ({}, memoryview(b"")))
            if "error" in head:
                raise error_from_plain(head["error"])
            data = bytes(body)
            if chunk_id(data) != name:
                raise _wrong_bytes(name)
            yield name, data

    def put_trees(self, trees: Iterable[Chunk]) -> None:
        """Send tree objects, children first.

        Raises:
            MissingContent: they name what the server does not have; `details["missing"]` lists it.
        """
        self._send("/trees", trees)

    def tree(self, root: str) -> Dict[str, bytes]:
        """Return the tree `root` and all trees below it, each checked against its id."""
        answer = self._transport.request("GET", f"/trees/{root}", timeout_s=TIMEOUT_S)
        found: Dict[str, bytes] = {}
        for _, body in iter_frames(answer.read()):
            data = bytes(body)
            found[tree_id(data)] = data
        if root not in found:
            raise _wrong_bytes(root)
        return found

    def put_snapshot(self, root: str, files: int, size_bytes: int) -> str:
        """Record a snapshot whose trees are all there; return its id."""
        body = {"root": root, "files": files, "size_bytes": size_bytes}
        return self._ask("/snapshots", body, lambda plain: str(plain["id"]))

    def find_root(self, snapshot_id: str) -> str:
        """Return the root tree of a snapshot."""
        answer = self._transport.request("GET", f"/snapshots/{snapshot_id}")
        return read_answer(answer, lambda plain: str(plain["root"]))

    def upload_file(
        self,
        path: Union[str, int, os.PathLike[str]],
        *,
        name: str = "",
        progress: Optional[Callable[[int, str], None]] = None,
    ) -> RunFile:
        """Send a file's content, as far as the server lacks it, and return how a run names it.

        The file is read once in chunks of 4 MiB (again when it changes meanwhile). `path` may be an open descriptor.
        `progress` is called with the bytes of each chunk, and the name.

        Raises:
            InvalidArgument: it is no regular file.
            OSError: it cannot be opened or read.
        """
        if isinstance(path, int):
            return self._upload(path, name, progress)
        fd = os.open(path, READ | NONBLOCK | NOCTTY)
        try:
            return self._upload(fd, name, progress)
        finally:
            os.close(fd)

    def send_missing(self, chunks: Sequence[Chunk], *, ask_above: int = 0) -> None:
        """Send those of a batch that the server lacks; below `ask_above` bytes sending is cheaper than asking."""
        if sum(len(data) for _, data in chunks) > ask_above:
            wanted = set(self.missing([name for name, _ in chunks]))
            chunks = [chunk for chunk in chunks if chunk[0] in wanted]
        if chunks:
            self.put(chunks)

    def _upload(self, fd: int, name: str, progress: Optional[Callable[[int, str], None]]) -> RunFile:
        import stat  # most processes never upload

        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise InvalidArgument(
                f"`{name or fd}` cannot be uploaded.",
                why="It is no regular file (a folder, FIFO, socket or device).",
                hint="Name a file; a folder goes with `upload_folder`.",
            )
        batcher = Batcher()
        seen: Set[str] = set()

        def take(chunk: str, data: bytes) -> None:
            if progress is not None:
                progress(len(data), name)
            if chunk in seen:
                return
            seen.add(chunk)
            full = batcher.push(chunk, data)
            if full is not None:
                self.send_missing(full, ask_above=BATCH_BYTES // 32)

        found = read_chunks(fd, take, whole=True)
        self.send_missing(batcher.flush(), ask_above=BATCH_BYTES // 32)
        return RunFile(name=name, size=found.size, sha256=found.sha256, chunks=found.chunks)

    def _send(self, path: str, items: Iterable[Tuple[str, bytes]]) -> None:
        body = [piece for name, data in items for piece in pack_frame({"id": name}, data)]
        answer = self._transport.request("POST", path, body=body, timeout_s=TIMEOUT_S)
        read_answer(answer, lambda plain: plain["stored"])  # else nothing was stored

    def _ask(self, path: str, body: Mapping[str, object], build: Callable[[Any], T]) -> T:
        return read_answer(self._transport.request("POST", path, json=body, timeout_s=TIMEOUT_S), build)


def _wrong_bytes(name: str) -> ProtocolError:
    return ProtocolError(
        f"The server did not send the content {name}.",
        why="What came has another SHA-256.",
        hint="Try again. If it stays, the server's disk may be damaged: look at its log.",
    )
