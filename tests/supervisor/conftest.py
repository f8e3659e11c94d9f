from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.supervised import Site


@pytest.fixture
def site(home: Path) -> Iterator[Site]:
    site = Site(home)
    yield site
    site.close()


@pytest.fixture
def mpirun(site: Site) -> dict[str, str]:
    """Return the submitter's variables with a stand-in for Open MPI on PATH."""
    folder = site.home / "mpi" / "bin"
    folder.mkdir(parents=True)
    script = Path(__file__).with_name("standin_mpirun.py")
    for name, text in (("mpirun", f"exec '{sys.executable}' '{script}' \"$@\""), ("prted", "exit 1")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}
