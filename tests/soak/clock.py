"""The wall clock of a server, which can be set while it runs."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

from tests import debian

SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    def __init__(self, folder: Path) -> None:
        self._file, self._library = folder / "clock", folder / "clock.so"
        if shutil.which("cc") is None and shutil.which("apt-get"):
            debian.install("gcc", "libc6-dev")
        words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl"]
        subprocess.run(words, check=True)
        self.set(0)

    def set(self, offset_s: int) -> None:
        """Put it so many seconds ahead of the true time."""
        mode = "r+b" if self._file.exists() else "w+b"  # in place: processes have it mapped
        with open(self._file, mode) as file:
            file.write(struct.pack("<q", offset_s))

    def variables(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "SOAK_CLOCK": str(self._file)}
