"""The environment of the private server below the home: made once with uv, listed and pruned like those of runs.

It holds the server's packages only; the code is that of the client that starts the server. A note in the server's
folder says which environment belongs to which list of packages, so that a start asks no interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence, Tuple

from runyard.core.config.paths import cache_folder, environments_folder, server_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import RunyardError, ServerNotStarted, SubmitRejected
from runyard.core.machine.files import write_whole
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import Say
from runyard.environments.cache import get_place, list_places
from runyard.environments.pythons import Python, list_pythons
from runyard.environments.uv import UvBuilder
from runyard.environments.uv_program import explanation, find_uv

NAME = "runyard-server"
NEWEST = (3, 13)  # that tests run on; a newer one may lack wheels
_MANAGED = "3.13"  # the Python that uv fetches where the machine has none
_SPEAK_EVERY_S = 5.0
_OFFLINE = (
    "Try again with a network, or name another index: `pip config set global.index-url …`. Without one: install "
    "`runyard[server]` from a folder of wheels into a Python of 3.10 or newer, and put its `runyard` on PATH "
    "(docs/guides/install.md). Or set RUNYARD_URL and RUNYARD_TOKEN to use a server elsewhere."
)


def find_made(settings: Settings, packages: Sequence[str]) -> Optional[str]:
    """Return the interpreter of the environment that was made for these packages; note its use."""
    key = _read_note(settings.home).get(_one_line(packages))
    if key is None:
        return None
    place = get_place(environments_folder(settings.home), str(key))
    return str(place.interpreter) if place.take(str(_user_folder(settings.home))) is not None else None


def make(
    settings: Settings, packages: Sequence[str], *, environ: Mapping[str, str], oldest: Tuple[int, int], say: Say
) -> str:
    """Return the interpreter of an environment with these packages, made unless another process was faster.

    Raises:
        ServerNotStarted: it could not be made; the message has uv's own explanation.
    """
    began = time.monotonic()
    say(f"this Python lacks the server's packages; making an environment for the server in {settings.home}, once …")
    try:
        _make_folders(settings.home)
        variables = _with_uv(settings.home, environ, say)
        python = _choose_python(settings.home, variables, oldest)
        builder = UvBuilder(cache=cache_folder(settings.home), settings=replace(settings, python_downloads=True))
        built = builder.build(
            _spec(python, packages),
            say=_Teller(say),
            variables=variables,
            check=_Clock(say),
            user=str(_user_folder(settings.home)),
        )
    except (RunyardError, OSError) as error:
        why = error.why or error.what if isinstance(error, RunyardError) else str(error)
        raise ServerNotStarted("The server's own environment could not be made.", why=why, hint=_OFFLINE) from error
    note = {**_read_note(settings.home), _one_line(packages): built.key}
    write_whole(str(_user_folder(settings.home) / "note.json"), json.dumps(note).encode())
    release_others(settings.home, built.key)
    say(f"the server's environment is ready after {time.monotonic() - began:.0f} s.")
    return built.interpreter


def _spec(python: Optional[Python], packages: Sequence[str]) -> EnvironmentSpec:
    return EnvironmentSpec(
        name=NAME,
        kind="uv",
        interpreter=None if python is None else python.path,
        python_version=_MANAGED if python is None else None,
        pip_packages=list(packages),
    )


def _choose_python(home: Path, variables: Mapping[str, str], oldest: Tuple[int, int]) -> Optional[Python]:
    """Return the newest Python of this machine that the server is tested on; None: uv shall fetch one."""
    found = [one for one in list_pythons(variables, cache_folder(home) / "interpreters") if _minor(one) >= oldest]
    tested = [one for one in found if _minor(one) <= NEWEST]
    return next(iter([*tested, *found]), None)


def _minor(python: Python) -> Tuple[int, ...]:
    return tuple(int(part) for part in python.version.split(".")[:2])


def _with_uv(home: Path, environ: Mapping[str, str], say: Say) -> Dict[str, str]:
    """Return `environ` with a PATH on which uv is; its wheel is fetched with pip where the machine has none."""
    variables = dict(environ)
    try:
        find_uv(variables)
        return variables
    except SubmitRejected:
        pass
    target = cache_folder(home) / "uv"
    variables["PATH"] = os.pathsep.join([variables.get("PATH") or os.defpath, str(target / "bin")])
    if os.access(target / "bin" / "uv", os.X_OK):
        return variables
    say("fetching uv, which installs packages …")
    beside = target.with_name(f".uv.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*command, "--target", str(beside), "uv>=0.6"],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = "\n".join(explanation(done.stdout.splitlines())[-5:])
        raise SubmitRejected(
            "uv could not be fetched.", why=f"There is no uv on PATH, and pip could not fetch it:\n{said}"
        )
    try:
        os.rename(beside, target)
    except OSError:  # another process was faster
        from shutil import rmtree

        rmtree(beside, ignore_errors=True)
    return variables


class _Teller:
    """Passes on what a builder says, without the list of packages."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def __call__(self, line: str) -> None:
        if line.strip() and not line.startswith((" ", "+", "Environment `", "warning: `VIRTUAL_ENV")):
            self._say(line.strip())


class _Clock:
    """Called while a program runs: says every few seconds that the work goes on."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._began = self._said = time.monotonic()

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._said >= _SPEAK_EVERY_S:
            self._said = now
            self._say(f"… {now - self._began:.0f} s")


def _user_folder(home: Path) -> Path:
    """The environment that a link to this folder marks as used is the server's; `pruning` shows its parent's name."""
    return server_folder(home) / "environment"


def _make_folders(home: Path) -> None:
    os.makedirs(str(home), 0o700, exist_ok=True)
    if not os.listdir(str(home)):
        os.chmod(str(home), 0o700)  # as the server does; it refuses one that has content and that others may enter
    for folder in (home, server_folder(home), _user_folder(home), cache_folder(home)):
        os.makedirs(str(folder), 0o700, exist_ok=True)


def release_others(home: Path, key: str) -> None:
    """Environments of older clients are no longer in use: `runyard environments prune` may remove them."""
    for place in list_places(environments_folder(home)):
        if place.key != key:
            place.remove_user(str(_user_folder(home)))


def _one_line(packages: Sequence[str]) -> str:
    return ", ".join(packages)


def _read_note(home: Path) -> Dict[str, object]:
    """Return the keys of the environments that were made, by their packages: clients may have different extras."""
    try:
        found = json.loads((_user_folder(home) / "note.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
