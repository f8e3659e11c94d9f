"""Files that come as the body of one request, of any size: cut into chunks and stored while they arrive.

About 12 MiB of a file are in memory at a time. Nothing is named here: the caller names the file that it gets.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterable

from starlette.concurrency import run_in_threadpool

from runyard.core.errors import InvalidArgument, RunyardError
from runyard.core.formats.chunks import CHUNK_SIZE, Batcher, Chunk, chunk_id
from runyard.core.names import clean_file_name
from runyard.core.records import RunFile
from runyard.server.http.calls import RequestContext

logger = logging.getLogger(__name__)


async def receive_file(
    call: RequestContext, name: str, pieces: AsyncIterable[bytes], *, announced: int | None = None
) -> RunFile:
    """Store a body as content and return it as a file that nothing names yet.

    Disk space is checked before the first byte is stored, for `announced` bytes, and again before each batch. What was
    stored of a body that does not arrive whole is taken back.

    Raises:
        InvalidArgument: the name cannot be one of a file, or the body has another size than was announced.
        TooLarge: the disk is smaller than that.
        StoreUnavailable: not so much space is free now.
    """
    upload = _IncomingFile(call, clean_file_name(name), announced)
    await run_in_threadpool(upload.check_room, announced or 0)
    try:
        async for piece in pieces:
            for batch in upload.add(piece):
                await run_in_threadpool(upload.store, batch)
        await run_in_threadpool(upload.store, upload.rest())
        return upload.file()
    except BaseException:  # also a client that went away in the middle
        upload.take_back()
        raise


async def take_back(call: RequestContext, file: RunFile) -> None:
    """Free the content of a received file that was not named after all, because of a quota, say."""
    await run_in_threadpool(_release, call, file.chunks)


class _IncomingFile:
    """The state of one body on its way in. Used by one request, one thread at a time."""

    def __init__(self, call: RequestContext, name: str, announced: int | None) -> None:
        self._call = call
        self._name = name
        self._announced = announced
        self._rest = bytearray()
        self._batcher = Batcher()
        self._chunks: list[str] = []
        self._whole = hashlib.sha256()
        self._size = 0

    def add(self, piece: bytes) -> list[list[Chunk]]:
        """Take bytes in; return the batches that are full now."""
        self._size += len(piece)
        if self._announced is not None and self._size > self._announced:
            raise self._wrong_size()
        self._rest += piece
        full: list[list[Chunk]] = []
        while len(self._rest) >= CHUNK_SIZE:
            batch = self._push(bytes(self._rest[:CHUNK_SIZE]))
            del self._rest[:CHUNK_SIZE]
            if batch:
                full.append(batch)
        return full

    def rest(self) -> list[Chunk]:
        """Return the last batch, once the body has ended."""
        if self._announced is not None and self._size != self._announced:
            raise self._wrong_size()
        last = self._push(bytes(self._rest)) if self._rest else None
        return last or self._batcher.flush()

    def store(self, batch: list[Chunk]) -> None:
        if batch:
            self.check_room(sum(len(data) for _, data in batch))
            self._call.services.content.put_chunks(batch, uploader=repr(self._call.principal))

    def check_room(self, size: int) -> None:
        self._call.services.room.check(size, f"The file {self._name[:200]!r}")

    def file(self) -> RunFile:
        return RunFile(self._name, self._size, sha256=self._whole.hexdigest(), chunks=list(self._chunks))

    def take_back(self) -> None:
        """Free what was stored. Called where the request may be cancelled already, so it waits for no other task."""
        try:
            _release(self._call, self._chunks)
        except RunyardError as error:  # the collector frees it later; the first error is the one to tell
            logger.warning("The content of an upload that failed stays for a while: %s", error)

    def _push(self, data: bytes) -> list[Chunk] | None:
        name = chunk_id(data)
        self._chunks.append(name)
        self._whole.update(data)
        return self._batcher.push(name, data)

    def _wrong_size(self) -> InvalidArgument:
        return InvalidArgument(
            f"The file {self._name[:200]!r} did not arrive as announced.",
            why=f"Its length was said to be {self._announced} bytes; {self._size} came.",
            hint="Send it again.",
        )


def _release(call: RequestContext, chunks: list[str]) -> None:
    services, ids = call.services, list(dict.fromkeys(chunks))
    if ids:
        # The upload filled the disk, as a rule, and the index needs room to forget its chunks.
        services.engine.reserve.spend(lambda: services.collecting.take_back(ids, repr(call.principal)))
