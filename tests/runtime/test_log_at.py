"""`log_at`, which MLflow's plug-in calls: the step and the millisecond that were given come back."""

from __future__ import annotations

from pathlib import Path

from runyard.core.formats import journal
from runyard.runtime.writer import JournalWriter
from tests.runtime.journals import read_segments


def test_steps_and_times_that_the_caller_gives_come_back(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "r1")
    given = [("loss", 0.5, 0, 1_700_000_000_123), ("loss", 0.25, -3, 1_234_567_890_999), ("a b/c", 1e300, 1 << 40, 1)]
    for name, value, step, at_ms in given:
        writer.log_at(name, value, step, at_ms)
    writer.close()
    [segment] = read_segments(tmp_path)
    offset = segment.header["wall_ns"] - segment.header["t"]

    found = [(point.name, point.value, point.step, (point.time + offset) // 1_000_000) for point in segment.points]
    assert found == given


def test_a_logged_parameter_is_one_record(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "r1")
    writer.log_param("lr", "0.1")
    writer.close()

    assert read_segments(tmp_path)[0].records == [(journal.PARAM, {"key": "lr", "value": "0.1"})]
