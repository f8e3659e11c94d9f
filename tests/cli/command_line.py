"""Call `runyard` as a user does: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def runyard(
    *arguments: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runyard.cli", *arguments],
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
        check=False,
    )
