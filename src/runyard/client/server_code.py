"""The archive of a wheel, and the folder below the home that it is unpacked into. A checkout has folders instead.

It holds what no submit and no training process imports: servers, nodes, commands, and rooms of the SDK that few use.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO, Iterator, List, Sequence, Tuple, cast

from runyard import __version__
from runyard.core.config.paths import server_folder

ARCHIVE = "runyard/server_code.tar.xz"  # scripts/hatch_wheel.py writes it


def source_folder() -> str:
    """Return the folder that holds the packages `runyard` and `azureml` of this process."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def is_archived() -> bool:
    return os.path.exists(os.path.join(source_folder(), ARCHIVE))


def has_server_code() -> bool:
    """Whether a server can be started with this copy of Runyard. Runs get one without."""
    return is_archived() or os.path.isdir(os.path.join(source_folder(), "runyard", "server"))


def iter_unpacked(package: str) -> Iterator[str]:
    """Yield the folder of a package with the modules that this installed client keeps in its archive, unpacked by the
    first import that looks for one. A checkout has none.
    """
    from runyard.core.config.settings import read_settings  # for an import that finds nothing else

    if not is_archived():
        return
    try:
        folder = code_folder(read_settings().home)
    except OSError as error:
        folder = _folder_of_this_process(error)
    yield os.path.join(folder, *package.split("."))


_of_this_process = ""


def _folder_of_this_process(error: OSError) -> str:
    """Unpack the archive where a home cannot be written: on a full disk, `runyard doctor` has to run."""
    global _of_this_process
    if _of_this_process:
        return _of_this_process
    import atexit  # as above
    import shutil
    import tempfile

    try:
        _of_this_process = tempfile.mkdtemp(prefix="runyard-")
        atexit.register(shutil.rmtree, _of_this_process, ignore_errors=True)
        _unpack(os.path.join(source_folder(), ARCHIVE), _of_this_process)
    except OSError:
        raise ImportError(f"The archived part of Runyard could not be unpacked: {error}") from error
    return _of_this_process


def code_folder(home: Path) -> str:
    """Return a folder that holds this code as files and nothing else of the folder where it is installed.

    The server's path must not have the client's other packages: they are of another Python, or of other versions. An
    installed client is copied and its archive unpacked, so that its server and runs outlive its environment; a checkout
    is linked. Concurrent callers get the same folder.

    Raises:
        OSError: it cannot be written.
    """
    source = source_folder()
    record = next((name for name in sorted(os.listdir(source)) if _is_record(name)), "")
    files = _recorded_files(os.path.join(source, record, "RECORD")) if record else []
    if not files and is_archived():
        files = list(_iter_files(source))  # an installer that keeps no record
    parent = server_folder(home) / "code"
    os.makedirs(str(home), 0o700, exist_ok=True)  # by itself: makedirs gives parents the mode of the umask
    if not files:
        return _link_code(source, parent / f"{__version__}-{_short_hash(source)}")
    folder = parent / f"{__version__}-{_short_hash(repr(files))}"
    if not folder.exists():
        kept = [f"{record}/RECORD", f"{record}/METADATA"] if record else []
        _copy_code(source, [name for name, _ in files] + kept, folder)
    return str(folder)


def _recorded_files(path: str) -> List[Tuple[str, str]]:
    """Return the files of an installed client, each with its hash: what pip wrote down."""
    try:
        with open(path, encoding="utf-8") as lines:
            found = [line.split(",") for line in lines]
    except OSError:
        return []
    return sorted(
        (parts[0], parts[1]) for parts in found
        if parts[0].startswith(("runyard/", "azureml/")) and not parts[0].endswith(".pyc")
    )  # fmt: skip


def _iter_files(source: str) -> Iterator[Tuple[str, str]]:
    """Yield the files of both packages, each with its size and time."""
    for package in ("azureml", "runyard"):
        for root, folders, names in os.walk(os.path.join(source, package)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = os.path.join(root, name)
                facts = os.stat(path)
                yield os.path.relpath(path, source).replace(os.sep, "/"), f"{facts.st_size} {facts.st_mtime_ns}"


def _copy_code(source: str, names: Sequence[str], folder: Path) -> None:
    import shutil  # once per version

    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(str(beside), ignore_errors=True)  # of a process that was killed here
    try:
        for name in names:
            if name == ARCHIVE:
                _unpack(os.path.join(source, name), str(beside))
                continue
            target = os.path.join(str(beside), name)
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            shutil.copy2(os.path.join(source, name), target)
        os.rename(str(beside), str(folder))
    except OSError:
        shutil.rmtree(str(beside), ignore_errors=True)
        if not folder.exists():  # else another process was faster
            raise


def _unpack(path: str, folder: str) -> None:
    import tarfile  # as above

    with _open_xz(path) as data, tarfile.open(fileobj=data, mode="r|") as archive:
        for entry in archive:
            file = archive.extractfile(entry)
            if file is None:
                continue
            target = os.path.join(folder, *entry.name.split("/"))
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            with open(target, "wb") as copy:
                copy.write(file.read())


def _open_xz(path: str) -> IO[bytes]:
    """Open a compressed file. For a Python that was built without liblzma, the program `xz` decompresses it."""
    try:
        import lzma
    except ImportError:
        return io.BytesIO(_run_xz(path))
    return cast("IO[bytes]", lzma.open(path))


def _run_xz(path: str) -> bytes:
    import subprocess

    try:
        done = subprocess.run(["xz", "--decompress", "--stdout", path], stdout=subprocess.PIPE, check=False)
    except FileNotFoundError:
        raise OSError(
            "this Python was built without the module lzma, and there is no program `xz`. "
            "Install xz (Debian: apt install xz-utils), or use another Python."
        ) from None
    if done.returncode:
        raise OSError(f"`xz --decompress {path}` exited with {done.returncode}")
    return done.stdout


def _link_code(source: str, folder: Path) -> str:
    os.makedirs(str(folder), 0o700, exist_ok=True)
    for name in ("runyard", "azureml"):
        link = str(folder / name)
        if not os.path.exists(link):
            beside = f"{link}.{os.getpid()}"
            os.symlink(os.path.join(source, name), beside)
            os.replace(beside, link)
    return str(folder)


def _is_record(name: str) -> bool:
    return name.startswith("runyard-") and name.endswith(".dist-info")


def _short_hash(text: str) -> str:
    import zlib  # as above; `hashlib` takes a command 5 ms to load

    return f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}"
