"""What `run.log()` costs beside a bare `struct.pack` + `os.write` loop, and whether a killed script loses a point.

    python benchmarks/log_cost.py

Every figure is the best of several rounds that take turns with the bare loop, so that both see the same machine.
Exits with 1 when a ratio is over its target or a point is lost.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))

from figures import report  # noqa: E402

from runyard.core.formats import journal  # noqa: E402
from runyard.runtime.writer import JournalWriter  # noqa: E402

TARGET = 1.5
CALLS = 20_000
ROUNDS = 25
KILLS = 10

LOOP = """
import mmap, sys
sys.path.insert(0, sys.argv[1])
from runyard.runtime.writer import JournalWriter
with open(sys.argv[3], "r+b") as file:
    counter = mmap.mmap(file.fileno(), 8)
log = JournalWriter(sys.argv[2], "bench").log
returned = 0
while True:
    log("loss", float(returned))
    returned += 1
    counter[:8] = returned.to_bytes(8, "little")
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        costs = measure(Path(folder))
    bare = costs.pop("bare")
    reference = f"bare struct.pack + os.write {bare:.0f} ns"
    figures = [
        report(
            f"log.{name}", cost / bare, "x", target=f"<= {TARGET}", reference=f"{reference}, run.log() {cost:.0f} ns"
        )
        for name, cost in costs.items()
    ]
    returned, lost = kill_rounds()
    figures.append(
        report("log.lost_by_kill", lost, "points", target="== 0", reference=f"{returned} returned, {KILLS} kills")
    )
    return 0 if all(figure.ok for figure in figures) and returned else 1


def measure(folder: Path) -> dict[str, float]:
    """Return the best ns per call of each loop."""
    (folder / "journal").mkdir()
    writer = JournalWriter(folder, "bench")
    log = writer.log
    fd = os.open(folder / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    loops: dict[str, Callable[[], float]] = {
        "bare": lambda: bare_loop(fd),
        "float": lambda: log_loop(log, 0.5),
        "int": lambda: log_loop(log, 7),
        "bool": lambda: log_loop(log, True),
        "float_with_step": lambda: step_loop(log, 0.5),
    }
    try:
        import numpy as np
    except ImportError:
        print("numpy is not installed: its scalars are left out")
    else:
        loops["numpy_float64"] = lambda: log_loop(log, np.float64(0.5))
    best = {name: float("inf") for name in loops}
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            best[name] = min(best[name], loop())
        os.ftruncate(fd, 0)
    os.close(fd)
    writer.close()
    return best


def bare_loop(fd: int) -> float:
    pack, write = struct.Struct("<BBHIqqd").pack, os.write
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        write(fd, pack(1, 0, 0, 1, 0, 12345, 0.5))
    return (time.perf_counter_ns() - start) / CALLS


def log_loop(log: Callable[..., None], value: object) -> float:
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        log("loss", value)
    return (time.perf_counter_ns() - start) / CALLS


def step_loop(log: Callable[..., None], value: object) -> float:
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        log("loss", value, step=7)
    return (time.perf_counter_ns() - start) / CALLS


def kill_rounds() -> tuple[int, int]:
    """Return (calls that returned, points missing or wrong) over all rounds."""
    returned = lost = 0
    for _ in range(KILLS):
        with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
            count, found = kill_once(Path(folder))
        returned += count
        lost += sum(1 for index in range(count) if index >= len(found) or found[index] != float(index))
    return returned, lost


def kill_once(folder: Path) -> tuple[int, list[float]]:
    """Return how many calls the script had counted when it was killed, and the values in its journal."""
    (folder / "journal").mkdir()
    counter = folder / "counter"
    counter.write_bytes(bytes(8))
    with open(counter, "r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
        process = subprocess.Popen([sys.executable, "-c", LOOP, str(SOURCE), str(folder), str(counter)])
        try:
            while not any(shared[:8]) and process.poll() is None:
                time.sleep(0.005)
            time.sleep(random.uniform(0, 0.2))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        count = int.from_bytes(shared[:8], "little")
    return count, [value for path in sorted((folder / "journal").iterdir()) for value in read_floats(path)]


def read_floats(path: Path) -> list[float]:
    data = path.read_bytes()
    spans = [part for part in journal.iter_parts(data) if isinstance(part, journal.Span)]
    return [cell[6] for span in spans for cell in journal.NUMBER.iter_unpack(data[span.offset : span.end])]


if __name__ == "__main__":
    sys.exit(main())
