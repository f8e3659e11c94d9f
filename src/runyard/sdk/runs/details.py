"""Details of a run in Azure's words and shapes, the addresses of its pages, and waiting for its end.

`PollInterval` is the pause between two polls of a run: short at first, longer the longer the run takes. `RetryRead`
bridges a short absence of the server: a restart, an upgrade, a full disk.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, TextIO, TypedDict, TypeVar, cast

from runyard.core.errors import RunyardError, SystemFailure, is_later
from runyard.core.formats.documents import ErrorDetails, RunWarning, UncaughtException
from runyard.sdk.exceptions import ActivityFailedException, ExperimentExecutionException

if TYPE_CHECKING:
    from datetime import datetime

    from runyard.client.client import Client
    from runyard.core import records
    from runyard.sdk.runs.run import Run


_PRIVATE = ("http://127.0.0.1:", "http://localhost:")
_LOG_FOLDERS = ("user_logs/", "system_logs/", "azureml-logs/", "logs/azureml/")
_LOG_ENDINGS = (".txt", ".log")
MAX_LOG_BYTES = 32 << 20  # of one log in get_details_with_logs: an endless loop that prints makes gigabytes
SHORTEST_S = 0.02
LONGEST_S = 2.0
T = TypeVar("T")
LIMIT_S = 60.0
PAUSE_S = 0.25
_NO_ERROR = "The run ended as Failed, and no error was recorded. Look at its logs: run.get_details_with_logs()."


def portal_url(client: Client, path: str, *, out: Optional[TextIO] = None) -> str:
    """Return the address of the page at `path`; of a private server, one that signs the browser in when it is opened.

    That is for somebody at a terminal (`out`, by default stdout) or in a notebook. What goes to a file or to the log of
    a build is read by others, and addresses of a team's server are sent to others: those sign nobody in, `runyard
    studio` does.
    """
    page = page_url(client, path)
    is_ours = page.startswith(_PRIVATE) and _has_reader(sys.stdout if out is None else out)
    return signin_url(client, path) if is_ours else page


def page_url(client: Client, path: str) -> str:
    """Return the plain address of the page at `path`, which signs nobody in."""
    return (client.address.web_url or "").rstrip("/") + path


def _has_reader(out: Optional[TextIO]) -> bool:
    if "ipykernel" in sys.modules:
        return True
    try:
        return out is not None and out.isatty()
    except (ValueError, AttributeError):  # closed, or only something to write to
        return False


def signin_url(client: Client, path: str) -> str:
    """Return the address of the page at `path`; who opens it first is signed in as who asks here.

    A run's own token may not sign anybody in, so inside a run it is the plain address.
    """
    try:
        return page_url(client, client.server.signin_path(path))
    except RunyardError:
        return page_url(client, path)


def experiment_path(workspace: str, name: str) -> str:
    from urllib.parse import urlencode  # most programs never ask for an address

    query = {"experiment": name} if workspace == "default" else {"workspace": workspace, "experiment": name}
    return f"/runs?{urlencode(query)}"


class AzureErrorBody(TypedDict, total=False):
    code: str
    message: str
    debug_type: str  # the exception's
    debug_message: str
    debug_stack_trace: str
    details_uri: str  # of the log
    data: Dict[str, Any]  # what else is known: ErrorDetails


class AzureRunError(TypedDict):
    error: AzureErrorBody
    time: Optional[str]


class AttemptDetails(TypedDict, total=False):
    """What became of one attempt; the present one has no more than a number and a status."""

    attempt: int
    status: str
    why: str
    host: str
    givenUpTimeUtc: Optional[str]
    endTimeUtc: Optional[str]


class AzureRunDetails(TypedDict, total=False):
    """Azure's details of a run, and ours (`warnings`, `submittedBy`, `attempts`). What is not known has no key."""

    runId: str
    target: str
    status: str
    startTimeUtc: str
    endTimeUtc: str
    services: Dict[str, Any]
    error: AzureRunError
    warnings: List[RunWarning]
    properties: Dict[str, str]
    inputDatasets: List[Any]
    outputDatasets: List[Any]
    runDefinition: Dict[str, Any]
    logFiles: Dict[str, str]
    submittedBy: str
    attempts: List[AttemptDetails]


def get_details(run: Run) -> AzureRunDetails:
    """Return Azure's details of the run as it is now, with the addresses of its logs."""
    record = run._refresh()
    return details_of(record, {file.name: file_url(run, file.name) for file in list_logs(run)})


def get_details_with_logs(run: Run) -> AzureRunDetails:
    """Return the details with the text of each log instead of its address."""
    details = run.get_details()
    details["logFiles"] = {name: log_text(run, name) for name in details["logFiles"]}
    return details


def list_logs(run: Run) -> List[records.RunFile]:
    return [file for file in run._client.runs.files(run.id) if is_log(file.name)]


def log_text(run: Run, name: str) -> str:
    """Return the text of a log; of one above `MAX_LOG_BYTES`, its end."""
    part = run._client.runs.read_file(run.id, name, limit=MAX_LOG_BYTES)
    if part.size <= MAX_LOG_BYTES:
        return part.data.decode("utf-8", "replace")
    left_out = part.size - MAX_LOG_BYTES
    part = run._client.runs.read_file(run.id, name, offset=left_out, limit=MAX_LOG_BYTES)
    note = f"[{left_out} bytes before this are left out; run.get_all_logs() or download_file({name!r}) gets all]\n"
    return note + part.data.decode("utf-8", "replace")


def file_url(run: Run, name: str) -> str:
    """Return the address of a file of the run in the HTTP API."""
    from urllib.parse import quote  # most runs are never asked for it

    return page_url(run._client, f"/api/v1/runs/{quote(run.id)}/files/{quote(name)}")


def is_log(name: str) -> bool:
    if name.startswith("attempt_"):  # a log of one that was given up
        name = name.partition("/")[2]
    return name.startswith(_LOG_FOLDERS) or (name.startswith("logs/") and name.endswith(_LOG_ENDINGS))


def _input(run: records.Run, name: str) -> Dict[str, object]:
    given = run.spec.datasets[name]
    facts = (run.environment.get("datasets") or {}).get(name) or {}
    return {
        "dataset": {"id": given.dataset.id, "name": given.name or None, "version": given.version or None},
        "consumptionDetails": {"type": "RunInput", "inputName": name, "mechanism": given.mode.capitalize()},
        "facts": facts,
    }


def _output(run: records.Run, name: str) -> Dict[str, object]:
    output = run.spec.outputs[name]
    place = {"datastore": output.datastore, "path": output.path.replace("{run-id}", run.id)}
    return {"outputName": name, "mechanism": output.mode.capitalize(), "destination": place}


def details_of(run: records.Run, logs: Dict[str, str]) -> AzureRunDetails:
    """Return Azure's details of `run`; what is not known (an end, an error) has no key."""
    details: Dict[str, object] = {
        "runId": run.id,
        "target": run.spec.target if run.type else "local",
        "status": str(run.status),
        "startTimeUtc": utc_text(run.started_at),
        "endTimeUtc": utc_text(run.ended_at),
        "services": {},
        "error": error_of(run, logs),
        "warnings": [dict(warning) for warning in run.warnings] or None,
        "properties": dict(run.properties),
        "inputDatasets": [_input(run, name) for name in run.spec.datasets],
        "outputDatasets": [_output(run, name) for name in run.spec.outputs],
        "runDefinition": dict(run.spec.definition),
        "logFiles": logs,
        "submittedBy": run.submitted_by,
        "attempts": attempts_of(run) or None,
    }
    return cast("AzureRunDetails", {key: value for key, value in details.items() if value is not None})


def attempts_of(run: records.Run) -> List[AttemptDetails]:
    """Return what became of each attempt of a run that was started more than once, the present one last."""
    if not run.attempts:
        return []
    given_up: List[AttemptDetails] = [
        {
            "attempt": attempt.number,
            "status": attempt.code,
            "why": attempt.why,
            "host": attempt.host,
            "givenUpTimeUtc": utc_text(attempt.given_up_at),
            "endTimeUtc": utc_text(attempt.ended_at),
        }
        for attempt in run.attempts
    ]
    return given_up if run.is_fenced else [*given_up, {"attempt": run.attempt, "status": str(run.status)}]


def error_of(run: records.Run, logs: Dict[str, str]) -> Optional[AzureRunError]:
    """Return the error as {'error': {'code', 'message', 'debug_type', …}}; what else is known is under `data`."""
    if not run.error:
        return None
    known = run.error.get("details") or ErrorDetails()
    exception = known.get("exception") or UncaughtException()
    # The exception has keys of its own here, and the message ends with the last lines.
    data = {key: value for key, value in known.items() if key not in ("exception", "last_lines")}
    error = {
        "code": run.error.get("code") or "UserError",
        "message": run.error.get("message") or "",
        "debug_type": exception.get("type"),
        "debug_message": exception.get("message"),
        "debug_stack_trace": exception.get("traceback"),
        "details_uri": logs.get(str(data.get("log"))),
        "data": data or None,
    }
    body = cast("AzureErrorBody", {key: value for key, value in error.items() if value is not None})
    return {"error": body, "time": utc_text(run.ended_at)}


def utc_text(moment: Optional[datetime]) -> Optional[str]:
    """Return a time as Azure prints it: 2020-06-23T22:42:21.133448Z."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class PollInterval:
    """`next()` is a twentieth of the time since the start, between the two limits.

    Azure's variables AZUREML_RUN_POLLING_INTERVAL_MIN and _MAX (seconds) move the limits.
    """

    def __init__(
        self, *, environ: Optional[Mapping[str, str]] = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        env = os.environ if environ is None else environ
        self._shortest = _seconds(env, "AZUREML_RUN_POLLING_INTERVAL_MIN", SHORTEST_S)
        self._longest = max(self._shortest, _seconds(env, "AZUREML_RUN_POLLING_INTERVAL_MAX", LONGEST_S))
        self._clock = clock
        self._start = clock()

    def next(self) -> float:
        return min(self._longest, max(self._shortest, (self._clock() - self._start) / 20))


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(env.get(name, ""))
    except ValueError:
        return default
    return value if value > 0 else default


class RetryRead:
    """`ask` repeats a read until the server answers; one that stays away for `limit_s` is an error after all."""

    def __init__(
        self,
        *,
        limit_s: float = LIMIT_S,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limit_s = limit_s
        self._pause_s = pause_s
        self._clock = clock
        self._sleep = sleep

    def ask(self, read: Callable[[], T]) -> T:
        """Return what `read` gives. It must be safe to repeat.

        Raises:
            SystemFailure: the server was away for too long, or coming again does not help.
        """
        deadline = self._clock() + self._limit_s
        while True:
            try:
                return read()
            except SystemFailure as error:
                if not is_later(error) or self._clock() >= deadline:
                    raise
            self._sleep(self._pause_s)


def wait_for_completion(run: Run, *, show_output: bool, raise_on_error: bool) -> AzureRunDetails:
    """Wait for the run's end and return its details; with `show_output`, print its log meanwhile."""
    try:
        run._record = _show(run, sys.stdout) if show_output else _wait(run)
    except KeyboardInterrupt:
        if not show_output:
            raise
        raise ExperimentExecutionException(
            f"Showing the output of run {run.id} was interrupted. The run itself continues.\n"
            f"To stop it: run.cancel(), or `runyard runs cancel {run.id}`."
        ) from None
    details = RetryRead().ask(run.get_details)
    if raise_on_error and details["status"] == "Failed":
        raise ActivityFailedException(error_details=_error_text(details.get("error")))
    return details


def _wait(run: Run) -> records.Run:
    interval, retry = PollInterval(), RetryRead()
    while True:
        record = retry.ask(lambda: run._client.runs.get(run.id))
        if record.status.is_terminal:
            return record
        time.sleep(interval.next())


def _show(run: Run, out: TextIO) -> records.Run:
    from runyard.sdk.runs.log_stream import LogStream  # needs codecs and patterns that a silent wait does not

    portal = portal_url(run._client, run._page, out=out)
    stream = LogStream(run._client, run.id, out)
    stream.say(f"RunId: {run.id}\nWeb View: {portal}\n")
    record = stream.follow()
    stream.say(f"\nExecution Summary\n=================\nRunId: {run.id}\nWeb View: {portal}\n")
    if record.warnings:
        stream.say("\nWarnings:\n" + "".join(f"{warning.get('message', '')}\n" for warning in record.warnings))
    stream.say("\n")
    return record


def _error_text(error: Optional[AzureRunError]) -> str:
    import json  # only a failed run comes here

    return json.dumps(error, indent=4) if error else _NO_ERROR
