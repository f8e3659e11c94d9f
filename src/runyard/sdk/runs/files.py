"""Files and snapshots of a run: upload, list, download; store a source folder, write it as a zip.

A process that has the run's journal uploads through the journal. Any other process sends the content over HTTP, then
the name.
"""

from __future__ import annotations

import io
import os
from itertools import takewhile
from typing import IO, TYPE_CHECKING, Callable, Dict, List, Optional, Sequence, Tuple, Union

from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.names import clean_file_name, stored_file_name, true_file_name
from runyard.core.records import SNAPSHOT_PROPERTY
from runyard.sdk.exceptions import SnapshotException, UserErrorException
from runyard.sdk.runs.details import list_logs

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core.records import RunFile
    from runyard.sdk.runs.run import Run

Source = Union[str, "os.PathLike[str]", IO[bytes]]
SMALL_BYTES = 1 << 20  # files up to this size travel in batches
BATCH_FILES = 500
Count = Callable[[int, str], None]  # bytes more, and of which file
ARTIFACTS = "workspaceartifactstore"  # Azure's name for where the files of runs are


def upload(run: Run, name: str, source: Source) -> None:
    """Store a file or binary stream as the run's file `name`."""
    if isinstance(source, io.TextIOBase):
        raise UserErrorException("path_or_stream is a text stream; open it in binary mode, open(path, 'rb').")
    if run._writes_here():
        run._journal().upload(name, source)
        return
    if hasattr(source, "read"):
        put_bytes(run._client, run.id, name, source.read(), replace=False)
        return
    path = os.fspath(source)
    if not os.path.isfile(path):
        raise _no_file(path)
    put_paths(run._client, run.id, [(name, path)])


def upload_many(run: Run, files: Sequence[Tuple[str, str]]) -> None:
    """Store files by (name, path), in their order up to one that fails."""
    if run._writes_here():
        for name, path in files:
            upload(run, name, path)
        return
    good = list(takewhile(lambda file: os.path.isfile(file[1]), files))
    put_paths(run._client, run.id, good)
    if len(good) < len(files):
        raise _no_file(os.fspath(files[len(good)][1]))


def below(name: str, path: str) -> List[Tuple[str, str]]:
    """Return (name, path) of all files below the folder `path`, named under `name/`, the tree kept."""
    if not os.path.isdir(path):
        raise UserErrorException(f"The folder {path!r} does not exist (looked in {os.getcwd()}).")
    prefix = clean_file_name(name.rstrip("/"))
    found = []
    for folder, folders, files in os.walk(path):
        folders.sort()
        for file in sorted(files):
            source = os.path.join(folder, file)
            found.append((stored_file_name(f"{prefix}/{os.path.relpath(source, path)}"), source))
    return found


def copy_to_datastore(run: Run, datastore_name: str, sources: Sequence[Tuple[str, Source]]) -> List[Source]:
    """Put files, by (name, path or stream), on a datastore where Azure puts a run's; return sources to read again.

    Raises:
        UserErrorException: there is no such datastore, or a file cannot be read.
    """
    import tempfile

    from runyard.sdk.data.datastore import Datastore  # few runs name one

    if datastore_name == ARTIFACTS:
        return [source for _, source in sources]
    datastore = Datastore(run.experiment.workspace, datastore_name)
    again: List[Source] = []
    for name, source in sources:
        folder, _, base = f"ExperimentRun/dcid.{run.id}/{name}".rpartition("/")
        with tempfile.TemporaryDirectory(prefix="runyard-upload-") as scratch:
            path = os.path.join(scratch, base)
            if isinstance(source, (str, os.PathLike)):
                if not os.path.isfile(source):
                    raise _no_file(os.fspath(source))
                os.symlink(os.path.abspath(source), path)
                again.append(source)
            elif not isinstance(source, io.TextIOBase):
                content = source.read()
                with open(path, "wb") as file:
                    file.write(content)
                again.append(io.BytesIO(content))
            else:
                return [source for _, source in sources]  # which `upload` refuses
            datastore.upload_files([path], target_path=folder, overwrite=True, show_progress=False)
    return again


def store_bytes(run: Run, name: str, content: bytes) -> None:
    """Store `content` as the run's file `name`, in place of one that is there."""
    if run._writes_here():
        run._journal().upload(name, content)
    else:
        put_bytes(run._client, run.id, name, content)


def list_files(run: Run) -> List[RunFile]:
    """Return the files of the run, those that this process has just stored among them."""
    run._flush_own()
    return run._client.runs.files(run.id)


