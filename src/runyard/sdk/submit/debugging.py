"""`runyard submit --debug PORT`: the script waits for a debugger, started by debugpy, before its first line."""

from __future__ import annotations

import os
from typing import List

from runyard.core.errors import InvalidArgument
from runyard.core.specs import MODULE
from runyard.sdk.submit.entry import Entry, shell_line


def under_debugger(entry: Entry, port: int, *, processes: int) -> Entry:
    """Return what starts the entry's script or module with debugpy, which listens on loopback only.

    Raises:
        InvalidArgument: it is nothing that Python's debugger can start, or it runs in several processes.
    """
    script = entry.script or ""
    if not script or not (script.startswith(MODULE) or script.endswith(".py")):
        raise InvalidArgument(
            "--debug goes with a Python script or a module.",
            why=f"This is {entry.command or script}.",
            hint="In a command, start the script with `python -m debugpy --listen PORT --wait-for-client train.py`.",
        )
    if processes > 1:
        raise InvalidArgument(
            f"--debug goes with one process, and this job has {processes}.",
            hint="Leave out --nodes, --processes and --framework, or call debugpy.listen() in the script by its rank.",
        )
    what = ["-m", script[len(MODULE) :]] if script.startswith(MODULE) else [script]
    words = ["python", "-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--wait-for-client", *what, *entry.arguments]
    return Entry(entry.source, None, shell_line(words), [], entry.name)


def how_to_attach(entry: Entry, port: int, target: str) -> List[str]:
    """Return what to do on this machine, a line each."""
    folder = os.path.abspath(entry.source)
    lines = [
        f"The script waits for a debugger on port {port} of the machine that runs it. VS Code, in launch.json: "
        f'{{"name": "Runyard", "type": "debugpy", "request": "attach", "connect": {{"port": {port}}}, '
        f'"pathMappings": [{{"localRoot": "{folder}", "remoteRoot": "."}}]}}.'
    ]
    if target != "local":
        lines.append(f"On another machine, first: ssh -L {port}:127.0.0.1:{port} MACHINE.")
    return lines
