"""The event files of one run, copied to this machine while they grow."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Tuple

from runyard.core.errors import RunyardError
from runyard.core.names import true_file_name
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus

LIVE = "logs/"
MARK = "tfevents"


class RunLogs:
    """`copy` gets what changed since; a server that does not answer now is asked again with the next."""

    def __init__(self, run: Any, folder: str) -> None:
        self._run = run
        self._folder = folder
        self._copied: Dict[str, Tuple[int, Any]] = {}
        self.is_over = False

    def copy(self) -> bool:
        """Return whether anything was new."""
        try:
            ended = RunStatus(self._run.get_status()).is_terminal
            files = list(self._changed())
            for file, target in files:
                self._run._client.runs.download(self._run.id, file.name, target, expected=file)
                self._copied[file.name] = (file.size, file.sha256)
        except RunyardError:
            return False
        self.is_over = ended and not files
        return bool(files)

    def _changed(self) -> Iterator[Tuple[RunFile, str]]:
        for file in self._run._client.runs.files(self._run.id):
            name = true_file_name(file.name)
            if file.kind != "blob" or not (name.startswith(LIVE) or MARK in os.path.basename(name)):
                continue
            if self._copied.get(file.name) != (file.size, file.sha256):
                below = name[len(LIVE) :] if name.startswith(LIVE) else name
                yield file, os.path.join(self._folder, below)
