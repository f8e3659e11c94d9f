"""Figures that are published: kept in results.json with their day, commit and machine. `make trust` writes them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from figures import Figure

FILE = Path(__file__).parent / "results.json"


def record(rows: Sequence[Tuple[str, Figure]], *, file: Path = FILE) -> None:
    """Add the figures; those of the same benchmark that were there before are replaced."""
    measured = {benchmark for benchmark, _ in rows}
    kept = [row for row in read(file) if row["benchmark"] not in measured]
    place = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "commit": _commit(), "machine": machine()}
    for benchmark, figure in rows:
        told = {"benchmark": benchmark, "name": figure.name, "value": figure.value, "unit": figure.unit}
        target = f"{figure.op} {figure.target:g}" if figure.op and figure.target is not None else ""
        kept.append({**told, "target": target, "ok": figure.ok, "reference": figure.reference, **place})
    kept.sort(key=lambda row: (row["benchmark"], row["name"]))
    file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def read(file: Path = FILE) -> List[Dict[str, Any]]:
    return json.loads(file.read_text()) if file.exists() else []  # type: ignore[no-any-return]


def machine() -> str:
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    cores = len(os.sched_getaffinity(0))
    return f"{cpu or platform.machine()}, {cores} cores, {memory / 2**20:.0f} GiB, Python {platform.python_version()}"


def _lines(path: str) -> List[str]:
    return Path(path).read_text().splitlines()


def _commit() -> str:
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(words, cwd=FILE.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()