def download_file(run: Run, name: str, target: Optional[str]) -> None:
    """Write the run's file `name` to `target`: a file, a folder, or here when not given."""
    clean_name = clean_file_name(name)
    files = {file.name: file for file in list_files(run)}
    file = files.get(clean_name) or files.get(stored_file_name(name))
    if file is None:
        raise NotFound(
            f"Run `{run.id}` has no file `{name}`.",
            why=f"Its files: {_shortened(list(files))}.",
            hint="run.get_file_names() lists them all.",
        )
    path = _download_path(true_file_name(file.name), target)
    _download(run, [(file, path)])


def download_files(
    run: Run, prefix: str, output_directory: str, output_paths: Optional[Sequence[str]], *, append_prefix: bool
) -> None:
    """Write all files whose names start with `prefix` below `output_directory`, or to `output_paths` one by one."""
    names = [(file, true_file_name(file.name)) for file in list_files(run)]
    chosen = [(file, name) for file, name in names if name.startswith(prefix)]
    if output_paths is None:
        below = [name if append_prefix else _without_prefix(name, prefix) for _, name in chosen]
        output_paths = [os.path.join(output_directory, path) for path in below]
    if len(output_paths) != len(chosen):
        raise UserErrorException(f"output_paths has {len(output_paths)} paths for {len(chosen)} files.")
    _download(run, [(file, path) for (file, _), path in zip(chosen, output_paths)])


def _download(run: Run, places: Sequence[Tuple[RunFile, str]]) -> None:
    from runyard.core.machine.progress import Progress  # most processes download nothing

    with Progress("downloading", sum(file.size for file, _ in places)) as progress:
        run._client.runs.download_many(run.id, places, progress=progress.step)


def download_logs(run: Run, folder: str) -> List[str]:
    """Write each log of the run below `folder` and return the paths."""
    places = [(file, os.path.join(folder, true_file_name(file.name))) for file in list_logs(run)]
    _download(run, places)
    return [path for _, path in places]


def put_path(
    client: Client, run_id: str, name: str, path: str, *, replace: bool = False, progress: Optional[Count] = None
) -> None:
    """Store the file `path` as the run's file `name`.

    Raises:
        InvalidArgument: it cannot be read.
        Conflict: the run has another file of that name, and `replace` is false.
    """
    try:
        _put(client, run_id, name, path, replace=replace, progress=progress)
    except OSError as error:
        if error.errno is None:  # a lost connection, not the file
            raise
        raise InvalidArgument(
            f"`{path}` cannot be uploaded.", why=f"{error.strerror}.", hint="Give the path of a file that can be read."
        ) from error


def put_paths(client: Client, run_id: str, files: Sequence[Tuple[str, str]]) -> None:
    """Store files by (name, path), the small ones together; raises what `put_path` raises for the first that fails."""
    from runyard.core.machine.progress import Progress  # most processes upload nothing

    sizes = [os.path.getsize(path) if os.path.isfile(path) else 0 for _, path in files]
    with Progress("uploading", sum(sizes)) as progress:
        _put_paths(client, run_id, files, progress.add)


