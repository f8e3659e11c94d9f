"""How a deployment goes on: what it waits for, how it ended, and what its replicas printed."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Callable, List, Optional, Sequence, Tuple

from runyard.client.calls.runs import RunCalls
from runyard.core.errors import NotFound
from runyard.core.records import Run
from runyard.core.webservices import FAILED, RUNNING, Definition, ServiceRevision, Webservice
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.runs.details import PollInterval
from runyard.sdk.runs.log_stream import is_build_log, pick_log

if TYPE_CHECKING:
    from runyard.client.client import Client

CRASHED, TIMED_OUT = "CrashLoopBackOff", "DeploymentTimedOut"
_STATUS = {CRASHED: 400, TIMED_OUT: 504}
_DOT_EVERY_S = 1.0
_LONG_S = 3.0  # what is waited for so long is named
_PART_BYTES = 1 << 20
_LONGEST_LINE = 400  # bytes, as a guess of how much of a log holds so many lines
_SETTLE_S = 0.6  # supervisors ship logs every 0.25 s: what grew by nothing in this time is complete
_FIRST_LINE_S = 10.0  # a worker prints a line once it is ready, so the log of a service that answers is not empty


def wait_for_end(
    client: Client, read: Callable[[], Webservice], *, show_output: bool, timeout_s: Optional[float]
) -> Webservice:
    """Return the service once nothing of it is being started; with `show_output` say what it waits for.

    Raises:
        WebserviceException: (504) the time was over.
    """
    pace, began = PollInterval(), time.monotonic()
    teller = _Dots(client) if show_output else None
    record = read()
    while record.operation is not None and record.operation.state == RUNNING:
        now = time.monotonic()
        if timeout_s is not None and now - began > timeout_s:
            if teller is not None:
                teller.end("TimedOut")
            raise _timed_out(client, record, timeout_s)
        if teller is not None:
            teller.tell(record, now)
        time.sleep(pace.next())
        record = read()
    if teller is not None:
        teller.end()
    return record


class _Dots:
    """Prints `Running` with a dot each second, as Azure does, and what is waited for when that takes longer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._at = self._since = 0.0
        self._text = self._said = ""

    def tell(self, service: Webservice, now: float) -> None:
        text = progress_text(self._client, service)
        if text != self._text:
            self._text, self._since = text, now
        if not self._at:
            sys.stdout.write("Running")
        elif now < self._at:
            return
        elif text != self._said and now - self._since > _LONG_S:
            sys.stdout.write(f"\n{text}")
            self._said = text
        else:
            sys.stdout.write(".")
        self._at = now + _DOT_EVERY_S
        sys.stdout.flush()

    def end(self, word: str = "") -> None:
        if self._at:
            print()
        if word:
            print(word)


def progress_text(client: Client, service: Webservice) -> str:
    """Return what the operation under way waits for, in a few words."""
    revision = service.revision(service.operation.revision if service.operation else 0)
    if revision is None:
        return "waiting for the server"
    wanted = [ref for ref in revision.replicas if ref.is_wanted]
    if not wanted:
        return f"revision {revision.number}: asking for replicas"
    try:
        run = client.runs.get(wanted[0].run_id)
    except NotFound:
        return f"revision {revision.number}: the first replica is being submitted"
    attempt = f", start {revision.failed_starts + 1} after {_times(revision.failed_starts)} failed"
    return f"revision {revision.number}: {_replica_text(run)}{attempt if revision.failed_starts else ''}"


def failure_of(service: Webservice) -> Optional[Definition]:
    """Return why the last operation failed, else why the service does not serve, in Azure's form; None: neither."""
    operation = service.operation
    error = operation.error if operation is not None and operation.state == FAILED else service.error
    if error is None:
        return None
    code, message = str(error.get("code") or "Failed"), str(error.get("message") or "It left no message.")
    first = message.partition("\n")[0]
    return {
        "code": f"{service.settings.compute_type.capitalize()}DeploymentFailed" if code == CRASHED else code,
        "statusCode": _STATUS.get(code, 400),
        "message": first,
        "details": [{"code": code, "message": message}],
    }


