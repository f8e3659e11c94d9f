"""`runyard doctor`: what is installed and running, what is wrong, and what to type."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import runyard
from runyard import __version__, cli
from runyard.cli.exit_codes import FAILED
from runyard.cli.output import print_json
from runyard.cli.text import plain
from runyard.core.config.runtime_folder import runtime_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import RunyardError
from runyard.core.machine.gpus import list_gpus
from runyard.core.machine.progress import shown_size
from runyard.sdk.compat import REMEDY, refuse_shared_folder
from runyard.sdk.workspaces.connection import find_config, read_config
from runyard.sdk.workspaces.server import ServerChoice, choice, find, server_python

LOW_DISK, NO_DISK = 5_000_000_000, 200_000_000


@dataclass(frozen=True)
class DoctorFinding:
    subject: str
    state: str  # "ok", "note" or "wrong"
    text: str
    hint: str = ""


@cli.command()
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
@cli.pass_context
def doctor(ctx: cli.Context, as_json: bool) -> None:
    """Show what is installed and running, what is wrong, and how to fix it.

    Starts nothing. The exit code is 1 if something is wrong.
    """
    found = examine()
    if as_json:
        print_json(found)
    else:
        _print(found)
    ctx.exit(FAILED if any(one.state == "wrong" for one in found) else 0)


def examine() -> list[DoctorFinding]:
    found = [DoctorFinding("runyard", "ok", f"{__version__} in {Path(runyard.__file__).parent}")]
    found.append(
        DoctorFinding("python", "ok", f"{platform.python_version()} ({sys.executable}) on {platform.platform()}")
    )
    found.append(_guarded("azureml", _facade))
    try:
        chosen = choice()
        settings = chosen.settings
    except RunyardError as error:
        return [*found, DoctorFinding("settings", "wrong", _line(error.what, error.why), error.hint)]
    checks: list[tuple[str, Callable[[Settings], DoctorFinding]]] = [
        ("packages", _packages),
        ("home", _home),
        ("disk", _disk),
        ("gpus", _gpus),
        ("socket", _socket),
    ]
    # A team's server has its own packages, home and disk.
    for subject, check in [] if settings.url else checks:
        found.append(_guarded(subject, lambda check=check: check(settings)))  # type: ignore[misc]  # bound at once
    found.append(_guarded("server", lambda: _server(chosen)))
    return [*found, _guarded("workspace", _workspace), _guarded("git", _git)]


def _guarded(subject: str, check: Callable[[], DoctorFinding]) -> DoctorFinding:
    try:
        return check()
    except RunyardError as error:
        return DoctorFinding(subject, "wrong", _line(error.what, error.why), error.hint)
    except Exception as error:
        message = getattr(error, "message", None) or error
        return DoctorFinding(subject, "wrong", _line(f"{type(error).__name__}: {message}"))


def _packages(_settings: Settings) -> DoctorFinding:
    """Say which Python runs the private server: the client itself needs no packages."""
    python = server_python()
    if python is None:
        return DoctorFinding(
            "packages", "note", "No Python here has the server's packages; the first call makes an environment for it."
        )
    whose = "this Python" if os.path.realpath(python) == os.path.realpath(sys.executable) else "its own Python"
    return DoctorFinding("packages", "ok", f"The private server runs on {whose}: {python}")


def _facade() -> DoctorFinding:
    """Say whose `azureml.core` scripts of this Python would get, without loading it."""
    found = find_spec("azureml.core")
    if found is None or found.origin is None:
        return DoctorFinding(
            "azureml", "wrong", "`import azureml.core` finds nothing.", "pip install --force-reinstall runyard"
        )
    refuse_shared_folder(found.origin)
    if "refuse_shared_folder" not in Path(found.origin).read_text(encoding="utf-8", errors="replace"):
        return DoctorFinding("azureml", "wrong", f"`import azureml.core` finds Microsoft's: {found.origin}", REMEDY)
    return DoctorFinding("azureml", "ok", f"Runyard's, in {Path(found.origin).parent}")


def _home(settings: Settings) -> DoctorFinding:
    if not settings.home.exists():
        return DoctorFinding("home", "ok", f"{settings.home} (made by the first run)")
    if not os.access(settings.home, os.R_OK | os.W_OK | os.X_OK):
        hint = f"chmod u+rwx {settings.home}, or set RUNYARD_HOME to another folder"
        return DoctorFinding("home", "wrong", f"{settings.home} cannot be written", hint)
    return DoctorFinding("home", "ok", str(settings.home))


def _disk(settings: Settings) -> DoctorFinding:
    folder = next(path for path in (settings.home, *settings.home.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    text = f"{shown_size(free)} free at {folder}"
    hint = "Free some space, delete runs with `runyard runs delete --now`, or move RUNYARD_HOME."
    if free < NO_DISK:
        return DoctorFinding("disk", "wrong", text, hint)
    return DoctorFinding("disk", "note", text, hint) if free < LOW_DISK else DoctorFinding("disk", "ok", text)


def _gpus(settings: Settings) -> DoctorFinding:
    found = [
        f"{gpu.index}: {gpu.name}{f', {shown_size(gpu.memory_bytes)}' if gpu.memory_bytes else ''}"
        for gpu in list_gpus()
    ]
    if settings.gpu_devices:
        found.append(f"runs may have: {settings.gpu_devices}")
    return DoctorFinding("gpus", "ok", "; ".join(found) or "none that a driver shows")


def _socket(settings: Settings) -> DoctorFinding:
    return DoctorFinding("socket", "ok", f"in {runtime_folder(settings.home)}")


def _server(chosen: ServerChoice) -> DoctorFinding:
    settings, client = chosen.settings, find()
    if client is None:
        return DoctorFinding("server", "ok", "not running; the next `runyard submit` starts it")
    info = client.server.info()
    text = f"Runyard {info.version} at {info.url or settings.url}, pid {info.pid}, {info.runs_live} live runs"
    if settings.url:
        text += f" (used because {chosen.why})"
    if info.version != __version__:
        hint = (
            "Ask who runs it to upgrade." if settings.url else "runyard server stop; the next command starts a new one"
        )
        return DoctorFinding("server", "note", f"{text}; this is {__version__}", hint)
    return DoctorFinding("server", "ok", text)


def _workspace() -> DoctorFinding:
    path = find_config(os.getcwd())
    if path is None:
        return DoctorFinding("workspace", "ok", "`default` (no config.json here or above)")
    return DoctorFinding("workspace", "ok", f"`{read_config(path).workspace_name}`, named by {path}")


def _git() -> DoctorFinding:
    path = shutil.which("git")
    if path is None:
        return DoctorFinding("git", "note", "not found: runs do not record their commit", "Install git.")
    return DoctorFinding("git", "ok", path)


def _line(*parts: str) -> str:
    return " ".join(" ".join(part.split()) for part in parts if part)


def _print(found: list[DoctorFinding]) -> None:
    width = max(len(one.subject) for one in found)
    for one in found:
        cli.echo(f"{one.state.ljust(5)}  {one.subject.ljust(width)}  {plain(one.text)}")
        if one.hint:
            cli.echo(f"{' ' * (width + 9)}hint: {plain(one.hint)}")
