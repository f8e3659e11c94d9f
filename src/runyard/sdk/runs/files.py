"""Files of a run: upload, list, download.

Files that a client gives to a run over HTTP: content first, then the name.

Snapshots of a run from outside: store a folder with it, get the stored one back.
"""

from __future__ import annotations

import io
import os
from itertools import takewhile
from typing import IO, TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.names import clean_file_name, stored_file_name, true_file_name
from runyard.core.records import SNAPSHOT_PROPERTY
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import SnapshotException, UserErrorException
from runyard.sdk.runs.details import RunWaiting

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core.records import RunFile
    from runyard.sdk.data.inputs import DataPath
    from runyard.sdk.runs.source import StoredSource


SMALL_BYTES = 1 << 20  # files up to this size travel in batches
BATCH_FILES = 500


def put_path(client: Client, run_id: str, name: str, path: str, *, replace: bool = False) -> None:
    """Store the file `path` as the run's file `name`.

    Raises:
        InvalidArgument: it cannot be read.
        Conflict: the run has another file of that name, and `replace` is false.
    """
    try:
        _put(client, run_id, name, path, replace=replace)
    except OSError as error:
        if error.errno is None:  # a lost connection, not the file
            raise
        raise InvalidArgument(
            f"`{path}` cannot be uploaded.", why=f"{error.strerror}.", hint="Give the path of a file that can be read."
        ) from error


def put_paths(client: Client, run_id: str, files: Sequence[Tuple[str, str]]) -> None:
    """Store files by (name, path), the small ones together; raises what `put_path` raises for the first that fails."""
    from runyard.core.formats.chunks import BATCH_BYTES  # most processes upload nothing

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
        found = _read_small(name, path, chunks)
        if found is None:
            send()
            put_path(client, run_id, name, path)
            continue
        batch.append(found)
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
            found = read_chunks(file.fileno(), chunks.__setitem__, whole=True)
    except OSError:
        return None
    return RunFile(name=name, size=found.size, sha256=found.sha256, chunks=found.chunks)


def put_bytes(client: Client, run_id: str, name: str, content: bytes, *, replace: bool = True) -> None:
    """Store `content` as the run's file `name`."""
    from tempfile import TemporaryFile  # most processes upload nothing

    with TemporaryFile() as file:
        file.write(content)
        file.flush()
        _put(client, run_id, name, file.fileno(), replace=replace)


def _put(client: Client, run_id: str, name: str, source: str | int, *, replace: bool) -> None:
    file = client.content.upload_file(source, name=name)
    try:
        client.runs.put_file(run_id, file, replace=replace)
    except Conflict as error:
        raise _conflict(run_id, name) from error


def _conflict(run_id: str, name: str) -> Conflict:
    return Conflict(
        f"Resource Conflict: ArtifactId ExperimentRun/dcid.{run_id}/{name} already exists.",
        why="A run's file cannot be replaced by another.",
        hint="Upload it under another name.",
    )


Source = Union[str, "os.PathLike[str]", IO[bytes]]


