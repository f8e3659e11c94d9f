"""The journal of one run in this process: `log()` and everything else that training code records about its run.

docs/internals/journal.md is the contract. No function here waits for another process, except `flush`.
"""

from __future__ import annotations

import functools
import os
import struct
import time
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple, Union

from runyard.core.errors import InvalidArgument
from runyard.core.formats import journal
from runyard.core.machine.facts import boot_id
from runyard.core.names import clean_file_name
from runyard.runtime import appender, values
from runyard.runtime.appender import Appender, NameTable, Write, raise_foreign
from runyard.runtime.uploads import copy_upload
from runyard.runtime.values import PACKERS, Packers, list_records, long_record, value_record

if TYPE_CHECKING:
    from runyard.core.formats.documents import RunError

Translate = Callable[[InvalidArgument], Exception]
_CELL = journal.CELL
_writers: List[JournalWriter] = []
_SAID: Set[str] = set()
_shared: Dict[Tuple[str, str], JournalWriter] = {}


def get_writer(
    run_folder: str,
    run_id: str,
    *,
    attempt: int = 1,
    rank: int = 0,
    role: str = "worker",
    translate: Optional[Translate] = None,
) -> JournalWriter:
    """Return this process's writer for `run_id` in `run_folder`, made at the first call and again after it was closed.

    The run may be another than the one that started this process: a child of it, or one that we did not launch.
    """
    key = (os.path.abspath(run_folder), run_id)
    found = _shared.get(key)
    if found is None or found.closed:
        found = JournalWriter(key[0], run_id, attempt=attempt, rank=rank, role=role, translate=translate)
        _shared[key] = found
    return found


