"""Runs that live in this process: `experiment.start_logging()`, and the child runs that a process creates.

`OutputCopy` copies what the program prints into a file of the run, inside the `with` block of a run.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, Optional, TextIO, Tuple, cast

from runyard.core.errors import NotYetSupported
from runyard.core.formats import journal
from runyard.core.names import check_run_id, make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from runyard.runtime.context import get_writer
from runyard.sdk.azure_class import missing_member
from runyard.sdk.config.texts import user_name, warn
from runyard.sdk.errors import azure_error, raises_azure_errors
from runyard.sdk.exceptions import AzureMLException, UserErrorException
from runyard.sdk.runs.attach import find_host, start_external_supervisor, this_process
from runyard.sdk.runs.context import open_runs
from runyard.sdk.runs.details import PollInterval
from runyard.sdk.runs.run import Run, _reopen
from runyard.sdk.runs.source import store_source

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Type

    from runyard.client.client import Client
    from runyard.core import records
    from runyard.core.formats.documents import RunError
    from runyard.runtime.writer import JournalWriter
    from runyard.sdk.workspaces.experiment import Experiment

END_S = 60.0
USER_LOG = "logs/user_log.txt"


class OutputCopy:
    """Copies stdout and stderr into the file `path` from `start` to `stop`. A full disk costs the copy only."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: Optional[int] = None
        self._out: Optional[_Both] = None
        self._err: Optional[_Both] = None

    def start(self) -> None:
        """Begin; a run folder that is gone, or a full disk, leaves the streams as they are."""
        try:
            if not os.path.isdir(os.path.dirname(self._path)):
                os.mkdir(os.path.dirname(self._path), 0o700)  # not makedirs: a removed run folder stays removed
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            warn(f"What this block prints is not kept with its run: {error}")
            return
        self._out, self._err = _Both(sys.stdout, self), _Both(sys.stderr, self)
        sys.stdout, sys.stderr = cast(TextIO, self._out), cast(TextIO, self._err)

    def stop(self) -> None:
        """Restore the streams. A stream that the program has replaced in the meantime stays."""
        if self._out is not None and cast(Any, sys.stdout) is self._out:
            sys.stdout = self._out.stream
        if self._err is not None and cast(Any, sys.stderr) is self._err:
            sys.stderr = self._err.stream
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

    def add(self, text: Any) -> None:
        if self._fd is None or not isinstance(text, str):
            return
        try:
            os.write(self._fd, text.encode("utf-8", "backslashreplace"))
        except OSError:
            pass


