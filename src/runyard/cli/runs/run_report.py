"""A run as text: why it failed, its report for `runyard runs show`, and its output while it goes on.

`failure_report` has at most 15 lines: the message, the log lines that show it, and the place of the rest. `print_end`
is the short form at the end of a submit. `follow` prints the output to stdout until the run ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from runyard import cli
from runyard.cli.lookup import name_of, no_such_file
from runyard.cli.output import duration, moment, number, print_fields
from runyard.cli.text import LogPrinter, plain, plain_block
from runyard.core.errors import NotFound
from runyard.core.machine.progress import shown_size
from runyard.core.records import IGNORED_PROPERTY, MetricInfo, Run, RunFile
from runyard.core.statuses import RunStatus
from runyard.sdk.runs.details import PollInterval, attempts_of
from runyard.sdk.runs.log_stream import BUILD_WAIT_S, STARTED_AGAIN, is_build_log, next_log, pick_log
from runyard.sdk.runs.waiting import WaitingLine
from runyard.sdk.workspaces.server import Client

LAST_LINES = "\n\nLast lines of"  # where a run's error message begins to quote its log
MOST_MESSAGE = 7
MOST_EVIDENCE = 4
WIDTH = 160
WAIT_S = 5.0
PART_BYTES = 1 << 20
TAIL_BYTES = 1 << 16  # read at a time from a log's end
_NOT_RESULTS = ("logs/", "user_logs/", "system_logs/", "azureml-logs/", "diagnosis")


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
    return ["", "evidence", *(f"  {place.ljust(width)}  {text}" for place, text in zip(places, texts))]


def _cut(lines: list[str], most: int) -> list[str]:
    """Keep the first and the last lines: the message, and the place of the failure."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 4], "…", *lines[-3:]]


def print_run(run: Run, metrics: Sequence[MetricInfo], files: Sequence[RunFile], *, page: str) -> None:
    print_fields(
        [
            ("run", name_of(run)),
            ("name", run.display_name if run.display_name != run.id else ""),
            ("id", run.id),
            ("status", run.status),
            ("waits for", run.waits_for if not run.status.is_terminal else ""),
            ("created", moment(run.created_at)),
            ("started", moment(run.started_at)),
            ("ended", moment(run.ended_at)),
            ("submitted by", run.submitted_by),
            ("duration", duration(run)),
            ("target", run.spec.target),
            ("nodes", str(run.spec.distribution.node_count) if run.spec.distribution.node_count > 1 else ""),
            ("command", command_of(run)),
            ("environment", _environment_text(run)),
            ("python", run.environment.get("interpreter") or run.spec.environment.interpreter),
            ("commits", "; ".join(f"{line}: {commit}" for line, commit in run.environment.get("commits", {}).items())),
            ("left out", _left_out_text(run)),
            ("tags", ", ".join(key if value is None else f"{key}={value}" for key, value in run.tags.items())),
            ("parent", run.parent_id),
            ("page", page),
        ]
    )
    _print_section("attempts", [(str(one["attempt"]), _attempt_text(one)) for one in attempts_of(run)])
    _print_section("parameters", sorted(run.parameters.items()))
    _print_section("metrics", [(metric.name, _metric_text(metric)) for metric in metrics])
    _print_section("files", [(file.name, shown_size(file.size)) for file in files])
    _print_section("warnings", [(str(item.get("source", "")), str(item.get("message", ""))) for item in run.warnings])
    if run.error:
        cli.echo(f"\nerror: {failure_report(run, with_log=True)}")


def print_end(run: Run, metrics: Sequence[MetricInfo], files: Sequence[RunFile]) -> None:
    """Say on stderr how a run ended and what it left."""
    lasted = duration(run)
    cli.echo(f"\nRun {plain(run.id)}: {run.status}{f' after {lasted}' if lasted else ''}.", err=True)
    shown = [f"{plain(metric.name)} {plain(number(metric.last))}" for metric in metrics if metric.kind == "scalar"]
    kept = [plain(file.name) for file in files if not file.name.startswith(_NOT_RESULTS)]
    for title, items in (("metrics", shown), ("files", kept)):
        if items:
            more = f" and {len(items) - 6} more" if len(items) > 6 else ""
            cli.echo(f"{title}: {', '.join(items[:6])}{more}", err=True)
    for warning in run.warnings:
        cli.echo(f"warning: {plain(str(warning.get('message', '')))}", err=True)
    if run.status is not RunStatus.COMPLETED and run.error:
        # Its last lines have just been streamed.
        cli.echo(f"error: {failure_report(run, with_log=False)}", err=True)
    cli.echo(f"more: runyard runs show {plain(run.id)}", err=True)


def command_of(run: Run) -> str:
    if run.spec.command:
        return run.spec.command
    return " ".join(filter(None, [run.spec.script, *run.spec.arguments]))


def _environment_text(run: Run) -> str:
    """Return name and version of the environment that the run named; the default one goes without saying."""
    spec = run.spec.environment
    if spec.kind == "system" and spec.version is None:
        return ""
    return f"{spec.name}, version {spec.version}" if spec.version else spec.name


def _left_out_text(run: Run) -> str:
    if IGNORED_PROPERTY not in run.properties:
        return ""
    from runyard.sdk.runs.source import ignored_text  # it loads what takes snapshots

    return ignored_text(run.properties)


def _attempt_text(one: Mapping[str, Any]) -> str:
    """Return how an attempt went: `NodeLost on n7: …`, `Running`."""
    where = f" on {one['host']}" if one.get("host") else ""
    why = f": {one['why']}" if one.get("why") else ""
    return f"{one['status']}{where}{why}"


