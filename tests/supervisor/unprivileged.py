"""Looks at output folders as a user whom file modes stop, also where the tests run as root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

LOOK = """\
import json, os, sys
from runyard.supervisor.shipping.files import OutputFiles
from runyard.supervisor.run_folder import RunFolder
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
said = []
class Nothing:
    uploaded_at = {}
    def add(self, source, what, why):
        said.append(f"{what}: {why}")
    def list_kept(self, index, fresh):
        return []
    def upload_many(self, run_id, files):
        return [FileNotFoundError() for _ in files]
files = OutputFiles(
    RunFolder("/nonexistent"), "r", [{"outputs": sys.argv[1] + "/outputs"}],
    tree=Nothing(), uploader=Nothing(), explicit=Nothing(), refusals=Nothing(),
    warn=lambda source, message: said.append(message),
)
files.finish()
print(json.dumps(said))
"""


def left_out_of(work: Path) -> list[str]:
    """Return what a supervisor would say about files that it cannot store."""
    for folder in (work, *list(work.parents)[:3]):
        if os.stat(folder).st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    ended = subprocess.run([sys.executable, "-c", LOOK, str(work)], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(ended.stdout)
    return found
