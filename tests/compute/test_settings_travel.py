"""What a user set reaches the supervisors of all runs, through the server that was started meanwhile."""

from __future__ import annotations

from pathlib import Path

from runyard.client.processes import server_variables
from runyard.compute.fork_server import supervisor_variables
from runyard.core.config.settings import read_settings


def test_how_runs_are_watched_is_the_same_for_their_supervisors(tmp_path: Path) -> None:
    asked = {"RUNYARD_HANG_AFTER": "12.5", "RUNYARD_HANG_FAILS": "1", "RUNYARD_SAMPLE_EVERY": "0"}
    settings = read_settings({"RUNYARD_HOME": str(tmp_path), **asked})

    found = read_settings(supervisor_variables(settings, server_variables(settings, {})))

    assert (found.hang_after_s, found.hang_fails, found.sample_every_s) == (12.5, True, 0.0)