@raises_azure_errors
class RunFiles(RunWaiting):
    def upload_file(self, name: str, path_or_stream: Source, datastore_name: Optional[str] = None) -> None:
        """Store a file or binary stream as the run's file `name`.

        Raises:
            UserErrorException: the file cannot be read, or the run has another file of that name.
        """
        self._upload(clean_file_name(name), path_or_stream)

    def upload_files(
        self,
        names: Sequence[str],
        paths: Sequence[str],
        return_artifacts: bool = False,
        timeout_seconds: Optional[float] = None,
        datastore_name: Optional[str] = None,
    ) -> Optional[Dict[str, str]]:
        """Store several files; `names` and `paths` go together one by one.

        Raises:
            TypeError: the two differ in length.
        """
        if len(names) != len(paths):
            raise TypeError(f"names and paths must have the same length, found {len(names)} and {len(paths)}.")
        self._upload_many([(clean_file_name(name), path) for name, path in zip(names, paths)])
        return {name: self._file_url(clean_file_name(name)) for name in names} if return_artifacts else None

    def upload_folder(self, name: str, path: str, datastore_name: Optional[str] = None) -> None:
        """Store all files below the folder `path` under `name/`, the tree kept."""
        if not os.path.isdir(path):
            raise UserErrorException(f"The folder {path!r} does not exist (looked in {os.getcwd()}).")
        prefix = clean_file_name(name.rstrip("/"))
        found = []
        for folder, folders, files in os.walk(path):
            folders.sort()
            for file in sorted(files):
                source = os.path.join(folder, file)
                found.append((stored_file_name(f"{prefix}/{os.path.relpath(source, path)}"), source))
        self._upload_many(found)

    def get_file_names(self) -> List[str]:
        """Return the names of all files of the run, as they were on the disk that they came from."""
        self._flush_own()
        return [true_file_name(file.name) for file in self._client.runs.files(self._run_id)]

    def _get_outputs_datapath(self) -> DataPath:
        """Return a DataPath to a copy of what is in `outputs/` now, for `resume_from` of another run."""
        from runyard.sdk.runs.assets import outputs_datapath  # loads what is about datastores

        return outputs_datapath(self)  # type: ignore[arg-type]  # this class is one of the bases of Run

    def download_file(
        self, name: str, output_file_path: Optional[str] = None, _validate_checksum: bool = False
    ) -> None:
        """Write the run's file `name` to `output_file_path`: a file, a folder, or here when not given.

        Raises:
            UserErrorException: the run has no such file.
        """
        wanted = clean_file_name(name)
        self._flush_own()
        files = {file.name: file for file in self._client.runs.files(self._run_id)}
        wanted = wanted if wanted in files else stored_file_name(name)
        if wanted not in files:
            raise NotFound(
                f"Run `{self._run_id}` has no file `{name}`.",
                why=f"Its files: {_shortened(list(files))}.",
                hint="run.get_file_names() lists them all.",
            )
        self._fetch(files[wanted], _download_path(true_file_name(wanted), output_file_path))

    def download_files(
        self,
        prefix: Optional[str] = None,
        output_directory: Optional[str] = None,
        output_paths: Optional[Sequence[str]] = None,
        batch_size: int = 100,
        append_prefix: bool = True,
        timeout_seconds: Optional[float] = None,
    ) -> None:
        """Write all files whose names start with `prefix` below `output_directory`.

        Args:
            output_paths: instead, one path for each file, in the order of `get_file_names()`.
            append_prefix: false leaves the prefix out of the paths.
        """
        self._flush_own()
        listed = [(file, true_file_name(file.name)) for file in self._client.runs.files(self._run_id)]
        chosen = [(file, name) for file, name in listed if name.startswith(prefix or "")]
        if output_paths is not None and len(output_paths) != len(chosen):
            raise UserErrorException(f"output_paths has {len(output_paths)} paths for {len(chosen)} files.")
        places = []
        for index, (file, name) in enumerate(chosen):
            below = name if append_prefix else _without_prefix(name, prefix or "")
            target = output_paths[index] if output_paths is not None else os.path.join(output_directory or ".", below)
            places.append((file, target))
        self._client.runs.download_many(self._run_id, places)

    def get_all_logs(self, destination: Optional[str] = None) -> List[str]:
        """Write each log below `destination` (default `assets/<run id>`) and return the paths."""
        root = destination or os.path.join("assets", self._run_id)
        paths = []
        for file in self._logs():
            paths.append(os.path.join(root, true_file_name(file.name)))
            self._fetch(file, paths[-1])
        return paths

    def _upload(self, name: str, source: Source) -> None:
        if isinstance(source, io.TextIOBase):
            raise UserErrorException("path_or_stream is a text stream; open it in binary mode, open(path, 'rb').")
        if self._writes_here():
            self._journal().upload(name, source)
            return
        if hasattr(source, "read"):
            self._put_bytes(name, source.read())
            return
        path = os.fspath(source)
        if not os.path.isfile(path):
            raise _no_file(path)
        put_path(self._client, self._run_id, name, path)

    def _upload_many(self, files: Sequence[Tuple[str, str]]) -> None:
        """Store files by (name, path), in their order up to one that fails."""
        if self._writes_here():
            for name, path in files:
                self._upload(name, path)
            return
        good = list(takewhile(lambda file: os.path.isfile(file[1]), files))
        put_paths(self._client, self._run_id, good)
        if len(good) < len(files):
            raise _no_file(os.fspath(files[len(good)][1]))

    def _put_bytes(self, name: str, content: bytes, *, replace: bool = False) -> None:
        if self._writes_here():
            self._journal().upload(name, content)
        else:
            put_bytes(self._client, self._run_id, name, content, replace=replace)

    def _fetch(self, file: RunFile, path: str) -> None:
        self._client.runs.download(self._run_id, file.name, path, expected=file)


