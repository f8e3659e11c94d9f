"""Why a run ended as it did, in words: exit codes, signals, exceptions, the first rank that failed."""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, List, Mapping, Optional, Sequence

from runyard.supervisor.folder import RunFolder

LAST_LINES = 20
LAST_BYTES = 16384
TEXT_LIMIT = 4000

# Import names whose package has another name.
PACKAGES = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "Crypto": "pycryptodome",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "gitpython",
    "google.protobuf": "protobuf",
    "jwt": "pyjwt",
    "MySQLdb": "mysqlclient",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "psycopg2": "psycopg2-binary",
    "pytorch_lightning": "pytorch-lightning",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "skopt": "scikit-optimize",
    "yaml": "pyyaml",
}


def describe_failure(
    folder: RunFolder, launch: Mapping[str, Any], exits: Sequence[Mapping[str, Any]]
) -> Dict[str, Any]:
    """Return the error of a run one of whose processes failed: the first one that did."""
    failed = [record for record in exits if has_failed(record)]
    first = min(failed, key=lambda record: (record.get("ended_boot_ns") or 0, record["rank"]))
    process = _process(launch, first["rank"])
    exception = find_exception(folder, int(first["rank"]))
    lines = last_lines(folder.at(str(process.get("log", "user_logs/std_log.txt"))))
    details = {"rank": first["rank"], "exit_code": first.get("code"), "signal": _signal_name(first.get("signal"))}
    details.update(log=process.get("log"), last_lines=lines, failed_ranks=sorted(record["rank"] for record in failed))
    if exception:
        details["exception"] = exception
    message = _sentence(first, exception)
    if len(launch.get("processes", ())) > 1:
        message += f"\nRank {first['rank']} failed first."
    if exception and exception.get("missing_module"):
        message += "\n" + explain_missing(str(exception["missing_module"]))
    code = "ExitCodeUnknown" if first.get("unknown") else "UserError"
    return {"code": code, "message": _with_tail(message, lines, process), "details": details}


def has_failed(record: Mapping[str, Any]) -> bool:
    return bool(record.get("code") or record.get("signal") or record.get("unknown"))


def explain_missing(module: str) -> str:
    """Say which package holds a module that could not be imported, and how to add it."""
    top = module.split(".")[0]
    package = PACKAGES.get(module) or PACKAGES.get(top) or top.replace("_", "-")
    return (
        f"The module `{module}` is not installed in the run's environment. Add the package `{package}`: "
        f"`pip install {package}` into that interpreter, or "
        f"`environment.python.conda_dependencies.add_pip_package('{package}')`."
    )


def find_exception(folder: RunFolder, rank: int) -> Optional[Dict[str, Any]]:
    """Return the exception that ended the rank's own process, else the first that ended one of its children."""
    pids = {entry["rank"]: entry["pid"] for entry in folder.read("ranks.json") or ()}
    found = [value for value in folder.list_objects("exceptions") if value.get("type")]
    own = [value for value in found if value.get("pid") == pids.get(rank)]
    if own or len(pids) > 1:
        return own[0] if own else None
    return found[0] if found else None


def last_lines(path: str) -> List[str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, LAST_BYTES, max(0, size - LAST_BYTES))
    finally:
        os.close(fd)
    lines = data.decode("utf-8", "replace").splitlines()
    return [line[:1000] for line in lines[-LAST_LINES:]]


def _sentence(record: Mapping[str, Any], exception: Optional[Mapping[str, Any]]) -> str:
    if record.get("unknown"):
        return "The exit code is unknown: the process that watched the program was killed before the program ended."
    if record.get("error"):
        return f"User program could not be started: {record['error']}"
    if record.get("oom"):
        return f"User program was killed because memory ran out{_peak(record)}."
    number = record.get("signal")
    if number:
        return f"User program was killed by signal {number} ({_signal_name(number)})."
    if exception:
        return f"User program failed with {exception['type']}: {str(exception.get('message', ''))[:TEXT_LIMIT]}"
    return f"User program ended with exit code {record.get('code')}."


def _with_tail(message: str, lines: Sequence[str], process: Mapping[str, Any]) -> str:
    if not lines:
        return message
    return "\n".join([message, "", f"Last lines of {process.get('log', 'the log')}:", *lines])


def _peak(record: Mapping[str, Any]) -> str:
    peak_kb = (record.get("rusage") or {}).get("max_rss_kb")
    return f" (peak {peak_kb / 1048576:.1f} GB)" if peak_kb else ""


def _signal_name(number: Optional[int]) -> Optional[str]:
    if not number:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _process(launch: Mapping[str, Any], rank: int) -> Dict[str, Any]:
    return next((dict(process) for process in launch.get("processes", ()) if process.get("rank") == rank), {})
