"""The server's reserve: given to what makes room, kept from everything else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runyard.core.errors import Conflict, StoreUnavailable
from runyard.engine.state.reserve import SIZE_BYTES, Reserve


def test_the_reserve_has_real_blocks(tmp_path: Path) -> None:
    Reserve(tmp_path).keep()
    status = os.stat(tmp_path / "reserve")

    assert status.st_size == SIZE_BYTES
    assert status.st_blocks * 512 >= SIZE_BYTES
    assert status.st_mode & 0o777 == 0o600


def test_work_that_finds_the_disk_full_gets_the_reserve_and_a_second_try(tmp_path: Path) -> None:
    reserve, seen = Reserve(tmp_path), []

    def work() -> str:
        seen.append((tmp_path / "reserve").exists())
        if seen[-1]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return "done"

    assert reserve.spend(work) == "done"
    assert seen == [True, False]
    assert reserve.spend((tmp_path / "reserve").exists), "there is room, so it is made again"


def test_without_a_reserve_the_error_is_told(tmp_path: Path) -> None:
    def work() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        Reserve(tmp_path / "missing").spend(work)


@pytest.mark.parametrize("error", [Conflict("no"), StoreUnavailable("The database is locked.")], ids=["ours", "store"])
def test_other_errors_do_not_cost_the_reserve(tmp_path: Path, error: Exception) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)):
        Reserve(tmp_path).spend(work)

    assert (tmp_path / "reserve").exists()
