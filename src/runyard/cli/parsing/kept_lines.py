"""`--json` of commands that have no records: their lines as one JSON object. Loads when it is given."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import Any, Callable

from runyard.cli.parsing.context import ExitWith
from runyard.cli.parsing.terminal import echo


class KeptLines(io.StringIO):
    """Stands for stdout while a command's lines are kept."""

    is_kept = True  # questions go to stderr, where they are seen


def with_lines_as_json(call: Callable[[], Any]) -> Any:
    """Call a command, and print its lines of stdout as one JSON object, also when it ends with a code of its own."""
    lines = KeptLines()
    try:
        with redirect_stdout(lines):
            answer = call()
    except ExitWith:
        echo(json.dumps({"output": lines.getvalue().splitlines()}, indent=2))
        raise
    echo(json.dumps({"output": lines.getvalue().splitlines()}, indent=2))
    return answer
