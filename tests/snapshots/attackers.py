"""Processes that change a folder while somebody else reads it. Each prints `ready` and works until it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXCHANGE = """
    import ctypes, os, sys
    one, other = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
    swap = ctypes.CDLL(None, use_errno=True).renameat2
    print("ready", flush=True)
    count = 0
    while True:
        if swap(-100, one, -100, other, 2):  # AT_FDCWD, RENAME_EXCHANGE
            sys.exit(os.strerror(ctypes.get_errno()))
        count += 1
        if count == 10_000:
            print("ten thousand", flush=True)
"""

REWRITE = """
    import os, random, sys, time
    files = [os.open(path, os.O_RDWR) for path in sys.argv[1:]]
    size = os.fstat(files[0]).st_size
    print("ready", flush=True)
    generation = 0
    while True:
        generation = (generation + 1) % 256
        for file in files:
            os.pwrite(file, bytes([generation]) * size, 0)
        time.sleep(random.random() * 0.0005)
"""

REPLACE = """
    import os, random, sys, time
    root = sys.argv[1]
    print("ready", flush=True)
    count = 0
    while True:
        count += 1
        folder = os.path.join(root, f"d{random.randrange(3)}")
        name = os.path.join(folder, f"f{random.randrange(4)}")
        try:
            what = random.randrange(6)
            if what == 0:
                os.unlink(name)
            elif what == 1:
                os.rename(folder, os.path.join(root, f"d{random.randrange(3)}"))
            elif what == 2:
                os.symlink(sys.argv[2], name)
            elif what == 3:
                os.makedirs(folder, exist_ok=True)
            else:
                data = bytes([count % 256]) * random.choice([10, 5000, 200000])
                with open(name, "r+b" if what == 4 and os.path.exists(name) else "wb", buffering=0) as file:
                    file.write(data)
                    file.truncate(len(data))
        except OSError:
            pass
"""


@contextmanager
def attack(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def read_naively(root: Path) -> Iterator[bytes]:
    """The control: list, look whether it is a link, open by path, as anybody would write it."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
        for name in files:
            path = os.path.join(folder, name)
            try:
                if not os.path.islink(path):
                    with open(path, "rb", buffering=0) as file:
                        yield file.read()
            except OSError:
                pass


def remove_links(root: Path) -> None:
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            try:
                if os.path.islink(path):
                    os.unlink(path)
            except OSError:
                pass
