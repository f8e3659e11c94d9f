"""A source folder of 1 GB in 20,000 files: from submit to the script's first line, against `cp -r` and `sha256sum`.

The first submit stores everything and makes a work folder of it. The second finds all of it stored; where the file
system has reflinks (RUNYARD_BENCH_FOLDER names a folder on one; btrfs or XFS), its work folder is made without copying.
The longest silence between submit and the first line is measured as well. RUNYARD_BENCH_SHOW=1 shows what is said.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import report
from private_home import private_home
from source_tree import write_modules

FOLDERS, FILES, FILE_BYTES = 200, 100, 50_000
SCRIPT = """\
import os, sys, time
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(time.monotonic_ns()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
print("first line", flush=True)
"""


def main() -> None:
    where = os.environ.get("RUNYARD_BENCH_FOLDER")
    if where:
        tempfile.tempdir = where
    with tempfile.TemporaryDirectory(prefix="ry-big-") as folder, private_home():
        source, tiny = Path(folder, "source"), Path(folder, "tiny")
        make_tree(source)
        tiny.mkdir()
        (tiny / "train.py").write_text(SCRIPT)
        submit(tiny)  # the server is up, and everything that a run needs is loaded once
        small = min(submit(tiny).first_line_s for _ in range(3))
        copies, sums = [copied(folder, source)], [summed(source)]
        first = submit(source)
        copies.append(copied(folder, source))
        sums.append(summed(source))
        again = [submit(source) for _ in range(3)]
        clones = has_reflinks(folder, source)

    copy, reference_s = sum(copies) / 2, (sum(copies) + sum(sums)) / 2
    least = min(each.first_line_s for each in again)
    reference = f"cp -r {copy:.1f} s + sha256sum {sum(sums) / 2:.1f} s"
    report("big_folder.first", first.first_line_s / reference_s, "x", target="<= 1.5", reference=reference)
    report("big_folder.first_s", first.first_line_s, "s")
    report("big_folder.again", least / copy, "x", reference=f"cp -r {copy:.1f} s")
    report("big_folder.again_s", least, "s", target="<= 1" if clones else "", reference=f"a tiny folder {small:.2f} s")
    report("big_folder.silence_s", max(each.silence_s for each in (first, *again)), "s", target="<= 2")


class Submitted:
    def __init__(self, first_line_s: float, silence_s: float) -> None:
        self.first_line_s = first_line_s
        self.silence_s = silence_s


def submit(source: Path) -> Submitted:
    """Run `runyard submit` as a user would, and time its words."""
    mark = source.parent / "mark"
    command = [sys.executable, "-m", "runyard.cli", "submit", "--name", "big", "--source", str(source)]
    start = time.monotonic()
    process = subprocess.Popen(
        [*command, str(source / "train.py"), "--", str(mark)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    words = [start]
    assert process.stdout is not None
    first_line = 0.0
    while True:
        data = os.read(process.stdout.fileno(), 1 << 16)
        if os.environ.get("RUNYARD_BENCH_SHOW"):
            print(f"{time.monotonic() - start:6.2f}", data.decode("utf-8", "replace").rstrip(), flush=True)
        words.append(time.monotonic())
        if not data:
            break
        if b"first line" in data and not first_line:
            first_line = words[-1]
    assert process.wait() == 0
    began = int(mark.read_text()) / 1e9
    mark.unlink()
    told = [moment for moment in words if moment <= first_line]
    return Submitted(began - start, max(after - before for before, after in zip(told, told[1:])))


def make_tree(source: Path) -> None:
    """Write the files and the script, and wait until the walk may trust their times."""
    write_modules(source, folders=FOLDERS, files=FILES, file_bytes=FILE_BYTES)
    (source / "train.py").write_text(SCRIPT)
    os.sync()
    time.sleep(2.1)  # a file that was just written is read once more


def copied(folder: str, source: Path) -> float:
    target = Path(folder, "copy")
    took = timed(["cp", "-r", "--reflink=never", str(source), str(target)])
    subprocess.run(["rm", "-rf", str(target)], check=True)
    return took


def summed(source: Path) -> float:
    return timed(["sh", "-c", 'find "$0" -type f -print0 | xargs -0 sha256sum > /dev/null', str(source)])


def has_reflinks(folder: str, source: Path) -> bool:
    """Whether the file system can share the blocks of two files."""
    command = ["cp", "--reflink=always", str(source / "train.py"), str(Path(folder, "clone"))]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def timed(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
