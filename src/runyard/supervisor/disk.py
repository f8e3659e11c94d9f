"""Keeps a run going when the disk of its run folder is full, and explains failures that come from it.

A reserve file keeps space for the run's end. While there is no space, processes write into a folder in memory.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Callable, Dict, List

from runyard.core.machine import disk
from runyard.supervisor.run_folder import RunFolder, remove_tree

logger = logging.getLogger(__name__)

RESERVE_BYTES = 1 << 20  # for exit records and diagnosis, while processes of the run may still write
END_BYTES = 256 << 10  # for the end, when none of them is left
FULL_BYTES = 64 << 10  # with less than this the disk counts as full
RECENT_S = 30.0  # a failure this long after the disk was full may come from it
_BROUGHT_HOME = ("exceptions", "ends")
_OUTPUT = f"{disk.OVERFLOW}/user_logs"


class Disk:
    """Watches the disk of one run folder and manages its reserve and its folder in memory.

    The thread `disk` calls `look`; the supervisor's main thread calls the rest after the program's end. No method
    raises because of the disk. `note` shows on the run what it waits for; an empty text removes that. `make_room` is
    called when the disk turns out to be full, and removes what can be made again.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        warn: Callable[[str, str], None],
        note: Callable[[str], None],
        make_room: Callable[[], None] = lambda: None,
        memory: str = disk.MEMORY,
    ) -> None:
        self._folder = folder
        self._warn = warn
        self._note = note
        self._make_room = make_room
        self._memory = memory
        self._made = ""  # the folder in memory
        self._full_at = float("-inf")
        self.is_full = False

    def look(self) -> None:
        """Check whether there is space; while there is none, provide the folder in memory. Repeated every second."""
        if not (self._folder.has(disk.RESERVE) and self._folder.has(disk.END_RESERVE)):
            self._prepare()
        is_full = self._has_no_room() or any(count.waiting for count in self._counts())
        if is_full:
            self._full_at = time.monotonic()
        if is_full and not self._folder.is_gone():
            self._make_overflow()
        if is_full != self.is_full:
            if is_full:
                self._make_room()
            self.is_full = is_full
            self._say()

    def bring_home(self) -> None:
        """Write what processes left in memory into the run folder. Called after the program's end; may be repeated.

        Output that the disk has no room for stays in memory: `find_output` lists it, and it is shipped from there.
        """
        if not os.path.isdir(self._folder.at(disk.OVERFLOW)):
            return
        self._folder.free_reserve()
        self._folder.free_reserve(disk.END_RESERVE)
        for name in _BROUGHT_HOME:
            for entry in _list(self._folder, f"{disk.OVERFLOW}/{name}"):
                self._append(f"{name}/{entry}", f"{disk.OVERFLOW}/{name}/{entry}")
        self._place_output()
        for log, sources in find_output(self._folder).items():
            for source in sources:
                if not self._bring_output(log, source):
                    break  # what follows must not come before it

    def warn_of_losses(self) -> None:
        """Warn about records and output that processes could not write. Called after the program's end."""
        for count in self._counts():
            why = "the disk was full" if count.code in disk.NO_SPACE else (os.strerror(count.code) or "unknown reason")
            records, numbers = count.waiting + count.lost, count.waiting_numbers + count.lost_numbers
            if count.owner.startswith(disk.OUTPUT):
                process = count.owner[len(disk.OUTPUT) :]
                self._warn("logs", f"{records} bytes that process {process} printed could not be kept: {why}.")
            else:
                of = f"{records} records of {count.owner} ({numbers} of them numbers)"
                self._warn("journal", f"{of} could not be kept: {why}.")

    def explain(self) -> str:
        """Return a sentence for the error of a run that failed while the disk was full, else an empty text."""
        if time.monotonic() - self._full_at > RECENT_S and not self._has_no_room():
            return ""
        return (
            f"The disk that holds `{self._folder.path}` was full when it ended, which may be the reason: "
            "programs that write files then fail.\nFree space there and submit it again."
        )

    def remove_overflow(self) -> None:
        """Remove the folder in memory: its content is stored, or the run is gone. May be repeated."""
        self._folder.remove_overflow()
        if self._made:
            remove_tree(self._made)

    def _prepare(self) -> None:
        try:
            self._make_counts()
            for name, size in ((disk.END_RESERVE, END_BYTES), (disk.RESERVE, RESERVE_BYTES)):
                if not self._folder.has(name):
                    self._make_reserve(name, size)
        except OSError as error:
            logger.debug("no reserve: %s", error)

    def _make_counts(self) -> None:
        """Write the file of counts in full: its cells are later overwritten in place, which needs no space."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._folder.at(disk.WAITING), flags, 0o600)
        except FileExistsError:
            return
        try:
            os.write(fd, bytes(disk.COUNTS * disk.COUNT_BYTES))
        finally:
            os.close(fd)

    def _make_reserve(self, name: str, size: int) -> None:
        status = os.statvfs(self._folder.path)
        if status.f_bavail * status.f_frsize < 8 * RESERVE_BYTES:
            return
        fd = os.open(self._folder.at(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError:
            self._remove(name)
            raise
        finally:
            os.close(fd)

    def _has_no_room(self) -> bool:
        try:
            status = os.statvfs(self._folder.path)
        except OSError:
            return False
        free = status.f_bavail if os.geteuid() else status.f_bfree  # some file systems keep a part for root
        return free * status.f_frsize < FULL_BYTES and status.f_blocks > 0

    def _counts(self) -> List[disk.Count]:
        try:
            fd = os.open(self._folder.at(disk.WAITING), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return []
        try:
            return list(disk.iter_counts(os.pread(fd, disk.COUNTS * disk.COUNT_BYTES, 0)))
        except OSError:
            return []
        finally:
            os.close(fd)

    def _make_overflow(self) -> None:
        """Make the folder in memory and link to it: a link this short needs no block of the disk."""
        link = self._folder.at(disk.OVERFLOW)
        if os.path.lexists(link):
            return
        made = ""
        try:
            if os.stat(self._memory).st_dev == os.stat(self._folder.path).st_dev:
                return
            made = os.path.join(self._memory, f"{disk.IN_MEMORY}{os.urandom(8).hex()}")
            os.mkdir(made, 0o700)
            os.mkdir(f"{made}/journal", 0o700)
            os.symlink(made, link)
            self._made = made
        except OSError as error:
            logger.warning("there is no folder in memory for what the disk has no room for: %s", error)
            if made:
                remove_tree(made)

    def _say(self) -> None:
        if not self.is_full:
            logger.info("there is space again below %s", self._folder.path)
            self._note("")
            return
        where = f"The disk that holds {self._folder.path} is full"
        self._note(f"the disk is full: waiting for space below {self._folder.path}")
        self._warn("disk", f"{where}. What the run logs and prints waits in memory; files cannot be written.")

    def _append(self, target: str, source: str) -> None:
        try:
            data = self._folder.read_bytes(source)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._folder.at(target), flags, 0o600)
            try:
                while data:
                    data = data[os.write(fd, data) :]
            finally:
                os.close(fd)
            self._remove(source)
        except OSError as error:
            logger.warning("%s could not be taken over: %s", source, error)
            self._warn("disk", f"What a process left for {target} could not be kept: {error.strerror}.")

    def _place_output(self) -> None:
        """Give each process's output its offset in the log, by its name: <log>.<pid> becomes <log>@<offset>."""
        for entry in sorted(_list(self._folder, _OUTPUT)):
            if "@" in entry:
                continue
            log = entry.rpartition(".")[0]
            try:
                placed = f"{_OUTPUT}/{log}@{self._end_of(f'user_logs/{log}'):020d}"
                os.rename(self._folder.at(_OUTPUT, entry), self._folder.at(placed))
            except OSError as error:
                logger.warning("%s could not be taken over: %s", entry, error)
                self._warn("disk", f"What a process left for user_logs/{log} could not be kept: {error.strerror}.")

    def _end_of(self, log: str) -> int:
        """Return where the log ends, with its output in memory."""
        fd = os.open(self._folder.at(log), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            ends = [os.fstat(fd).st_size]
        finally:
            os.close(fd)
        for source in find_output(self._folder).get(log, ()):
            ends.append(offset_of(source) + os.stat(self._folder.at(source)).st_size)
        return max(ends)

    def _bring_output(self, log: str, source: str) -> bool:
        """Write output into its log, at its offset; False when it stays in memory. A repetition doubles nothing."""
        try:
            data = self._folder.read_bytes(source)
            status = os.statvfs(self._folder.path)
            if status.f_bavail * status.f_frsize < len(data) + END_BYTES:
                return False
            fd = os.open(self._folder.at(log), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                _write_at(fd, data, offset_of(source))
            finally:
                os.close(fd)
        except OSError as error:
            logger.warning("%s stays in memory: %s", source, error)
            return False
        self._remove(source)
        return True

    def _remove(self, name: str) -> None:
        try:
            os.unlink(self._folder.at(name))
        except OSError:
            pass


def find_output(folder: RunFolder) -> Dict[str, List[str]]:
    """Return the output that lies in memory, for each log in its order. Empty before the program's end."""
    found: Dict[str, List[str]] = {}
    for entry in sorted(_list(folder, _OUTPUT)):
        log, is_placed, _ = entry.rpartition("@")
        if is_placed:
            found.setdefault(f"user_logs/{log}", []).append(f"{_OUTPUT}/{entry}")
    return found


def offset_of(source: str) -> int:
    """Return where output in memory belongs in its log."""
    return int(source.rpartition("@")[2])


def _write_at(fd: int, data: bytes, offset: int) -> None:
    written = 0
    try:
        while written < len(data):
            written += os.pwrite(fd, data[written:], offset + written)
    except OSError:
        os.ftruncate(fd, offset)
        raise


def _list(folder: RunFolder, name: str) -> List[str]:
    try:
        return os.listdir(folder.at(name))
    except OSError:
        return []
