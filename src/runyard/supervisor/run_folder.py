"""The run folder: its paths, its small JSON files, the claim, and the work folders of a run's nodes.

docs/internals/run-folder.md describes every file in it. All nodes share one work folder unless the run asked for a copy
for each. Reaper, supervisor and adopter all use this module.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from runyard.core.attempts import with_external_writer
from runyard.core.config.settings import Settings, settings_of_run
from runyard.core.formats.plain import from_plain
from runyard.core.machine.disk import END_RESERVE, IN_MEMORY, MEMORY, NO_SPACE, OVERFLOW, RESERVE
from runyard.core.machine.facts import boot_id, container_id
from runyard.core.machine.files import sync_folder, write_whole
from runyard.core.specs import JobSpec
from runyard.supervisor.proc import read_process

if TYPE_CHECKING:
    from runyard.core.formats.run_files import FinalState

SNAPSHOT = "snapshot.frames"
SPARE_NOTE = "spare.json"  # what a large snapshot brought, for leaving the work folder to another run
REFUSED = "refused.json"  # what the server refused for its content; the folder is kept while it has entries
SUBFOLDERS = ("work", "journal", "user_logs", "system_logs", "uploads", "starts", "exits", "exceptions", "ends")
PER_NODE = "per-node"  # a value of RUNYARD_WORK_FOLDER


class FolderIdentity:
    """Remembers which folder a path names now, to tell later whether it is still the same."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inode = self._find_inode()

    def is_gone(self) -> bool:
        """Return whether the folder was removed, even if another has its path. A failing disk counts as not removed."""
        try:
            return self._inode is None or self._find_inode() != self._inode
        except OSError:
            return False

    def _find_inode(self) -> Optional[Tuple[int, int]]:
        try:
            status = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino


