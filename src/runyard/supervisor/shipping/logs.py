"""Ships the run's logs as they grow, by offset: the program's, the supervisor's, a build's and a `with` block's."""

from __future__ import annotations

import os
import stat
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.errors import RunyardError
from runyard.core.names import stored_file_name, true_file_name
from runyard.supervisor.disk import find_output, offset_of
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.segments import is_unreadable, read_part

PART_BYTES = 4 << 20  # of one file per request, so that no other file waits for it
MOST_HELD = 256  # files kept open
BUILD_FOLDER = "azureml-logs"
# The program's log is listed first: when it exists, the build log is already complete.
FOLDERS = ("user_logs", "system_logs", "logs", BUILD_FOLDER)

Frame = Tuple[Dict[str, Any], bytes]


class Log:
    """One log file and how much of it is shipped. `offset` None: the server must first say how much it has.

    The file is kept open, so that a removed file can be read to its end. `start` is the log's offset at which the file
    begins: 0 unless the program replaced or shortened the file. `rest`: paths and sizes of the files in memory that
    continue it, after the end of a program on a full disk.
    """

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.offset: Optional[int] = None
        self.size = 0
        self.refusal = ""  # why the server refuses it
        self.is_unreadable = False
        self.start = 0
        self.rest: Sequence[Tuple[str, int]] = ()
        self._fd = -1

    @property
    def is_behind(self) -> bool:
        """Whether the server lacks bytes of the log, or must be asked how much it has."""
        is_asked = self.offset is None or (self.offset < self.size and not self.is_unreadable)
        return is_asked and not self.refusal

    @property
    def is_held(self) -> bool:
        """Whether the file is open."""
        return self._fd >= 0

    def look(self, listed: Optional[int], *, hold: bool) -> str:
        """Take the listed size (None: not listed); return a sentence when the program removed or replaced the file.

        `hold`: open the file if it is not open.
        """
        if listed is not None and (self._is_same() if self.is_held else not hold or self._hold()):
            self.size = self.start + listed
            return self._note_cut(listed)
        if not self.is_held:
            return self._note_lost()
        self.size = self.start + os.fstat(self._fd).st_size + sum(size for _, size in self.rest)
        if listed is not None and self.offset is not None and self.offset >= self.size:
            os.close(self._fd)  # all of it is shipped: go on with the new file
            self._fd, self.start, self.size = -1, self.offset, self.offset + listed
            return f"The program put another file in the place of {self.name}; both are kept, one after the other."
        return f"The program removed {self.name}. It is still open here: what it holds is stored."

    def frame(self) -> Optional[Frame]:
        """Return the next part; an empty part asks for the server's size. None when there is nothing to send."""
        if self.offset is None:
            return {"kind": "log", "name": self.name, "offset": 0}, b""
        try:
            data = self._read(max(0, self.offset - self.start))
        except OSError as error:
            data, self.is_unreadable = b"", is_unreadable(error)
        return ({"kind": "log", "name": self.name, "offset": self.offset}, data) if data else None

    def _hold(self) -> bool:
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError:  # the next read reports it
            pass
        return True

    def _is_same(self) -> bool:
        """Return whether the path still names the file that is open."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self.path, follow_symlinks=False))
        except OSError:
            return False

    def _note_lost(self) -> str:
        if self.offset is None or self.size == self.offset:
            return ""
        lost, self.size = self.size - self.offset, self.offset
        return f"The program removed {self.name}: {lost} bytes of it are lost, what was shipped before is kept."

    def _note_cut(self, file_size: int) -> str:
        if self.offset is None or self.size >= self.offset:
            return ""
        self.start, self.size = self.offset - file_size, self.offset
        return f"The program removed or shortened {self.name}; what was shipped before is kept."

    def _read(self, position: int) -> bytes:
        end = self.size - self.start - sum(size for _, size in self.rest)  # of the log's own file
        if position < end or not self.rest:
            most = min(PART_BYTES, end - position) if self.rest else PART_BYTES
            return os.pread(self._fd, most, position) if self._fd >= 0 else read_part(self.path, position, most)
        for path, size in self.rest:
            if position < end + size:
                return read_part(path, position - end, PART_BYTES)
            end += size
        return b""


class Logs:
    """The logs of a run folder. `Shipper` calls it under its lock."""

    def __init__(
        self, folder: RunFolder, *, warn: Callable[[str, str], None], folders: Sequence[str] = FOLDERS
    ) -> None:
        self._folder = folder
        self._folders = folders
        self._warn = warn
        self._logs: Dict[str, Log] = {}

    def look(self) -> None:
        """Scan the log folders for new, grown, cut and removed logs. Repeated before every request."""
        rests = self._rests()  # before the sizes: it may be written into the log's own file now
        sizes = {name: size for folder in self._folders for name, size in self._sizes(folder)}
        for name in sizes:
            log = self._logs.setdefault(name, Log(name, self._folder.at(true_file_name(name))))
            begins, log.rest = rests.get(name, (sizes[name], ()))
            sizes[name] = min(sizes[name], begins) + sum(size for _, size in log.rest)
        held = 0
        for log in self._logs.values():
            said = log.look(sizes.get(log.name), hold=held < MOST_HELD)
            held += log.is_held
            if said:
                self._warn("logs", said)
            if log.is_unreadable:
                self._warn("logs", f"{log.name} cannot be read; what was shipped before is kept.")

    def behind(self) -> List[Log]:
        """Return the logs that the server lacks bytes of; build logs alone go before all others."""
        found = [log for log in self._logs.values() if log.is_behind]
        builds = [log for log in found if log.name.startswith(BUILD_FOLDER + "/")]
        return builds or found

    def took(self, sizes: Mapping[str, int]) -> None:
        """Take the sizes that the server has stored."""
        for name, size in sizes.items():
            if name in self._logs:
                self._logs[name].offset = size

    def sizes(self) -> Dict[str, int]:
        """Return the stored sizes for the final state, without refused logs."""
        return {log.name: log.offset for log in self._logs.values() if log.offset and not log.refusal}

    def forget(self) -> None:
        """Forget the stored sizes; the server is asked again."""
        for log in self._logs.values():
            log.offset = None

    def refused(self) -> List[Log]:
        """Return the logs that the server refuses."""
        return [log for log in self._logs.values() if log.refusal]

    def _rests(self) -> Dict[str, Tuple[int, List[Tuple[str, int]]]]:
        """Return the output in memory: for each log where it begins, and its files."""
        found: Dict[str, Tuple[int, List[Tuple[str, int]]]] = {}
        for name, sources in find_output(self._folder).items():
            for source in sources:
                try:
                    size = os.stat(self._folder.at(source)).st_size
                except OSError:  # it is in the log's own file now
                    continue
                _, files = found.setdefault(stored_file_name(name), (offset_of(source), []))
                files.append((self._folder.at(source), size))
        return found

    def _sizes(self, folder: str) -> List[Tuple[str, int]]:
        try:
            entries = list(os.scandir(self._folder.at(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:  # a passing error does not mean that the logs were removed
            return [(log.name, log.size) for log in self._logs.values() if log.name.startswith(f"{folder}/")]
        found = []
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append((stored_file_name(f"{folder}/{entry.name}"), status.st_size))
            except (OSError, RunyardError):
                continue
        return found
