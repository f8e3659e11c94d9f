"""docs/reference/settings.md describes every setting, with its default."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from runyard.core.config.settings import Settings, read_settings

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/reference/settings.md").read_text()
VARIABLES = re.findall(r"# (RUNYARD_[A-Z_]+)", (ROOT / "src/runyard/core/config/settings.py").read_text())
ROWS = {row[0]: row[1] for row in re.findall(r"^\| `(RUNYARD_[A-Z_]+)` \| ([^|]*) \|", PAGE, re.MULTILINE)}


def test_every_setting_names_its_variable_and_is_described() -> None:
    assert len(VARIABLES) == len(dataclasses.fields(Settings))
    assert set(ROWS) == set(VARIABLES)


def test_the_defaults_on_the_page_are_the_real_ones() -> None:
    found = read_settings({})

    assert ROWS["RUNYARD_IDLE_STOP"] == f"`{found.idle_stop_s:g}`"
    assert ROWS["RUNYARD_PORT"] == f"`{found.port}`"
    assert ROWS["RUNYARD_LOCAL_RUNS"] == f"`{found.local_runs}`"
    assert ROWS["RUNYARD_GRACE"] == f"`{found.grace_s:g}`"
    assert ROWS["RUNYARD_LOG_LEVEL"] == f"`{found.log_level}`"
    assert (found.url, found.token, found.keep_run_folders) == (None, None, False)
