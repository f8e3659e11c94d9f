"""24 injected faults, eight for each launcher: the diagnosis names the rank that failed first, in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.frameworks import OPEN_MPI_5, TENSORFLOW, TORCH, interpreter_with
from tests.faults.injected import expected, inject, possible, script_of
from tests.supervisor.supervised import Site

# The slowest first.
FAULTS = {"hang": 1, "exception": 3, "kill": 1, "import": 2, "port": 0, "memory": 2, "exit": 3, "segfault": 0}

# Where the framework has its own way to fail; rank 3 is the parameter server.
OF_TENSORFLOW = {"hang": 1, "exception": 2, "kill": 1, "port": 0}


@pytest.fixture
def site(home: Path) -> Iterator[Site]:
    site = Site(home)
    yield site
    site.close()


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["pytorch", "tensorflow"])
def test_the_rank_that_failed_first_is_named_whatever_the_fault(site: Site, launcher: str) -> None:
    faults = possible({"lingering": 2, **FAULTS})

    assert inject(site, launcher, script_of("sockets"), faults) == expected(launcher, faults)


@pytest.mark.external
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("launcher", "script", "packages", "faults"),
    [
        pytest.param("mpi", "mpi", OPEN_MPI_5, FAULTS, id="mpi4py"),
        pytest.param("pytorch", "torch_gloo", TORCH, FAULTS, id="torch"),
        pytest.param("tensorflow", "tensorflow_workers", TENSORFLOW, OF_TENSORFLOW, id="tensorflow"),
    ],
)
def test_the_rank_that_failed_first_is_named_with_a_real_framework(
    site: Site, launcher: str, script: str, packages: tuple[str, ...], faults: dict[str, int]
) -> None:
    interpreter = interpreter_with(packages)

    found = inject(site, launcher, script_of(script), faults, interpreter=interpreter, at_once=1)

    assert found == expected(launcher, faults)
