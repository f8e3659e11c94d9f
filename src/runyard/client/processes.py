"""Start the private server's process: detached, with a clean environment, and with its first report over a pipe."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional

from runyard.core.config.paths import server_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import RunyardError, ServerNotStarted, error_from_plain

if TYPE_CHECKING:
    from runyard.client.server_python import ServerPython

# Variables that a server and its supervisors take over from the process that starts it. The rest (LD_PRELOAD, BASH_ENV,
# PYTHONSTARTUP, GIT_…, secrets) stays behind; a run's own variables travel with its submit.
_KEPT_VARIABLES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "XDG_CACHE_HOME",
    }
    | {"LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"SSH_AUTH_SOCK"}  # for targets over SSH that were attached without a key
    | {"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
)
_PATIENCE_S = 60.0
SPEAK_AFTER_S = 1.0
_LOG_LINES = 15


def start(settings: Settings, python: ServerPython) -> None:
    """Start a server for `settings.home` and return when it answers.

    Raises:
        ServerNotStarted: it did not come up; the end of its log is in the message.
        RunyardError: what the server itself found wrong, as the same class.
    """
    log = _open_log(settings.home)
    reader, writer = os.pipe()
    try:
        os.set_inheritable(writer, True)
        try:
            command = server_command(settings, writer, python=python.path)
            _spawn(command, server_variables(settings, os.environ, code=python.code), log, writer)
        finally:
            os.close(writer)
            os.close(log)
        _wait_for_word(reader, settings)
    finally:
        os.close(reader)


def server_command(settings: Settings, ready_fd: int, *, python: str = sys.executable) -> List[str]:
    return [python, "-m", "runyard.server", "--home", str(settings.home), "--ready-fd", str(ready_fd)]


def server_variables(settings: Settings, environ: Mapping[str, str], *, code: Optional[str] = None) -> Dict[str, str]:
    """Return the server's whole environment: an allow list, our settings, and where our code is; None: where its Python
    finds it.
    """
    kept = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
    kept.update({name: value for name, value in environ.items() if name.startswith("LC_")})
    kept.update(
        RUNYARD_HOME=str(settings.home),
        RUNYARD_IDLE_STOP=repr(settings.idle_stop_s),
        RUNYARD_PORT=str(settings.port),
        RUNYARD_LOCAL_RUNS=str(settings.local_runs),
        RUNYARD_AMLCOMPUTE_ENGINE=settings.amlcompute_cluster,
        RUNYARD_GPU_DEVICES=settings.gpu_devices,
        RUNYARD_GRACE=repr(settings.grace_s),
        RUNYARD_KEEP_RUN_FOLDERS="1" if settings.keep_run_folders else "",
        RUNYARD_LOG_LEVEL=settings.log_level,
        RUNYARD_HANG_AFTER=repr(settings.hang_after_s),
        RUNYARD_HANG_FAILS="1" if settings.hang_fails else "",
        RUNYARD_SAMPLE_EVERY=repr(settings.sample_every_s),
        MALLOC_ARENA_MAX="2",  # glibc's arena per thread costs tens of MB in a process that is mostly idle
    )
    if code is not None:
        kept["PYTHONPATH"] = code
    return kept


def say_waiting(settings: Settings) -> None:
    print(f"runyard: waiting for the private server of {settings.home} to start…", file=sys.stderr)


def last_lines(path: Path, count: int = _LOG_LINES) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return str(error)
    return "\n".join(lines[-count:])


def log_file(home: Path) -> Path:
    return server_folder(home) / "server.log"


def log_size(home: Path) -> int:
    try:
        return os.path.getsize(str(log_file(home)))
    except OSError:
        return 0


def _open_log(home: Path) -> int:
    try:
        os.makedirs(str(home), 0o700, exist_ok=True)
        os.makedirs(str(server_folder(home)), 0o700, exist_ok=True)
        return os.open(str(log_file(home)), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ServerNotStarted(
            f"The home `{home}` cannot be used.",
            why=str(error),
            hint="Set RUNYARD_HOME to a folder of your own.",
        ) from error


def _spawn(command: List[str], variables: Mapping[str, str], log: int, ready_fd: int) -> None:
    """Start `command` in a session of its own. It forks once more, so it is never a child of this process."""
    # Only a process that starts a server needs it.
    import subprocess

    process = subprocess.Popen(
        command,
        env=dict(variables),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(ready_fd,),
        start_new_session=True,
    )
    process.wait()


def _wait_for_word(reader: int, settings: Settings) -> None:
    """Wait for `{"ok": true}` or an error; the pipe's end without either means that the process died."""
    deadline = time.monotonic() + _PATIENCE_S
    speak_at: Optional[float] = time.monotonic() + SPEAK_AFTER_S
    said = b""
    while True:
        now = time.monotonic()
        if speak_at is not None and now >= speak_at:
            say_waiting(settings)
            speak_at = None
        if now >= deadline:
            raise _not_started(settings, f"It did not answer within {_PATIENCE_S:g} s.")
        ready, _, _ = select.select([reader], [], [], min(deadline, speak_at or deadline) - now)
        if not ready:
            continue
        piece = os.read(reader, 65536)
        said += piece
        if not piece or said.endswith(b"\n"):
            break
    _take_word(said, settings)


def _take_word(said: bytes, settings: Settings) -> None:
    try:
        word = json.loads(said)
        error: Optional[RunyardError] = None if word.get("ok") else error_from_plain(word["error"])
    except (ValueError, KeyError, AttributeError):
        raise _not_started(settings, "It ended while it was starting.") from None
    if error is not None:
        raise error


def _not_started(settings: Settings, why: str) -> ServerNotStarted:
    path = log_file(settings.home)
    return ServerNotStarted(
        "The private server could not be started.",
        why=f"{why} The last lines of {path}:\n{last_lines(path)}",
        hint="Start it by hand to see more: `runyard server start --foreground`.",
    )
