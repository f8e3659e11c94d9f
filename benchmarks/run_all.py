"""Run every benchmark by itself and print one table: `make bench`, or `python benchmarks/run_all.py NAME…` for some.

`--record` keeps the figures in results.json, from which docs/trust.md is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import Figure, parse_figure
from recorded import record

HERE = Path(__file__).parent
NOT_BENCHMARKS = {
    "figures.py",
    "first_line.py",
    "private_home.py",
    "recorded.py",
    "run_all.py",
    "serving_peers.py",
    "source_tree.py",
}
LIMIT_S = 900


def main(names: list[str]) -> int:
    found = [path for path in sorted(HERE.glob("*.py")) if path.name not in NOT_BENCHMARKS]
    is_recorded = "--record" in names
    names = [name for name in names if name != "--record"]
    chosen = [path for path in found if not names or path.stem in names]
    unknown = set(names) - {path.stem for path in found}
    if unknown:
        print(f"error: no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(path.stem for path in found)}")
        return 2
    rows: list[tuple[str, Figure]] = []
    faults: list[str] = []
    for path in chosen:
        figures, fault = run_one(path)
        rows += [(path.stem, figure) for figure in figures]
        faults += [fault] if fault else []
    print_table(rows)
    if is_recorded and rows:
        record(rows)
    for fault in faults:
        print(f"failed: {fault}")
    return 1 if faults or not all(figure.ok for _, figure in rows) else 0


def run_one(path: Path) -> tuple[list[Figure], str]:
    """Return the figures that a benchmark printed, and what went wrong with it."""
    print(f"\n== {path.name} ==", flush=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="ry-bench-") as home:
        environ = {**os.environ, "RUNYARD_HOME": home, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
            start_new_session=True,
        )
        # A benchmark that hangs must not hang the rest; its group goes with it.
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.alarm(LIMIT_S)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                figure = parse_figure(line)
                figures += [figure] if figure else []
            code = process.wait()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            signal.alarm(0)
        stop_server(environ)
    if code:
        return figures, f"{path.name} ended with {code}"
    return figures, "" if figures else f"{path.name} printed no figure"


def stop_server(environ: dict[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "runyard.cli", "server", "stop"],
        env=environ,
        check=False,
        capture_output=True,
        timeout=60,
    )


def print_table(rows: list[tuple[str, Figure]]) -> None:
    lines = [("benchmark", "figure", "value", "target", "", "reference")]
    for benchmark, figure in rows:
        target = f"{figure.op} {figure.target:g}" if figure.op else ""
        verdict = "" if not figure.op else "ok" if figure.ok else "MISSED"
        lines.append((benchmark, figure.name, f"{figure.value:g} {figure.unit}", target, verdict, figure.reference))
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    print()
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
