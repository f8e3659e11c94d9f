"""Why a run failed, in at most 15 lines: the message, the lines of the log that show it, and where the rest is."""

from __future__ import annotations

from typing import Any

from runyard.cli.text import plain, plain_block
from runyard.core.records import Run

LAST_LINES = "\n\nLast lines of"  # where a run's error message begins to quote its log
MOST_MESSAGE = 7
MOST_EVIDENCE = 4
WIDTH = 160


def failure_report(run: Run, *, with_log: bool) -> str:
    """Return what to print after `error: `. `with_log`: a run of one process shows the end of its log as well."""
    error = run.error or {}
    message = str(error.get("message") or error.get("code") or "The run failed and left no message.")
    details = error.get("details") or {}
    if len(details.get("consequences") or ()) == 0 and details.get("kind") != "hang":
        return plain_block(message if with_log else message.partition(LAST_LINES)[0])
    lines = _cut(message.partition(LAST_LINES)[0].splitlines(), MOST_MESSAGE)
    lines += _evidence(details.get("evidence") or ())
    rest = details.get("stacks") or details.get("log")
    lines += ["", f"more: runyard runs logs {run.id} --file {rest}"] if rest else []
    return plain_block("\n".join(lines))


def _evidence(found: Any) -> list[str]:
    if not found:
        return []
    shown = [one for one in found if isinstance(one, dict)][:MOST_EVIDENCE]
    places = [f"{one.get('file')}:{one['line']}" if one.get("line") else str(one.get("file")) for one in shown]
    width = max(len(place) for place in places)
    texts = [plain(str(one.get("text", "")).strip())[:WIDTH] for one in shown]
    return ["", "evidence", *(f"  {place.ljust(width)}  {text}" for place, text in zip(places, texts, strict=True))]


def _cut(lines: list[str], most: int) -> list[str]:
    """Keep the first and the last lines: the sentence, then who and where."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 4], "…", *lines[-3:]]
