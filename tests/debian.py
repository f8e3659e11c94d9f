"""Packages of Debian that tests need, installed where they are missing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path


def install(*packages: str) -> None:
    """Install them; one process of this machine at a time, for apt itself does not wait for another."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    words = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    with (Path(tempfile.gettempdir()) / "runyard-tests-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A new machine has no lists, or old ones.
        if subprocess.run(words, env=environ, check=False, capture_output=True).returncode != 0:
            subprocess.run(["apt-get", "update", "-q"], env=environ, check=True, capture_output=True)
            subprocess.run(words, env=environ, check=True, stdout=subprocess.DEVNULL)