def _metric_text(metric: MetricInfo) -> str:
    if metric.kind == "artifact":
        return str(metric.artifact or "")
    if metric.kind == "table":
        return f"{metric.count} row(s) of {', '.join(metric.columns)}"
    text = number(metric.last)
    if metric.count > 1:
        text += f"  (last of {metric.count}"
        if metric.minimum is not None and metric.maximum is not None:
            text += f", from {number(metric.minimum)} to {number(metric.maximum)}"
        text += ")"
    return text


def _print_section(title: str, rows: Sequence[tuple[str, str]]) -> None:
    if not rows:
        return
    cli.echo(f"\n{title}")
    width = min(max(len(plain(name)) for name, _ in rows), 60)
    for name, text in rows:
        cli.echo(f"  {plain(name).ljust(width)}  {plain(text)}".rstrip())


def find_main_log(client: Client, run_id: str) -> str | None:
    """Return the name of the first process's output, when it has written any."""
    return pick_log(file.name for file in client.runs.files(run_id))


def follow(
    client: Client,
    run_id: str,
    name: str | None = None,
    *,
    redact: bool = False,
    is_talk: bool = False,
    last_lines: int | None = None,
) -> Run:
    """Print the run's output, or its file `name`, until the run has ended; return the run as it ended.

    Before it, what was said while its environment was built goes to stderr; with `is_talk` the output too. With
    `last_lines`, that many of the lines that are there already are printed.
    """
    pace = PollInterval()
    name_now = name or (find_main_log(client, run_id) if last_lines is not None else None)
    with WaitingLine(run_id) as waiting:
        log = _Log(client, run_id, name, redact=redact, before=waiting.clear, stream=sys.stderr if is_talk else None)
        if last_lines is not None and name_now is not None:
            log.skip_to_last(name_now, last_lines)
        while True:
            # The status is read before the log: a final one means that every byte is there.
            run = client.runs.get(run_id)
            waiting.hear(run)
            if run.status.is_terminal:
                log.print_rest()
                return run
            if not log.print_growth(wait_s=WAIT_S):
                time.sleep(pace.next())


def wait(client: Client, run_id: str) -> Run:
    """Return the run once it has ended."""
    pace = PollInterval()
    while True:
        run = client.runs.get(run_id)
        if run.status.is_terminal:
            return run
        time.sleep(pace.next())


def print_log(client: Client, run_id: str, name: str, *, redact: bool = False, last_lines: int | None = None) -> None:
    """Print what there is of a file now, or its last lines."""
    log = _Log(client, run_id, name, redact=redact)
    if last_lines is not None:
        log.skip_to_last(name, last_lines)
    log.print_rest()


class _Log:
    """`before` is called before anything is printed; `stream` is where a run's own output goes, stdout by default."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        name: str | None,
        *,
        redact: bool,
        before: Callable[[], None] = lambda: None,
        stream: TextIO | None = None,
    ) -> None:
        self._before = before
        self._client = client
        self._run_id = run_id
        self._asked_for = name
        self._name = name
        self._printer = LogPrinter(stream, redact=redact)
        self._talk = LogPrinter(sys.stderr, redact=redact)
        self._offset = 0

    def skip_to_last(self, name: str, lines: int) -> None:
        """Turn to this file, where its last lines begin; it is read backwards from its end."""
        self._name = name
        size = begin = self._client.runs.read_file(self._run_id, name, 0, 1).size
        found = 0
        while begin > 0:
            end, begin = begin, max(begin - TAIL_BYTES, 0)
            at = end - begin
            data = self._client.runs.read_file(self._run_id, name, begin, at).data
            while (at := data.rfind(b"\n", 0, at)) >= 0:
                found += begin + at + 1 < size  # the file's own end begins no line
                if found == lines:
                    self._offset = begin + at + 1
                    return

    def print_growth(self, *, wait_s: float | None = None) -> bool:
        """Print one part; return whether there was anything new."""
        if self._name is None and not self._move_on():
            return False
        return self._print_part(wait_s) or self._move_on()

    def _print_part(self, wait_s: float | None) -> bool:
        assert self._name is not None
        is_talk = not self._asked_for and is_build_log(self._name)
        wait_s = min(wait_s, BUILD_WAIT_S) if wait_s is not None and is_talk else wait_s
        try:
            part = self._client.runs.read_file(self._run_id, self._name, self._offset, PART_BYTES, wait_s)
        except NotFound:
            return False
        self._before()
        if part.size < self._offset:  # the next attempt's log has taken the name over
            self._offset = 0
            cli.echo(STARTED_AGAIN, err=True)
            return True
        (self._talk if is_talk else self._printer).write(part.data)
        self._offset += len(part.data)
        return bool(part.data)

    def _move_on(self) -> bool:
        """Turn to the next log, if there is one."""
        if self._asked_for or (self._name is not None and not is_build_log(self._name)):
            return False
        name = next_log((file.name for file in self._client.runs.files(self._run_id)), self._name)
        if name is None:
            return False
        while self._name is not None and self._print_part(None):  # where the next log is, all of this one is
            pass
        self._name, self._offset = name, 0
        return True

    def print_rest(self) -> None:
        while self.print_growth():
            pass
        self._talk.finish()
        self._printer.finish()
        if self._asked_for and not self._offset:
            self._check_that_it_exists(self._asked_for)

    def _check_that_it_exists(self, name: str) -> None:
        known = [file.name for file in self._client.runs.files(self._run_id)]
        if name not in known:
            raise no_such_file(self._run_id, name, known)
