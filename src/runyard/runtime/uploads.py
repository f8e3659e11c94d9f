"""Copy the files that a script uploads into the run folder, so that the script may change or delete them at once."""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import IO, Any, Tuple, Union

from runyard.core.errors import InvalidArgument, StoreUnavailable

Source = Union[str, "os.PathLike[str]", bytes, IO[bytes]]
_NOT_THIS_WAY = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EBADF)
_STEP = 1 << 30


def copy_upload(run_folder: str, source: Source) -> Tuple[str, int]:
    """Return (path relative to the run folder, size) of a new copy. Where the file system can share blocks, it does.

    Raises:
        InvalidArgument: the source is no readable file or binary stream.
        StoreUnavailable: the copy could not be written.
    """
    name = f"uploads/{os.urandom(16).hex()}"
    reader = _open_source(source)
    try:
        size = _copy_beside(reader, f"{run_folder}/{name}")
    except OSError as error:
        raise StoreUnavailable(
            f"The file {_describe(source)} could not be copied into the run folder.",
            why=f"{error.strerror or error} ({run_folder}/uploads).",
            hint=f"Free space below {run_folder} and upload it again.",
        ) from error
    finally:
        if reader is not source:
            reader.close()
    return name, size


def _open_source(source: Source) -> Any:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    if hasattr(source, "read"):
        return _binary(source)
    path = os.fspath(source)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InvalidArgument(
                f"`{path}` cannot be uploaded.", why="It is not a regular file.", hint="Use upload_folder for a folder."
            )
        return open(path, "rb")
    except OSError as error:
        raise InvalidArgument(
            f"`{path}` cannot be uploaded.", why=f"{error.strerror}.", hint="Give the path of a file that can be read."
        ) from error


def _binary(stream: Any) -> Any:
    if isinstance(stream.read(0), bytes):
        return stream
    raise InvalidArgument(
        "A text stream cannot be uploaded.", why="A run's files are bytes.", hint="Open the file with mode 'rb'."
    )


def _copy_beside(reader: Any, path: str) -> int:
    try:
        os.mkdir(os.path.dirname(path), 0o700)
    except FileExistsError:
        pass
    beside = f"{path}.tmp"
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as writer:
            if not _copy_in_kernel(reader, writer):
                _copy_through_memory(reader, writer)
            writer.flush()
            size = os.fstat(writer.fileno()).st_size
        os.rename(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
    return size


def _copy_in_kernel(reader: Any, writer: Any) -> bool:
    """Copy without the bytes passing through here, block for block shared where possible; return whether it went."""
    copy = getattr(os, "copy_file_range", None)
    try:
        source = reader.fileno()
        if copy is None or reader.tell() or not stat.S_ISREG(os.fstat(source).st_mode) or not os.fstat(source).st_size:
            return False  # files of /proc say 0
    except (AttributeError, OSError, ValueError):
        return False
    offset = 0
    while True:
        try:
            copied = copy(source, writer.fileno(), _STEP, offset)
        except OSError as error:
            if offset or error.errno not in _NOT_THIS_WAY:
                raise
            return False
        if not copied:
            return True
        offset += copied


def _copy_through_memory(reader: Any, writer: Any) -> None:
    while True:
        data = reader.read(1 << 20)
        if not data:
            return
        writer.write(data)


def _describe(source: Source) -> str:
    return f"`{os.fspath(source)}`" if isinstance(source, (str, os.PathLike)) else "that the stream holds"
