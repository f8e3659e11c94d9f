"""A word about work that takes longer than a second."""

from __future__ import annotations

import pytest

from runyard.cli import output
from runyard.cli.output import Progress, size


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    counted = Progress("compared", 3)
    for done in range(3):
        counted.step(done)

    assert capsys.readouterr().err == ""


def test_one_big_file_says_how_much_of_all_has_come(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "FIRST_AFTER_S", 0.0)
    came = Progress("downloaded", 4_000_000, show=size).part(1_000_000, "outputs/model.bin (file 2 of 3)")
    came(500_000)
    came(1_000_000)

    assert capsys.readouterr().err.splitlines() == [
        "downloaded 1.5 MB of 4.0 MB: outputs/model.bin (file 2 of 3)",
        "downloaded 2.0 MB of 4.0 MB: outputs/model.bin (file 2 of 3)",
    ]
