"""What can wake a waiting supervisor: the FIFO `wake`, its own threads, and `control.json`."""

from __future__ import annotations

import os
import select
from typing import Optional

from runyard.supervisor.run_folder import RunFolder


class Wake:
    """The FIFO is opened for reading and writing, so it never reads as closed."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        try:
            os.mkfifo(folder.at("wake"), 0o600)
        except FileExistsError:
            pass
        self._fifo = os.open(folder.at("wake"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._rung = False
        self._control: Optional[int] = None

    def notify(self) -> None:
        """Called by other threads of this process."""
        try:
            os.write(self._writer, b"\n")
        except BlockingIOError:
            pass

    def wait(self, also: Optional[int], timeout_s: float) -> None:
        """Wait for any of these or the descriptor `also`, at most `timeout_s`."""
        poll = select.poll()
        for fd in (self._fifo, self._reader, also):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(max(0, int(timeout_s * 1000) + 1))}
        if self._fifo in ready:
            self._rung = True
            _drain(self._fifo)
        if self._reader in ready:
            _drain(self._reader)

    def was_rung(self) -> bool:
        """Whether somebody wrote to the FIFO since the last call."""
        rung, self._rung = self._rung, False
        return rung

    def control_changed(self) -> bool:
        """Whether `control.json` is there and new."""
        try:
            changed = os.stat(self._folder.at("control.json")).st_mtime_ns
        except OSError:
            return False
        if changed == self._control:
            return False
        self._control = changed
        return True

    def desired(self) -> Optional[str]:
        """Return what `control.json` itself asks for; usually it only says that the server knows something new."""
        if self._control is None:
            return None
        value = self._folder.read_object("control.json").get("desired")
        return value if value in ("cancel", "fail") else None


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass
