"""Repair this home's server while it is stopped. Loads for `runyard server repair` alone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

from runyard.client import processes
from runyard.client.server_python import find_server_python
from runyard.core.config.settings import read_settings
from runyard.core.errors import SystemFailure, error_from_plain
from runyard.core.formats.documents import RepairAnswer


def repair_own() -> RepairAnswer:
    """Repair the home's database and check its content, in a process that has the server's packages.

    Raises:
        RunyardError: what that process found wrong, as the same class.
    """
    settings = read_settings()
    python = find_server_python(settings)
    command = [python.path, "-m", "runyard.server", "--home", str(settings.home), "--repair"]
    variables = processes.server_variables(settings, os.environ, code=python.code)
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise SystemFailure(
            "The repair ended without an answer.", why=f"`{shlex.join(command)}` left with {done.returncode}."
        ) from None
    if "error" in answer:
        raise error_from_plain(answer["error"])
    report: RepairAnswer = answer["report"]
    return report
