"""The run's logs as they grow: the program's, ours, a build's and a `with` block's, shipped by offset."""

from __future__ import annotations

import os
import stat
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.errors import RunyardError
from runyard.core.names import clean_file_name
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.segments import is_unreadable, read_part

PART_BYTES = 4 << 20  # of one file per request, so that nothing waits for one busy file
MOST_TRIES = 3
BUILD_FOLDER = "azureml-logs"
# In this order: when the program's log is seen, all that was said about its environment is on disk.
FOLDERS = ("user_logs", "system_logs", "logs", BUILD_FOLDER)

Frame = Tuple[Dict[str, Any], bytes]


class Log:
    """One log file; `offset` None: the server has to say how much it holds."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.offset: Optional[int] = None
        self.size = 0
        self.failures = 0
        self.is_unreadable = False

    @property
    def is_behind(self) -> bool:
        is_asked = self.offset is None or (self.offset < self.size and not self.is_unreadable)
        return is_asked and self.failures < MOST_TRIES

    def frame(self) -> Optional[Frame]:
        """Return the next part; an empty one asks for the server's size."""
        if self.offset is None:
            return {"kind": "log", "name": self.name, "offset": 0}, b""
        try:
            data = read_part(self.path, self.offset, PART_BYTES)
        except OSError as error:
            data, self.is_unreadable = b"", is_unreadable(error)
        return ({"kind": "log", "name": self.name, "offset": self.offset}, data) if data else None


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
        for name, size in sizes.items():
            self._logs.setdefault(name, Log(name, self._folder.at(name))).size = size
        for log in self._logs.values():
            is_cut = log.name not in sizes or log.size < (log.offset or 0)
            if log.offset is not None and is_cut and log.size != log.offset:
                log.size = log.offset
                self._warn("logs", f"The program removed or shortened {log.name}; what was shipped before is kept.")
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
                self._logs[name].offset, self._logs[name].failures = size, 0

    def sizes(self) -> Dict[str, int]:
        return {log.name: log.offset for log in self._logs.values() if log.offset and log.failures < MOST_TRIES}

    def forget(self) -> None:
        for log in self._logs.values():
            log.offset = None

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
                    found.append((clean_file_name(f"{folder}/{entry.name}"), status.st_size))
            except (OSError, RunyardError):
                continue
        return found
