"""A source folder to measure with: packages of modules of one size, the same bytes each time."""

from __future__ import annotations

import random
from pathlib import Path


def write_modules(source: Path, *, folders: int, files: int, file_bytes: int) -> None:
    """Write `package_<n>/module_<n>.py` files, half of each random and half text."""
    noise = random.Random(7).randbytes
    text = b"".join(b"line %d of a source file\n" % number for number in range(4000))[: file_bytes // 2]
    for folder in range(folders):
        (source / f"package_{folder}").mkdir(parents=True)
        for file in range(files):
            (source / f"package_{folder}" / f"module_{file}.py").write_bytes(noise(file_bytes // 2) + text)