def _download_path(name: str, target: Optional[str]) -> str:
    if not target:
        return os.path.join(".", os.path.basename(name))
    return os.path.join(target, os.path.basename(name)) if os.path.isdir(target) or target.endswith("/") else target


def _without_prefix(name: str, prefix: str) -> str:
    """Return the rest of a file's name; the whole where the rest alone would lead out of the folder it goes to."""
    rest = name[len(prefix) :].lstrip("/") or os.path.basename(name)
    return name if {"", ".", ".."} & set(rest.split("/")) else rest


def _no_file(path: str) -> UserErrorException:
    return UserErrorException(f"The file {path!r} does not exist or is no file (looked in {os.getcwd()}).")


def _shortened(names: List[str], most: int = 20) -> str:
    listed = ", ".join(f"`{name}`" for name in names[:most]) or "none"
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


@raises_azure_errors
class RunSnapshots(RunFiles):
    def get_snapshot_id(self) -> str:
        """Return the id of the stored source folder.

        Raises:
            UserErrorException: the run has none.
        """
        found = self._snapshot_id()
        if not found:
            raise UserErrorException(
                f"Run {self._run_id} has no snapshot. run.take_snapshot(path) stores a folder with it."
            )
        return found

    def take_snapshot(self, file_or_folder_path: str, **_kwargs: Any) -> str:
        """Store a folder, or one file, as the run's snapshot and return its id.

        Raises:
            SnapshotException: the run has one already, or the folder cannot be stored.
        """
        self._refresh()
        if self._snapshot_id():
            raise self._has_one()
        source = self._store(os.fspath(file_or_folder_path))
        known = self._facts.properties
        new = {name: value for name, value in source.properties.items() if name not in known}
        try:
            self._record = self._client.runs.update(self._run_id, properties_add=new, snapshot_id=source.snapshot_id)
        except Conflict as error:
            raise self._has_one() from error
        self._keep_patch(source)
        return source.snapshot_id

    def restore_snapshot(self, snapshot_id: Optional[str] = None, path: Optional[str] = None) -> str:
        """Write a snapshot as `<path>/<snapshot id>.zip` and return that path.

        Args:
            snapshot_id: the run's own when not given.
            path: a folder, made when missing; a new temporary one when not given.

        Raises:
            UserErrorException: the run has no snapshot, or there is none of that id.
        """
        from runyard.core.names import check_snapshot_id  # most processes restore nothing
        from runyard.sdk.runs.snapshot_archive import write_zip

        wanted = check_snapshot_id(snapshot_id) if snapshot_id else self.get_snapshot_id()
        root = self._client.content.find_root(wanted)
        target = os.path.join(path or _temporary_folder(), f"{wanted}.zip")
        write_zip(root, self._client.content, target)
        return target

    def _snapshot_id(self) -> Optional[str]:
        return self._facts.snapshot_id or self._facts.properties.get(SNAPSHOT_PROPERTY)

    def _store(self, path: str) -> StoredSource:
        from runyard.sdk.runs.source import store_file, store_source  # loads what walks folders

        return store_file(self._client, path) if os.path.isfile(path) else store_source(self._client, path)

    def _keep_patch(self, source: StoredSource) -> None:
        from runyard.sdk.runs.source import store_git_patch

        store_git_patch(self._client, self._run_id, source)

    def _has_one(self) -> SnapshotException:
        return SnapshotException(
            f"Run {self._run_id} has a snapshot already ({self._refresh().snapshot_id}); a run keeps its first. "
            "Start another run for another state of the folder."
        )


def _temporary_folder() -> str:
    from tempfile import mkdtemp

    return mkdtemp(prefix="snapshot-")