class _Both:
    """A text stream that writes to two places; all else is the first one's."""

    def __init__(self, stream: Any, copy: OutputCopy) -> None:
        self.stream = stream
        self._copy = copy

    def write(self, text: str) -> Any:
        written = self.stream.write(text)
        self._copy.add(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def start_logging(
    experiment: Experiment,
    *,
    run_id: Optional[str],
    outputs: Any,
    snapshot_directory: Optional[str],
    display_name: str,
    description: str,
) -> Run:
    """Create a run that is Running at once; a watcher ships its folders and closes it should this process die."""
    chosen = check_run_id(run_id) if run_id else make_uuid()
    folder = _made_folder("outputs" if outputs is None or outputs is True else outputs)
    source = store_source(experiment._client, snapshot_directory) if snapshot_directory is not None else None
    new = NewRun(
        key=make_uuid(),
        id=chosen,
        workspace=experiment.workspace.name,
        experiment=experiment.name,
        spec=RunSpec(output_folders=[]),
        type=None,
        display_name=display_name,
        description=description,
        snapshot_id=source.snapshot_id if source else None,
        snapshot_root=source.root if source else None,
        properties=source.properties if source else {},
        submitted_by=user_name(),
    )
    run_folder, record = _create(experiment._client, new, _watched_folders(folder))
    run = InteractiveRun._known(experiment, record)
    run._write_to(get_writer(run_folder, chosen, attempt=record.attempt, translate=azure_error))
    open_runs.add(run)
    return run


def _create(client: Client, new: NewRun, folders: Dict[str, str]) -> Tuple[str, records.Run]:
    """Return the run folder, which has a watcher, and the run."""
    host = find_host(client)
    process = {**this_process(), "host": host} if host else {**this_process(), "folders": folders}
    created = client.runs.create(new, launch=False, interactive=process)
    if created.folder is None:
        raise NotYetSupported(
            "The server gave the run no journal folder.", hint="Upgrade the server: runyard server stop."
        )
    if not host:
        return created.folder, created.run
    token, attempt = str(created.token), created.run.attempt
    return start_external_supervisor(client, created.run, token=token, attempt=attempt, folders=folders), created.run


@raises_azure_errors
class InteractiveRun(Run):
    """A run that lives as long as this process says."""

    _copy: Optional[OutputCopy] = None

    def __enter__(self) -> InteractiveRun:
        if self._writer is not None and self._copy is None:
            self._copy = OutputCopy(self._copy_path(self._writer))
            self._copy.start()
        return self

    def __exit__(
        self, cls: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        try:
            return super().__exit__(cls, error, trace)
        finally:
            self._stop_copy()

    def __reduce__(self) -> Tuple[Any, ...]:
        """Pickled to a worker process, it is a handle that writes to the same run folder while the run is open."""
        reopen, names = super().__reduce__()
        return (reopen, names) if self._writer is None else (_reopen_beside, (*names, self._writer.run_folder))

    def _copy_path(self, writer: JournalWriter) -> str:
        """Return where the copy lies: in the run folder, where the watcher ships it while it grows."""
        return os.path.join(writer.run_folder, USER_LOG)

    def _write_to(self, writer: JournalWriter) -> None:
        self._interactive = True
        self._writer = writer
        self.log = writer.log  # type: ignore[method-assign]  # as in context.py

    def _stop_copy(self) -> None:
        if self._copy is not None:
            self._copy.stop()

    def _end(self, status: str, error: Optional[RunError] = None) -> None:
        """Record the end and wait until the server has everything, the watched folders too."""
        writer = self._writer
        assert writer is not None
        self._stop_copy()
        writer.end(status, error)
        writer.flush(END_S)
        for child in list(self._made):
            child._let_go()
        self._let_go()
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        """The watcher reports the end when the server has everything; a server that is away gets it later."""
        pace, deadline = PollInterval(), time.monotonic() + END_S
        while not self._refresh().status.is_terminal and time.monotonic() < deadline:
            time.sleep(pace.next())

    def _let_go(self) -> None:
        """Close the journal, for which the watcher waits; from now on this is a handle like any other."""
        writer = self._writer
        if writer is None or not self._interactive:
            return
        writer.close()
        writer.wake()
        self._writer, self._interactive = None, False
        open_runs.discard(self)
        del self.log
        for child in list(self._made):
            child._let_go()


@raises_azure_errors
class ChildRun(InteractiveRun):
    """A child that this process made of its run: its records travel in the parent's run folder."""

    _is_made = False

    def __init__(self, parent: Run, run_id: str, writer: JournalWriter, *, outputs: Any = None) -> None:
        self._parent_handle = parent
        self._run_id = run_id
        self._record = None
        self._own = False
        self._outputs = _made_folder(outputs)
        self._write_to(writer)

    @property
    def parent(self) -> Run:
        return self._parent_handle

    def __getattr__(self, name: str) -> Any:
        # Not before they are needed: a script that only logs never asks the server.
        if name in ("_client", "_experiment"):
            return getattr(self._parent_handle, name)
        raise missing_member(type(self), name, f"{type(self).__name__!r} object has no attribute {name!r}")

    def _refresh(self) -> records.Run:
        self._flush_own()
        return super()._refresh()

    def _flush_own(self) -> None:
        """The parent's journal has the record that makes this run."""
        if not self._is_made and self._writer is not None:
            self._parent_handle._flush_own()
            self._is_made = True
        super()._flush_own()

    def __reduce__(self) -> Tuple[Any, ...]:
        self._flush_own()  # the other process asks the server for this run
        return super().__reduce__()

    def _copy_path(self, writer: JournalWriter) -> str:
        return os.path.join(writer.run_folder, _child_log(self._run_id))

    def _end(self, status: str, error: Optional[RunError] = None) -> None:
        writer = self._writer
        assert writer is not None
        self._upload_outputs()
        self._stop_copy()
        if self._copy is not None:
            path = _child_log(self._run_id)
            writer.append(journal.FILE, {"name": USER_LOG, "path": path, "size": self._copy.size()})
        writer.end(status, error)
        if not writer.flush(END_S):
            warn(f"The server has not taken the end of run {self._run_id} within {END_S:g} s; it follows later.")
        self._let_go()

    def _let_go(self) -> None:
        super()._let_go()
        self._record = None
        siblings = self._parent_handle._made
        if self in siblings:
            siblings.remove(self)
            siblings.extend(self._made)

    def _upload_outputs(self) -> None:
        """Keep what lies in the outputs folder; what cannot be uploaded must not keep the run from ending."""
        if self._outputs is None or not os.path.isdir(self._outputs):
            return
        try:
            self.upload_folder(os.path.basename(self._outputs), self._outputs)
        except (AzureMLException, OSError) as error:
            warn(f"Not all of {self._outputs} could be stored with run {self._run_id}: {error}")


def _reopen_beside(workspace_name: str, run_id: str, folder: str) -> Run:
    """Return the run in a worker process; see `attach.find_open_journal` for what `folder` does."""
    run = _reopen(workspace_name, run_id)
    if run._writer is None:
        run._beside = folder
    return run


def _child_log(run_id: str) -> str:
    return f"child_logs/{run_id}.txt"


def _made_folder(outputs: Any) -> Optional[str]:
    """Return the absolute path of an outputs folder, made when missing; None when none is wanted."""
    if not outputs:
        return None
    if not isinstance(outputs, (str, os.PathLike)):
        raise UserErrorException(f"outputs is the path of a folder, found {outputs!r:.100}.")
    os.makedirs(outputs, exist_ok=True)
    return os.path.abspath(os.fspath(outputs))


def _watched_folders(outputs: Optional[str]) -> Dict[str, str]:
    """Return the folders that are shipped while the run goes on, by the name that their files get."""
    folders = {"logs": os.path.abspath("logs")}
    if outputs is not None:
        folders[os.path.basename(outputs)] = outputs
    return folders
