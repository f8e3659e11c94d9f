"""Print the failure of a command: what happened, why, and what to type next. Loads when a command has failed."""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import datetime, timezone
from pathlib import Path

from runyard.cli.text import plain, print_message
from runyard.core.config.paths import server_folder
from runyard.core.config.settings import read_settings
from runyard.core.errors import RunyardError, SystemFailure


def print_error(error: BaseException, *, as_json: bool = False) -> None:
    """Print it to stderr; with `as_json` to stdout as well, for programs."""
    if as_json:
        print_json_error(error)
    if isinstance(error, RunyardError):
        print_message(error.what, why=error.why, hint=error.hint)
        if isinstance(error, SystemFailure):
            _point_to(server_folder(read_settings().home) / "server.log")
        return
    message = getattr(error, "message", None)
    if message is not None and type(error).__module__.startswith("runyard."):
        print_message(str(message))
        return
    _print_our_fault(error)


def print_json_error(error: BaseException) -> None:
    """Print an error as one JSON object to stdout."""
    what = getattr(error, "what", None) or getattr(error, "message", None) or f"{type(error).__name__}: {error}"
    code = getattr(error, "code", type(error).__name__)
    found = {"code": str(code), "message": str(what)}
    found.update({name: str(getattr(error, name, "")) for name in ("why", "hint")})
    print(json.dumps({"error": found}, indent=2))


def _point_to(log: Path) -> None:
    if log.exists():
        print(f"log: {plain(log)}", file=sys.stderr)


def _print_our_fault(error: BaseException) -> None:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        place = _keep(text)
    except (OSError, RunyardError):
        print(text, file=sys.stderr)
        place = None
    print_message(
        f"Runyard stopped on a mistake of its own: {type(error).__name__}: {error}",
        why="This is not your code's fault, and no run is disturbed by it.",
        hint=f"Please report it with the traceback {f'in {place}' if place else 'above'}.",
    )


def _keep(text: str) -> Path:
    folder = read_settings().home / "crashes"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    moment = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    place = folder / f"cli-{moment}-{os.getpid()}.txt"
    place.write_text(text)
    return place