class JournalWriter:
    """Records one run's metrics, tags, properties and files in `<run_folder>/journal`.

    `log(name, value, description="", step=None)` is an attribute, not a method: one callable for the writer's life,
    which an SDK may hand on as it is. It raises what `translate` makes of InvalidArgument (default: that itself; its
    subclass `values.UseLogList` is the list given to `log()`). All other methods raise InvalidArgument for what
    cannot be recorded; nothing raises for what the disk does, except `upload`.

    Threads, forks (the child becomes a writer of its own), signal handlers and calls after `close` are fine.
    """

    log: Callable[..., None]
    log_at: Callable[[str, float, int, int], None]  # MLflow's: name, value, step, milliseconds of the wall clock

    def __init__(
        self,
        run_folder: Union[str, os.PathLike[str]],
        run_id: str,
        *,
        attempt: int = 1,
        rank: int = 0,
        role: str = "worker",
        translate: Optional[Translate] = None,
        write: Write = os.write,
    ) -> None:
        self.run_id = run_id
        self.run_folder = os.fspath(run_folder)
        self._reopen = functools.partial(get_writer, attempt=attempt, rank=rank, role=role, translate=translate)
        header: journal.SegmentHeader = {
            "format": journal.FORMAT,
            "run": run_id,
            "attempt": attempt,
            "rank": rank,
            "role": role,
        }
        header["boot_id"] = boot_id()
        self.log, use_names_of_log = _make_log(self, translate, write)
        self.log_at, use_names_of_log_at = _make_log_at(self, write)

        def use_names(names: NameTable) -> None:
            use_names_of_log(names)
            use_names_of_log_at(names)

        self._appender = Appender(self.run_folder, header, use_names=use_names, write=write)
        self._ended = False
        _writers.append(self)

    def __reduce__(self) -> Tuple[Any, ...]:
        """Pickled, it becomes the writer of the process that unpickles it."""
        return self._reopen, (self.run_folder, self.run_id)

    def for_run(self, run_id: str) -> JournalWriter:
        """Return this process's writer for another run, a child of this one, in the same run folder."""
        return self._reopen(self.run_folder, run_id)

    @property
    def closed(self) -> bool:
        return self._appender.closed

    def log_list(self, name: str, value: Iterable[object], description: str = "") -> None:
        """Append all items of an iterable to the metric; an empty one records nothing."""
        if description:
            _note_description()
        clean = values.to_name(name)
        items = values.to_scalars(clean, value)
        self._appender.append(*list_records(clean, items, time.monotonic_ns()))

    def log_row(self, name: str, description: Optional[str] = None, **columns: object) -> None:
        """Append one row to the table `name`."""
        if description:
            _note_description()
        clean = values.to_name(name)
        self.append(journal.ROW, {"name": clean, "columns": values.to_row(clean, columns), "t": time.monotonic_ns()})

    def log_table(self, name: str, value: Mapping[str, object], description: str = "") -> None:
        """Append the rows of {column: list, or scalar for one row} to the table `name`."""
        if description:
            _note_description()
        clean = values.to_name(name)
        columns = values.to_table(clean, value)
        if any(columns.values()):
            self.append(journal.TABLE, {"name": clean, "columns": columns, "t": time.monotonic_ns()})

    def log_artifact(self, name: str, kind: str, file: str) -> None:
        """Record a metric that is the run's file `file`; `kind` is image, confusion_matrix, …"""
        payload = {"name": values.to_name(name), "kind": kind, "file": clean_file_name(file)}
        self.append(journal.ARTIFACT, {**payload, "t": time.monotonic_ns()})

    def set_tags(self, tags: Mapping[str, object]) -> None:
        """Set tags; a value that is not text is turned into text, None stays."""
        texts = {str(key): None if value is None else str(value) for key, value in tags.items()}
        self.append(journal.TAGS, {"set": texts, "remove": []})

    def remove_tags(self, keys: Iterable[str]) -> None:
        self.append(journal.TAGS, {"set": {}, "remove": [str(key) for key in keys]})

    def add_properties(self, properties: Mapping[str, object]) -> None:
        self.append(journal.PROPERTIES, {"add": {str(key): str(value) for key, value in properties.items()}})

    def upload(self, name: str, source: Union[str, os.PathLike[str], bytes, IO[bytes]]) -> int:
        """Keep what the file or binary stream holds now as the run's file `name`; return its size in bytes.

        The content survives this process; the supervisor sends it.

        Raises:
            InvalidArgument: the name cannot be used, or the source is no readable file.
            StoreUnavailable: the copy could not be written.
        """
        return self.keep_file(name, source)[1]

    def keep_file(self, name: str, source: Union[str, os.PathLike[str], bytes, IO[bytes]]) -> Tuple[str, int]:
        """As `upload`, but return (path of the copy below the run folder, size)."""
        clean = clean_file_name(name)
        path, size = copy_upload(self.run_folder, source)
        # Where it came from: the work folder's file is not called lost then.
        origin = {"source": os.path.abspath(source)} if isinstance(source, (str, os.PathLike)) else {}
        self.append(journal.FILE, {"name": clean, "path": path, "size": size, **origin})
        return path, size

    def log_param(self, key: str, value: str) -> None:
        """Record a parameter that the script logged. The first value of a key stays, whichever rank logged it."""
        self.append(journal.PARAM, {"key": key, "value": value})
        self.wake()

    def fail(self, error_details: object = None, error_code: Optional[str] = None) -> None:
        """Record `run.fail()` of a submitted run."""
        details = error_details if error_details is None or isinstance(error_details, str) else str(error_details)
        self.append(journal.FAIL, {"error_details": details, "error_code": error_code})
        self.wake()

    def end(self, status: str, error: Optional[RunError] = None) -> None:
        """Record the end of a run that we did not launch."""
        self.append(journal.END, {"status": status, "error": error, "t": time.monotonic_ns()})
        self._ended = True
        self.wake()

    def append(self, kind: int, payload: journal.Payload) -> None:
        """Write one long record; a payload over 1 MiB goes into a side file."""
        self._appender.append(long_record(kind, payload))

    def wake(self) -> None:
        """Tell the supervisor that there is something to ship now."""
        appender.wake(self.run_folder)

    def flush(self, timeout_s: float = 300.0) -> bool:
        """Wait until the server has all that this process has recorded so far; return whether it has."""
        deadline = time.monotonic() + timeout_s
        while not self._appender.drain():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        return appender.wait_for_acks(
            self.run_folder, self._appender.all_segments(), deadline=deadline, ended=self._ended
        )

    def close(self) -> None:
        """Write what waits and let go of the files; later calls record nothing and say so once."""
        self._appender.close()
        if self in _writers:
            _writers.remove(self)


