"""The guide's blocks run in order, from an empty folder, and print what their comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parent.parent.parent / "docs/guides/native-api.md"


@pytest.mark.long
def test_the_blocks_of_the_guide_run_in_order(home: Path, folder: Path) -> None:
    program = []
    for block in re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        named = re.match(r"# (\w+\.py)\n", block)
        if named is not None:
            Path(named[1]).write_text(block)
        else:
            program.append(block)
    Path("program.py").write_text("\n".join(program))

    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[:6] == ["0.125", "higher lr {'lr': '0.3', 'epochs': '5'}", "Completed", "Completed", "Completed", "42"]
    assert "[<RunHandle higher lr Completed>]" in said
    assert said[-1] == "Completed 3"
