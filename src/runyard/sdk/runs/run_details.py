"""Status and details of a run, in Azure's words and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

from runyard.sdk.errors import translates_errors
from runyard.sdk.runs.details import RunHandle
from runyard.sdk.runs.portal import portal_url

if TYPE_CHECKING:
    from datetime import datetime

    from runyard.core import records
    from runyard.sdk.environments.environment import Environment

_LOG_FOLDERS = ("user_logs/", "system_logs/", "azureml-logs/", "logs/azureml/")
_LOG_ENDINGS = (".txt", ".log")
MAX_LOG_BYTES = 32 << 20  # of one log in get_details_with_logs: an endless loop that prints makes gigabytes


@translates_errors
class RunDetails(RunHandle):
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
        from runyard.sdk.environments.used_environment import environment_of  # loads what most handles need not

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