class RunFolder:
    """The run folder of one attempt on this node. The object never changes, so threads may share it."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._place = FolderIdentity(self.path)

    def at(self, *parts: str) -> str:
        """Return the path of a file below the run folder."""
        return os.path.join(self.path, *parts)

    def has(self, name: str) -> bool:
        """Return whether the file is there, a broken link included."""
        return os.path.lexists(self.at(name))

    def is_gone(self) -> bool:
        """Return whether the run folder was removed or replaced since this object was made."""
        return self._place.is_gone()

    def make_subfolders(self) -> None:
        """Make missing subfolders, never the run folder itself. Raises FileNotFoundError when that is gone."""
        for name in SUBFOLDERS:
            try:
                os.mkdir(self.at(name), 0o700)
            except FileExistsError:
                pass

    def job(self) -> JobSpec:
        """Return the job from `job.json`. Raises OSError when it is missing."""
        with open(self.at("job.json"), encoding="utf-8") as file:
            return from_plain(JobSpec, with_external_writer(json.load(file)))

    def read(self, name: str) -> Optional[Any]:
        """Return the value of a JSON file, None when it is missing or damaged."""
        try:
            with open(self.at(name), encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return None

    def read_bytes(self, name: str) -> bytes:
        """Return the content of a small file, b"" when it cannot be read."""
        try:
            with open(self.at(name), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def read_object(self, name: str) -> Dict[str, Any]:
        """Return a JSON file's object; empty when the file is missing, damaged or no object."""
        value = self.read(name)
        return value if isinstance(value, dict) else {}

    def list_objects(self, name: str) -> List[Dict[str, Any]]:
        """Return the JSON objects in the folder `name`, ordered by file name."""
        try:
            names = sorted(entry for entry in os.listdir(self.at(name)) if entry.endswith(".json"))
        except OSError:
            return []
        found = (self.read(os.path.join(name, entry)) for entry in names)
        return [value for value in found if isinstance(value, dict)]

    def write(self, name: str, value: Any, *, durable: bool = False) -> None:
        """Write a JSON file by writing a new file and renaming it; `durable`: sync it. Raises OSError."""
        self.write_bytes(name, json.dumps(value, separators=(",", ":")).encode(), durable=durable)

    def write_bytes(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Write a file by writing a new file and renaming it. On a full disk it uses up the run's reserve."""
        try:
            self._write_beside(name, data, durable=durable)
        except OSError as error:
            if error.errno not in NO_SPACE or not self.free_reserve():
                raise
            self._write_beside(name, data, durable=durable)

    def free_reserve(self, name: str = RESERVE) -> bool:
        """Free reserved space; False when there is none."""
        try:
            os.unlink(self.at(name))
        except OSError:
            return False
        return True

    def write_end(self, end: FinalState) -> None:
        """Write `final.json` durably; on a full disk this uses up all reserves. Called after the program's end."""
        try:
            self.write("final.json", end, durable=True)
        except OSError as error:
            if error.errno not in NO_SPACE or not self.free_reserve(END_RESERVE):
                raise
            self.write("final.json", end, durable=True)

    def remove_overflow(self) -> None:
        """Remove the run's folder in memory, if there is one. May be repeated."""
        link = self.at(OVERFLOW)
        try:
            target = os.readlink(link)
            os.unlink(link)
        except OSError:
            return
        if os.path.dirname(target) == MEMORY and os.path.basename(target).startswith(IN_MEMORY):
            remove_tree(target)

    def _write_beside(self, name: str, data: bytes, *, durable: bool) -> None:
        path = self.at(name)
        write_whole(path, data, sync=durable)
        if durable:
            sync_folder(os.path.dirname(path))

    def make_durable(self, name: str) -> None:
        """Sync a file that was written before, so that it survives a loss of power."""
        fd = os.open(self.at(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_folder(self.path)

    def mark(self, name: str) -> bool:
        """Make the empty file `name`; False when it already existed."""
        try:
            fd = os.open(self.at(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        os.close(fd)
        return True


def claim(folder: RunFolder) -> Optional[int]:
    """Claim the attempt for this process; return the open, locked descriptor of `claim`, None when it is taken.

    The file appears complete and locked, by a hard link: no process can see a claim without an owner.
    """
    beside = folder.at(f"claim.{os.getpid()}.new")
    fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _write_all(fd, json.dumps(_identity()).encode())
        os.link(beside, folder.at("claim"))
    except FileExistsError:
        os.close(fd)
        return None
    finally:
        os.unlink(beside)
    return fd


def take_lock(folder: RunFolder, name: str) -> Optional[int]:
    """Lock the file `name` for the life of this process; return its descriptor, None when another process holds it."""
    fd = os.open(folder.at(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def remove_tree(path: str) -> None:
    """Remove a folder and all below it, whatever its modes; links are removed, never followed. Errors are ignored."""
    folders = [path]
    for folder in folders:  # grows during the loop: parents stand before their children
        folders += _clear_files(folder)
    for folder in reversed(folders):
        _try(os.rmdir, folder)


def _clear_files(folder: str) -> List[str]:
    """Remove all files and links in a folder; return its subfolders."""
    found = []
    try:
        if os.path.islink(folder):
            return []
        os.chmod(folder, 0o700)
        entries = list(os.scandir(folder))
    except OSError:
        return []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            found.append(entry.path)
        else:
            _try(os.unlink, entry.path)
    return found


def _identity() -> Dict[str, object]:
    entry = read_process(os.getpid())
    ticks = entry.start_ticks if entry else 0
    return {"pid": os.getpid(), "start_ticks": ticks, "boot_id": boot_id(), "container": container_id()}


def _try(act: Callable[[str], None], path: str) -> None:
    try:
        act(path)
    except OSError:
        pass


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def has_own_folders(job: JobSpec) -> bool:
    """Return whether each node has a work folder of its own, as nodes without a shared file system have.

    Raises:
        InvalidArgument: RUNYARD_WORK_FOLDER has an unknown value.
    """
    if len(job.nodes) < 2:
        return False
    variables = {**job.submitter, **job.spec.environment.variables, **job.spec.variables}
    return settings_of_run(Settings(Path(job.home)), variables).work_folder == PER_NODE


def shares_folder(job: JobSpec) -> bool:
    """Return whether several supervisors run the job's nodes on one shared work folder."""
    return job.is_gang and bool(job.shared_folder)


def prefix_of(job: JobSpec) -> str:
    """Return the prefix of this node's file names on the server: node 0 has none."""
    return f"node_{job.node_rank}/" if job.node_rank > 0 else ""


def work_folder(folder: RunFolder, job: JobSpec, node_rank: int) -> str:
    """Return the work folder of a node."""
    if shares_folder(job):
        return os.path.join(job.shared_folder, "work")
    return folder.at(f"work_{node_rank}" if node_rank > 0 and has_own_folders(job) else "work")


def work_folders(folder: RunFolder, job: JobSpec) -> List[str]:
    """Return all work folders of the nodes that run here, without repetition, the first node's first."""
    ranks = [node.rank for node in job.nodes] or [0]
    return list(dict.fromkeys(work_folder(folder, job, rank) for rank in ranks))


def remove_shared(job: JobSpec) -> None:
    """Remove the folder that node 0 made for all nodes. Only node 0 removes it; for other jobs nothing happens."""
    if not shares_folder(job) or job.node_rank > 0:
        return
    remove_tree(job.shared_folder)
    try:
        os.rmdir(os.path.dirname(job.shared_folder))
    except OSError:
        pass  # another attempt's folder is there


def drop_spares_of(job: JobSpec) -> None:
    """Remove the work folders that wait on this node for other runs, to make room."""
    from runyard.core.config.paths import spare_work_folder  # only for a full disk
    from runyard.core.machine.spare_work import drop_spares

    drop_spares(spare_work_folder(Path(job.home)))


def tracked_folders(folder: RunFolder, job: JobSpec) -> List[Dict[str, str]]:
    """Return the folders whose files belong to the run, by name, one dict per work folder.

    For an external run these are the folders of its process.
    """
    if job.interactive_folders:
        return [dict(job.interactive_folders)]
    if shares_folder(job) and job.node_rank > 0:
        return []  # node 0 stores the files of all nodes
    return [{name: f"{work}/{name}" for name in job.spec.output_folders} for work in work_folders(folder, job)]
