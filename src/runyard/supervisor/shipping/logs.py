"""The run's logs as they grow: the program's, ours, a build's and a `with` block's, shipped by offset."""

from __future__ import annotations

import os
import stat
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.errors import RunyardError
from runyard.core.names import stored_file_name, true_file_name
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.segments import is_unreadable, read_part

PART_BYTES = 4 << 20  # of one file per request, so that nothing waits for one busy file
MOST_HELD = 256  # files kept open
BUILD_FOLDER = "azureml-logs"
# In this order: when the program's log is seen, all that was said about its environment is on disk.
FOLDERS = ("user_logs", "system_logs", "logs", BUILD_FOLDER)

Frame = Tuple[Dict[str, Any], bytes]


class Log:
    """One log file; `offset` None: the server has to say how much it holds.

    The file is held open: one that the program removes can be read to its end. `start` is the log's offset where the
    file begins, which is 0 unless the program put another file in its place or shortened it.
    """

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.offset: Optional[int] = None
        self.size = 0
        self.refusal = ""  # why the server does not take it
        self.is_unreadable = False
        self.start = 0
        self._fd = -1

    @property
    def is_behind(self) -> bool:
        is_asked = self.offset is None or (self.offset < self.size and not self.is_unreadable)
        return is_asked and not self.refusal

    @property
    def is_held(self) -> bool:
        return self._fd >= 0

    def look(self, listed: Optional[int], *, hold: bool) -> str:
        """Take the size that the folder's listing says (None: not there); return what the program did to the file.

        `hold`: open the file, if it is not.
        """
        if listed is not None and (self._is_same() if self.is_held else not hold or self._hold()):
            self.size = self.start + listed
            return self._note_cut(listed)
        if not self.is_held:
            return self._note_lost()
        self.size = self.start + os.fstat(self._fd).st_size
        if listed is not None and self.offset is not None and self.offset >= self.size:
            os.close(self._fd)  # all of it is shipped: go on with the one in its place
            self._fd, self.start, self.size = -1, self.offset, self.offset + listed
            return f"The program put another file in the place of {self.name}; both are kept, one after the other."
        return f"The program removed {self.name}. It is still open here: what it holds is stored."

    def frame(self) -> Optional[Frame]:
        """Return the next part; an empty one asks for the server's size."""
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
        except OSError:  # reading it will tell
            pass
        return True

    def _is_same(self) -> bool:
        """Whether the name still stands for the file that is held."""
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
        if self._fd >= 0:
            return os.pread(self._fd, PART_BYTES, position)
        return read_part(self.path, position, PART_BYTES)


class Logs:
    def __init__(
        self, folder: RunFolder, *, warn: Callable[[str, str], None], folders: Sequence[str] = FOLDERS
    ) -> None:
        self._folder = folder
        self._folders = folders
        self._warn = warn
        self._logs: Dict[str, Log] = {}

    def look(self) -> None:
        sizes = {name: size for folder in self._folders for name, size in self._sizes(folder)}
        for name in sizes:
            self._logs.setdefault(name, Log(name, self._folder.at(true_file_name(name))))
        held = 0
        for log in self._logs.values():
            said = log.look(sizes.get(log.name), hold=held < MOST_HELD)
            held += log.is_held
            if said:
                self._warn("logs", said)
            if log.is_unreadable:
                self._warn("logs", f"{log.name} cannot be read; what was shipped before is kept.")

    def behind(self) -> List[Log]:
        """Return what the server lacks parts of; a build's log goes before the program's, so who has that has both."""
        found = [log for log in self._logs.values() if log.is_behind]
        builds = [log for log in found if log.name.startswith(BUILD_FOLDER + "/")]
        return builds or found

    def took(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            if name in self._logs:
                self._logs[name].offset = size

    def sizes(self) -> Dict[str, int]:
        return {log.name: log.offset for log in self._logs.values() if log.offset and not log.refusal}

    def forget(self) -> None:
        for log in self._logs.values():
            log.offset = None

    def refused(self) -> List[Log]:
        return [log for log in self._logs.values() if log.refusal]

    def _sizes(self, folder: str) -> List[Tuple[str, int]]:
        try:
            entries = list(os.scandir(self._folder.at(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:  # it may pass, and nothing was removed by it
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