def _make_log(
    writer: JournalWriter, translate: Optional[Translate], write: Write
) -> Tuple[Callable[..., None], Callable[[NameTable], None]]:
    """Return `log` and the function that swaps the name ids it knows."""
    names = NameTable()
    packers = Packers()
    now = time.monotonic_ns
    unpackable = struct.error

    def use_names(current: NameTable) -> None:
        nonlocal names
        names = current

    def log(name: str, value: Any, description: str = "", step: Optional[int] = None) -> None:
        """Append one value to the metric `name`: a number, text, bool or None; numpy and torch scalars too."""
        if description:
            _note_description()
        try:
            kind, pack = packers[type(value)]
            fd, name_id = names[name]
            if step is None:
                if write(fd, pack(kind, 0, 0, name_id, 0, now(), value)) == _CELL:
                    return
                writer._appender.end_segment(fd)
            elif type(step) is int:
                if write(fd, pack(kind, 1, 0, name_id, step, now(), value)) == _CELL:
                    return
                writer._appender.end_segment(fd)
        except (KeyError, TypeError, OSError, unpackable) as error:
            raise_foreign(error)
        slow(name, value, step)

    def slow(name: str, value: Any, step: Any) -> None:
        try:
            record(name, value, step)
        except InvalidArgument as error:
            if translate is None:
                raise
            raise translate(error) from error

    def record(name: str, value: Any, step: Any) -> None:
        clean = values.to_name(name)
        plain = values.to_logged(clean, value, stacklevel=4)
        whole = None if step is None else values.to_step(clean, step)
        writer._appender.append(value_record(clean, plain, whole, now()))
        learn(type(value), value, plain)
        if name != clean:
            known = writer._appender.names()
            if clean in known:
                known[name] = known[clean]

    def learn(cls: type, value: Any, plain: Any) -> None:
        """Let numpy's floats and integers take the short way from now on; `struct` takes them as they are."""
        if cls not in packers and (cls.__module__ == "numpy" or isinstance(value, (float, int))):
            packer = PACKERS.get(type(plain))
            if packer is not None and packer[0] != journal.BOOL and cls.__name__ != "ndarray":
                packers[cls] = packer

    return log, use_names


def _make_log_at(
    writer: JournalWriter, write: Write
) -> Tuple[Callable[[str, float, int, int], None], Callable[[NameTable], None]]:
    """Return `log_at` and the function that swaps the name ids it knows.

    A cell holds monotonic time. The time that is given becomes the moment of that clock in the middle of the
    millisecond, so that the reader's sum with the segment's offset is the same millisecond, whatever is rounded.
    """
    names = NameTable()
    pack = journal.pack_number
    unpackable = struct.error

    def use_names(current: NameTable) -> None:
        nonlocal names
        names = current

    def log_at(name: str, value: float, step: int, wall_ms: int) -> None:
        """Append one number to the metric `name`, with the step and the time that the caller gives."""
        table = names
        try:
            fd, name_id = table[name]
            time_ns = wall_ms * 1_000_000 + 500_000 - table.wall_offset_ns
            if write(fd, pack(journal.FLOAT, journal.HAS_STEP, 0, name_id, step, time_ns, value)) == _CELL:
                return
            writer._appender.end_segment(fd)
        except (KeyError, TypeError, OSError, unpackable) as error:
            raise_foreign(error)
        clean = values.to_name(name)
        moment = wall_ms * 1_000_000 + 500_000 - (time.time_ns() - time.monotonic_ns())
        if not values.SMALLEST <= moment <= values.LARGEST:
            _note_once("time", "A metric's time is too far away to be kept; the point has the present time instead.")
            moment = time.monotonic_ns()
        writer._appender.append(value_record(clean, float(value), values.to_step(clean, step), moment))

    return log_at, use_names


def _note_description() -> None:
    _note_once("description", "The description of a metric is not kept; its name and value are.")


def _note_once(topic: str, message: str) -> None:
    """Say once that something which was given is not kept."""
    if topic not in _SAID:
        import logging  # most scripts never need it

        _SAID.add(topic)
        logging.getLogger("runyard.runtime").warning(message)


def _forget_after_fork() -> None:
    for writer in list(_writers):
        writer._appender.forget()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_after_fork)
