"""A stand-in for `os.write` that does what a failing disk does."""

from __future__ import annotations

import os

# What a writer's own calls raise is told from what a signal handler raises by the module it comes from.
__name__ = "runyard.runtime.faulty_disk"


class FaultyDisk:
    """`fault` None: works. A number: that error. "short": writes half of the next write, then works."""

    def __init__(self) -> None:
        self.fault: int | str | None = None
        self.calls = 0

    def write(self, fd: int, data: bytes) -> int:
        self.calls += 1
        if isinstance(self.fault, int):
            raise OSError(self.fault, os.strerror(self.fault))
        if self.fault == "short":
            self.fault = None
            return os.write(fd, data[: len(data) // 2])
        return os.write(fd, data)
