"""What every part of `Run` stands on: the id, the server, the facts last seen, and the journal to write to.

Status and details of a run, in Azure's words and shapes.

Addresses of pages for people.

`wait_for_completion`: wait for a run's end and show its log while it goes on.

How long to wait between two looks at a run: short at first, longer the longer it takes.

Ride over a server that is away for a moment: it is being restarted, replaced or its disk is full.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, TextIO, TypeVar

from runyard.core.errors import RunyardError, SystemFailure, is_later
from runyard.sdk.config.texts import warn
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import ActivityFailedException, ExperimentExecutionException

if TYPE_CHECKING:
    from datetime import datetime

    from runyard.client.client import Client
    from runyard.core import records
    from runyard.runtime.writer import JournalWriter
    from runyard.sdk.environments.environment import Environment
    from runyard.sdk.workspaces.experiment import Experiment


FLUSH_S = 30.0  # how long reading waits for what was just written


class RunHandle:
    """A run of `_experiment`. `_own` is true in the process that the run is: there, writes go to its own journal."""

    _experiment: Experiment
    _run_id: str
    _client: Client
    _record: Optional[records.Run]
    _writer: Optional[JournalWriter]
    _own: bool  # a rank of a submitted run
    _interactive: bool  # made by start_logging in this process

    def _set_up(self, experiment: Experiment, run_id: str, record: Optional[records.Run] = None) -> None:
        self._experiment = experiment
        self._run_id = run_id
        self._client = experiment._client
        self._record = record
        self._writer = None
        self._own = False
        self._interactive = False

    @property
    def _facts(self) -> records.Run:
        """The run as last seen; fetched when it was never seen."""
        return self._record if self._record is not None else self._refresh()

    def _refresh(self) -> records.Run:
        """Fetch the run. A finished one keeps its status, but tags and files of it may still change."""
        self._record = self._client.runs.get(self._run_id)
        return self._record

    def _writes_here(self) -> bool:
        """Whether this process has a journal of its own for the run."""
        return self._own or self._interactive

    def _flush_own(self) -> None:
        """What this process wrote must be in what it reads."""
        if self._writer is not None and not self._writer.flush(FLUSH_S):
            warn(f"The server has not taken all records of run {self._run_id} yet; what it tells may be older.")

    def _flush_family(self) -> None:
        """As above, for the children that it made as well."""
        self._flush_own()

    def _journal(self) -> JournalWriter:
        """Return the journal that this process writes about the run; a handle of another run's gets one when needed."""
        if self._writer is None:
            from runyard.sdk.runs.attach import attach_writer  # rare: most handles only read

            self._writer = attach_writer(self._client, self._run_id)
        return self._writer


_PRIVATE = ("http://127.0.0.1:", "http://localhost:")


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


_LOG_FOLDERS = ("user_logs/", "system_logs/", "azureml-logs/", "logs/azureml/")
_LOG_ENDINGS = (".txt", ".log")
MAX_LOG_BYTES = 32 << 20  # of one log in get_details_with_logs: an endless loop that prints makes gigabytes


@raises_azure_errors
class RunFacts(RunHandle):
    @property
    def status(self) -> str:
        """The status as last seen; `get_status()` asks again."""
        return str(self._facts.status)

    def get_status(self) -> str:
        """Return the status now: NotStarted, Queued, Preparing, Starting, Running, Finalizing, Completed, Failed …"""
        if self._record is None or not self._record.status.is_terminal:
            self._refresh()
        return self.status

    def get_detailed_status(self) -> Dict[str, Any]:
        """Return {'status', 'details'}; the details say what a queued run waits for."""
        run = self._refresh()
        return {"status": str(run.status), "details": run.waits_for or None}

    def get_details(self) -> Dict[str, Any]:
        """Return what is known of the run: status, times, error, properties, definition, and where its logs are."""
        run = self._refresh()
        logs = {file.name: self._file_url(file.name) for file in self._logs()}
        return details_of(run, logs)

    def get_details_with_logs(self) -> Dict[str, Any]:
        """Return `get_details()` with the text of each log instead of its address; of a huge one, its end."""
        details = self.get_details()
        details["logFiles"] = {name: self._log_text(name) for name in details["logFiles"]}
        return details

    def get_environment(self) -> Environment:
        """Return the environment that the run used: its Python, and the packages that were found in it.

        Raises:
            UserErrorException: an interactive run, which is in the environment of whoever made it.
        """
        from runyard.sdk.environments.files import environment_of  # loads what most handles need not

        return environment_of(self._refresh())

    def get_portal_url(self) -> str:
        """Return the address of the run's page; at a terminal or in a notebook, a private server's signs in."""
        return portal_url(self._client, self._page)

    @property
    def _page(self) -> str:
        return f"/runs/{self._run_id}"

    def _logs(self) -> List[records.RunFile]:
        return [file for file in self._client.runs.files(self._run_id) if is_log(file.name)]

    def _log_text(self, name: str) -> str:
        part = self._client.runs.read_file(self._run_id, name, limit=MAX_LOG_BYTES)
        if part.size <= MAX_LOG_BYTES:
            return part.data.decode("utf-8", "replace")
        left_out = part.size - MAX_LOG_BYTES
        part = self._client.runs.read_file(self._run_id, name, offset=left_out, limit=MAX_LOG_BYTES)
        note = f"[{left_out} bytes before this are left out; run.get_all_logs() or download_file({name!r}) gets all]\n"
        return note + part.data.decode("utf-8", "replace")

    def _file_url(self, name: str) -> str:
        from urllib.parse import quote  # most runs are never asked for it

        base = (self._client.address.web_url or "").rstrip("/")
        return f"{base}/api/v1/runs/{quote(self._run_id)}/files/{quote(name)}"