def _put_paths(client: Client, run_id: str, files: Sequence[Tuple[str, str]], progress: Count) -> None:
    from runyard.core.formats.chunks import BATCH_BYTES

    batch: List[RunFile] = []
    chunks: Dict[str, bytes] = {}

    def send() -> None:
        client.content.send_missing(list(chunks.items()), ask_above=BATCH_BYTES // 32)
        for file, error in zip(batch, client.runs.put_files(run_id, batch, replace=False) if batch else ()):
            if error is not None:
                raise _conflict(run_id, file.name) if isinstance(error, Conflict) else error
        batch.clear()
        chunks.clear()

    for name, path in files:
        small_file = _read_small(name, path, chunks)
        if small_file is None:
            send()
            put_path(client, run_id, name, path, progress=progress)
            continue
        progress(small_file.size, name)
        batch.append(small_file)
        if len(batch) >= BATCH_FILES or sum(map(len, chunks.values())) >= BATCH_BYTES - SMALL_BYTES:
            send()
    send()


def _read_small(name: str, path: str, chunks: Dict[str, bytes]) -> Optional[RunFile]:
    """Read a small file into `chunks`; None: it is large, or cannot be read."""
    from runyard.core.formats.chunks import read_chunks
    from runyard.core.records import RunFile

    try:
        with open(path, "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > SMALL_BYTES:
                return None
            content = read_chunks(file.fileno(), chunks.__setitem__, whole=True)
    except OSError:
        return None
    return RunFile(name=name, size=content.size, sha256=content.sha256, chunks=content.chunks)


def put_bytes(client: Client, run_id: str, name: str, content: bytes, *, replace: bool = True) -> None:
    """Store `content` as the run's file `name`."""
    from tempfile import TemporaryFile  # most processes upload nothing

    with TemporaryFile() as file:
        file.write(content)
        file.flush()
        _put(client, run_id, name, file.fileno(), replace=replace)


def _put(
    client: Client, run_id: str, name: str, source: str | int, *, replace: bool, progress: Optional[Count] = None
) -> None:
    file = client.content.upload_file(source, name=name, progress=progress)
    try:
        client.runs.put_file(run_id, file, replace=replace)
    except Conflict:
        raise _conflict(run_id, name) from None


def _conflict(run_id: str, name: str) -> Conflict:
    return Conflict(
        f"Resource Conflict: ArtifactId ExperimentRun/dcid.{run_id}/{name} already exists.",
        why="A run's file cannot be replaced by another.",
        hint="Upload it under another name.",
    )


def _download_path(name: str, target: Optional[str]) -> str:
    if not target:
        return os.path.join(".", os.path.basename(name))
    return os.path.join(target, os.path.basename(name)) if os.path.isdir(target) or target.endswith("/") else target


def _without_prefix(name: str, prefix: str) -> str:
    """Return the rest of a file's name, where the prefix is a folder.

    The whole where it is none, as Azure's, or where the rest alone would lead out of the folder it goes to.
    """
    folder = prefix.rstrip("/") + "/"
    rest = name[len(folder) :] if name.startswith(folder) else name
    return name if {"", ".", ".."} & set(rest.split("/")) else rest


def _no_file(path: str) -> UserErrorException:
    return UserErrorException(f"The file {path!r} does not exist or is no file (looked in {os.getcwd()}).")


def _shortened(names: List[str], most: int = 20) -> str:
    listed = ", ".join(f"`{name}`" for name in names[:most]) or "none"
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


def get_snapshot_id(run: Run) -> str:
    """Return the id of the stored source folder."""
    snapshot_id = _find_snapshot_id(run)
    if not snapshot_id:
        raise UserErrorException(f"Run {run.id} has no snapshot. run.take_snapshot(path) stores a folder with it.")
    return snapshot_id


def take_snapshot(run: Run, path: Union[str, os.PathLike[str]]) -> str:
    """Store a folder, or one file, as the run's snapshot and return its id."""
    from runyard.sdk.runs.source import store_file, store_git_patch, store_source  # loads what walks folders

    run._refresh()
    if _find_snapshot_id(run):
        raise _has_snapshot(run)
    path = os.fspath(path)
    source = store_file(run._client, path) if os.path.isfile(path) else store_source(run._client, path)
    properties = {name: value for name, value in source.properties.items() if name not in run._facts.properties}
    try:
        run._update(properties_add=properties, snapshot_id=source.snapshot_id)
    except Conflict:
        raise _has_snapshot(run) from None
    store_git_patch(run._client, run.id, source)
    return source.snapshot_id


def restore_snapshot(run: Run, snapshot_id: Optional[str], folder: Optional[str]) -> str:
    """Write a snapshot (default: the run's own) as `<folder>/<snapshot id>.zip` and return that path."""
    from runyard.core.names import check_snapshot_id  # most processes restore nothing
    from runyard.sdk.runs.snapshot_archive import write_zip

    snapshot_id = check_snapshot_id(snapshot_id) if snapshot_id else run.get_snapshot_id()
    root = run._client.content.find_root(snapshot_id)
    target = os.path.join(folder or _temporary_folder(), f"{snapshot_id}.zip")
    write_zip(root, run._client.content, target)
    return target


def _find_snapshot_id(run: Run) -> Optional[str]:
    return run._facts.snapshot_id or run._facts.properties.get(SNAPSHOT_PROPERTY)


def _has_snapshot(run: Run) -> SnapshotException:
    return SnapshotException(
        f"Run {run.id} has a snapshot already ({run._refresh().snapshot_id}); a run keeps its first. "
        "Start another run for another state of the folder."
    )


def _temporary_folder() -> str:
    from tempfile import mkdtemp

    return mkdtemp(prefix="snapshot-")