def deployment_error(service: Webservice, state: str) -> WebserviceException:
    """Return the error of a deployment that failed: its cause, the last lines, and the same as JSON."""
    failure = failure_of(service) or {"code": "Failed", "statusCode": 500, "message": "It left no message."}
    text = failure.get("details", [{}])[0].get("message", failure["message"])
    serving = service.serving
    goes_on = f"\nRevision {serving.number} goes on to answer." if serving is not None else ""
    return WebserviceException(
        f"The deployment of web service `{service.name}` ended without success; its state is {state}.\n"
        f"{text}{goes_on}\n"
        f"More information can be found using '.get_logs()'\nError:\n{json.dumps(failure, indent=2)}",
        status_code=failure["statusCode"],
    )


def replica_runs(service: Webservice) -> List[str]:
    """Return the runs whose logs tell most: the replicas of the newest revision that has some, else the last one."""
    operation = service.operation
    newest = service.revision(operation.revision) if operation is not None else None
    chosen: List[ServiceRevision] = [newest] if newest is not None else []
    chosen += sorted(service.revisions, key=lambda one: one.number, reverse=True)
    if newest is not None and newest.state == FAILED and not newest.replicas and service.last_replica:
        return [f"{service.run_id}_{service.last_replica}"]
    for revision in chosen:
        if revision.replicas:
            wanted = [ref.run_id for ref in revision.replicas if ref.is_wanted]
            return wanted or [revision.replicas[-1].run_id]
    return [f"{service.run_id}_{service.last_replica}"] if service.last_replica else []


def read_logs(client: Client, service: Webservice, num_lines: int) -> str:
    """Return the last lines that the replicas printed; of one that never ran, how its environment was built."""
    found = []
    runs = replica_runs(service)
    wait_for_logs(client, service, runs)
    for run_id in runs:
        text = _log_of(client.runs, run_id, num_lines)
        if text and len(runs) > 1:
            text = f"Replica {run_id}:\n{text}"
        found.append(text)
    lines = "".join(found).splitlines(keepends=True)
    return "".join(lines[-num_lines:] if len(runs) <= 1 else lines)


def wait_for_logs(client: Client, service: Webservice, runs: Sequence[str]) -> None:
    """Return once the logs of a service that answers hold what its replicas `runs` printed before this call.

    Logs arrive a moment later than answers. Other services are not waited for: theirs are complete, or may stay empty.
    """
    if service.serving is None:
        return
    began, before = time.monotonic(), _log_sizes(client.runs, runs)
    while _log_sizes(client.runs, runs) == before:
        if time.monotonic() - began > (_SETTLE_S if before else _FIRST_LINE_S):
            return
        time.sleep(_SETTLE_S / 6)


def _log_sizes(calls: RunCalls, runs: Sequence[str]) -> List[Tuple[str, str, int]]:
    found = []
    for run_id in runs:
        try:
            sizes = {file.name: file.size for file in calls.files(run_id)}
        except NotFound:
            continue
        main = pick_log(name for name in sizes if not is_build_log(name))
        if main is not None:
            found.append((run_id, main, sizes[main]))
    return found


def _log_of(calls: RunCalls, run_id: str, num_lines: int) -> str:
    try:
        names = sorted(file.name for file in calls.files(run_id))
    except NotFound:
        return ""
    main = pick_log(name for name in names if not is_build_log(name))
    chosen = [main] if main is not None else [name for name in names if is_build_log(name)]
    return "".join(_tail(calls, run_id, name, num_lines) for name in chosen)


def _tail(calls: RunCalls, run_id: str, name: str, num_lines: int) -> str:
    wanted = max(_PART_BYTES, num_lines * _LONGEST_LINE)
    part = calls.read_file(run_id, name, limit=wanted)
    if part.size > wanted:
        part = calls.read_file(run_id, name, offset=part.size - wanted, limit=wanted)
    lines = part.data.decode("utf-8", "replace").splitlines(keepends=True)
    return "".join(lines[-num_lines:]) if num_lines else ""


def _timed_out(client: Client, service: Webservice, timeout_s: float) -> WebserviceException:
    return WebserviceException(
        f"{TIMED_OUT}: web service `{service.name}` was not ready after {timeout_s:g} seconds; it goes on "
        f"({progress_text(client, service)}). wait_for_deployment() waits again; '.get_logs()' has what it printed.",
        status_code=504,
    )


def _times(count: int) -> str:
    return "one" if count == 1 else str(count)


def _replica_text(run: Run) -> str:
    status = str(run.status)
    if status == "Running":
        return "loading the model"
    if run.waits_for:
        return f"waiting: {run.waits_for}"
    return {"Preparing": "preparing the environment", "Queued": "waiting for a place to run"}.get(
        status, f"replica is {status}"
    )