def is_log(name: str) -> bool:
    if name.startswith("attempt_"):  # a log of one that was given up
        name = name.partition("/")[2]
    return name.startswith(_LOG_FOLDERS) or (name.startswith("logs/") and name.endswith(_LOG_ENDINGS))


def _input(run: records.Run, name: str) -> Dict[str, Any]:
    given = run.spec.datasets[name]
    facts = (run.environment.get("datasets") or {}).get(name) or {}
    return {
        "dataset": {"id": given.dataset.id, "name": given.name or None, "version": given.version or None},
        "consumptionDetails": {"type": "RunInput", "inputName": name, "mechanism": given.mode.capitalize()},
        "facts": facts,
    }


def _output(run: records.Run, name: str) -> Dict[str, Any]:
    output = run.spec.outputs[name]
    place = {"datastore": output.datastore, "path": output.path.replace("{run-id}", run.id)}
    return {"outputName": name, "mechanism": output.mode.capitalize(), "destination": place}


def details_of(run: records.Run, logs: Dict[str, str]) -> Dict[str, Any]:
    """Return Azure's details of `run`; what is not known (an end, an error) has no key."""
    details: Dict[str, Any] = {
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
    return {key: value for key, value in details.items() if value is not None}


def attempts_of(run: records.Run) -> List[Dict[str, Any]]:
    """Return what became of each attempt of a run that was started more than once, the present one last."""
    if not run.attempts:
        return []
    given_up = [
        {
            "attempt": one.number,
            "status": one.code,
            "why": one.why,
            "host": one.host,
            "givenUpTimeUtc": utc_text(one.given_up_at),
            "endTimeUtc": utc_text(one.ended_at),
        }
        for one in run.attempts
    ]
    return given_up if run.is_fenced else [*given_up, {"attempt": run.attempt, "status": str(run.status)}]


def error_of(run: records.Run, logs: Dict[str, str]) -> Optional[Dict[str, Any]]:
    """Return the error as {'error': {'code', 'message', 'debug_type', …}}; what else is known is under `data`."""
    if not run.error:
        return None
    data = dict(run.error.get("details") or {})
    exception = data.pop("exception", None) or {}
    data.pop("last_lines", None)  # the message ends with them
    error: Dict[str, Any] = {
        "code": run.error.get("code") or "UserError",
        "message": run.error.get("message") or "",
        "debug_type": exception.get("type"),
        "debug_message": exception.get("message"),
        "debug_stack_trace": exception.get("traceback"),
        "details_uri": logs.get(str(data.get("log"))),
        "data": data or None,
    }
    return {"error": {key: value for key, value in error.items() if value is not None}, "time": utc_text(run.ended_at)}


def utc_text(moment: Optional[datetime]) -> Optional[str]:
    """Return a time as Azure prints it: 2020-06-23T22:42:21.133448Z."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


SHORTEST_S = 0.02
LONGEST_S = 2.0


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


T = TypeVar("T")

LIMIT_S = 60.0
PAUSE_S = 0.25


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


_NO_ERROR = "The run ended as Failed, and no error was recorded. Look at its logs: run.get_details_with_logs()."


@raises_azure_errors
class RunWaiting(RunFacts):
    def wait_for_completion(
        self, show_output: bool = False, wait_post_processing: bool = False, raise_on_error: bool = True
    ) -> Dict[str, Any]:
        """Wait until the run has ended and all of its metrics and files are there; return `get_details()`.

        Args:
            show_output: print the log of the first process while it grows.
            wait_post_processing: accepted; the end is always waited for.
            raise_on_error: raise when the run failed. A canceled run never raises.

        Raises:
            ActivityFailedException: the run ended as Failed.
            ExperimentExecutionException: Ctrl-C while the log was shown; the run goes on.
        """
        try:
            final = self._show(sys.stdout) if show_output else self._wait()
        except KeyboardInterrupt:
            if not show_output:
                raise
            raise ExperimentExecutionException(
                f"Showing the output of run {self._run_id} was interrupted. The run itself goes on.\n"
                f"To stop it: run.cancel(), or `runyard runs cancel {self._run_id}`."
            ) from None
        self._record = final
        details = RetryRead().ask(self.get_details)
        if raise_on_error and details["status"] == "Failed":
            raise ActivityFailedException(error_details=_error_text(details.get("error")))
        return details

    def _wait(self) -> records.Run:
        pace, patience = PollInterval(), RetryRead()
        while True:
            run = patience.ask(lambda: self._client.runs.get(self._run_id))
            if run.status.is_terminal:
                return run
            time.sleep(pace.next())

    def _show(self, out: TextIO) -> records.Run:
        from runyard.sdk.runs.log_stream import LogStream  # needs codecs and patterns that a silent wait does not

        portal = portal_url(self._client, self._page, out=out)
        stream = LogStream(self._client, self._run_id, out)
        stream.say(f"RunId: {self._run_id}\nWeb View: {portal}\n")
        run = stream.follow()
        stream.say(f"\nExecution Summary\n=================\nRunId: {self._run_id}\nWeb View: {portal}\n")
        if run.warnings:
            stream.say("\nWarnings:\n" + "".join(f"{warning.get('message', '')}\n" for warning in run.warnings))
        stream.say("\n")
        return run


def _error_text(error: Optional[Dict[str, Any]]) -> str:
    import json  # only a failed run comes here

    return json.dumps(error, indent=4) if error else _NO_ERROR
