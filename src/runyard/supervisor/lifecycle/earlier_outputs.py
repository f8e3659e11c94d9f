"""A next attempt finds in its output folders what earlier ones have stored: checkpoints to go on from."""

from __future__ import annotations

import os
from typing import Callable, Iterator, List, Tuple

from runyard.core.errors import DamagedContent
from runyard.core.names import true_file_name
from runyard.core.records import RunFile
from runyard.core.specs import JobSpec
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.connection import Connection
from runyard.supervisor.work_folders import prefix_of, tracked_folders

Warn = Callable[[str, str], None]


def bring_back(
    folder: RunFolder, job: JobSpec, connection: Connection, *, warn: Warn, check: Callable[[], None]
) -> None:
    """Download this node's files of earlier attempts, each checked by its SHA-256 and renamed into place.

    `check` is called between two files: it raises when the run shall end.

    Raises:
        OSError: a file came damaged, or cannot be written. Without it the program might begin from the start.
    """
    if job.attempt < 2:
        return
    files = connection.insist(lambda: connection.client.runs.files(job.run_id))
    count = 0
    for file, path, root in _iter_wanted(folder, job, files):
        check()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.realpath(path).startswith(os.path.realpath(root) + os.sep):
            warn("attempts", f"{file.name!r} is not brought back: a link leads out of the work folder.")
            continue
        _fetch(connection, job.run_id, file, path)
        count += 1
    if count:
        plural = "file is" if count == 1 else "files are"
        names = " and ".join(f"./{name}" for name in job.spec.output_folders)
        warn("attempts", f"{count} {plural} back in {names}: what earlier attempts of this run had stored there.")


def _fetch(connection: Connection, run_id: str, file: RunFile, path: str) -> None:
    def fetch() -> None:
        try:
            connection.client.runs.download(run_id, file.name, path, expected=file)
        except DamagedContent as error:
            raise OSError(str(error)) from error

    connection.insist(fetch)


def _iter_wanted(folder: RunFolder, job: JobSpec, files: List[RunFile]) -> Iterator[Tuple[RunFile, str, str]]:
    """Yield each file with the path that it gets and the work folder that it must lie in."""
    for index, folders in enumerate(tracked_folders(folder, job)):
        prefix = f"node_{index}/" if index > 0 else prefix_of(job)
        for name, top in folders.items():
            start = f"{prefix}{name}/"
            for file in files:
                if file.kind == "blob" and file.name.startswith(start):
                    below = true_file_name(file.name).split("/")[start.count("/") :]
                    yield file, os.path.join(top, *below), top[: -len(name) - 1]
