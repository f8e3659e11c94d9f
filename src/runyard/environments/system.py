"""The EnvironmentBuilder `system`: an interpreter that is already there, the submitter's own or a named one.

`find_facts` and `find_packages` ask an interpreter for its version and packages; answers are cached until it or its
folders change. `list_installed` reads the packages of a prefix from its files: names, versions, and the source of a
package that came from no index.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, TypedDict, cast

from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import BuiltEnvironment, Check, EnvironmentBuilder, Say, never

OLDEST = (3, 8)
_HINT = "Set `env.python.interpreter_path` to the full path of a Python, such as `{}`, or leave it out to use your own."


class SystemBuilder(EnvironmentBuilder):
    def __init__(self, *, cache: Optional[Path] = None, settings: Optional[Settings] = None) -> None:
        self._cache = None if cache is None else cache / "interpreters"

    def build(
        self,
        spec: EnvironmentSpec,
        *,
        say: Say,
        variables: Optional[Mapping[str, str]] = None,
        check: Check = never,
        user: Optional[str] = None,
    ) -> BuiltEnvironment:
        interpreter = find_interpreter(spec.interpreter, variables)
        if not _is_this_one(interpreter):
            _check_version(interpreter, self._facts(interpreter, variables))
        say(f"Using the interpreter {interpreter}.")
        return BuiltEnvironment(interpreter=interpreter, warnings=_warnings(spec, interpreter, say))

    def describe(self, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None) -> Dict[str, object]:
        """As the base class says; `error` says why when the package list could not be read."""

        try:
            return find_packages(built.interpreter, variables=variables, cache=self._cache)
        except NotPython as error:
            return {
                "interpreter": built.interpreter,
                "python": "",
                "platform": "",
                "packages": {},
                "error": str(error),
            }

    def _facts(self, interpreter: str, variables: Optional[Mapping[str, str]]) -> InterpreterFacts:
        # Here and above: a node's start does not wait for what it does not need.

        try:
            return find_facts(interpreter, variables=variables, cache=self._cache)
        except NotPython as error:
            raise SubmitRejected(
                f"The interpreter `{interpreter}` does not run Python.",
                why=str(error),
                hint=_HINT.format(sys.executable),
            ) from error


def find_interpreter(given: Optional[str], variables: Optional[Mapping[str, str]] = None) -> str:
    """Return the full path of the interpreter `given`: a path, or a name to look up on PATH (default `python`).

    Raises:
        SubmitRejected: it is not there or cannot be executed.
    """
    path = os.path.expanduser(given or "python")
    if os.sep not in path:
        return _look_up(path, variables, default=None if given else sys.executable)
    if not os.path.isabs(path):
        raise _unusable(path, "A relative path says nothing on the node that runs the script.")
    if not os.path.exists(path):
        raise _unusable(path, "There is no such file.")
    if os.path.isdir(path):
        raise _unusable(path, "It is a folder.")
    if not os.access(path, os.X_OK):
        raise _unusable(path, "It is not executable.")
    return path


def _look_up(name: str, variables: Optional[Mapping[str, str]], *, default: Optional[str]) -> str:
    import shutil  # a node's start does not wait for what it does not need

    path = (os.environ if variables is None else variables).get("PATH", os.defpath)
    found = shutil.which(name, path=path) or default
    if found is None:
        raise _unusable(name, f"No folder of PATH holds it: {path}")
    return os.path.abspath(found)


def _unusable(path: str, why: str) -> SubmitRejected:
    return SubmitRejected(f"The interpreter `{path}` cannot be used.", why=why, hint=_HINT.format(sys.executable))


def _is_this_one(interpreter: str) -> bool:
    """Whether it is the very Python that runs here: it needs no check, which would cost a process."""
    return os.path.realpath(interpreter) == os.path.realpath(sys.executable)


def _check_version(interpreter: str, facts: Mapping[str, Any]) -> None:
    version = str(facts["python"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise SubmitRejected(
            f"The interpreter `{interpreter}` is Python {version}.",
            why=f"Runs need Python {oldest} or newer.",
            hint=_HINT.format(sys.executable),
        )


def _warnings(spec: EnvironmentSpec, interpreter: str, say: Say) -> List[str]:
    """Return what the run says about packages that are named and not installed."""
    if not (spec.pip_packages or spec.conda_packages):
        return []
    from runyard.core.provided_packages import split_provided, tell_absent, tell_left_out  # few runs name any

    ignored, left_out = split_provided(spec.pip_packages)
    for text in tell_left_out(left_out):
        say(text)
    return [*([_ignored(spec, interpreter)] if ignored or spec.conda_packages else []), *tell_absent(left_out)]


def _ignored(spec: EnvironmentSpec, interpreter: str) -> str:
    return (
        f"The packages that environment `{spec.name}` names are not installed: its Python is managed by you. "
        f"Install them with `{interpreter} -m pip install …` if the script misses one."
    )


_FACTS_TIMEOUT_S = 20.0
_PACKAGES_TIMEOUT_S = 60.0

_FACTS = """
import json, platform, sys
print(json.dumps({"interpreter": sys.executable, "python": "%d.%d.%d" % sys.version_info[:3],
                  "implementation": sys.implementation.name, "platform": platform.platform()}))
"""

# The current folder, put first by -c, is none of the interpreter's. Only the head of METADATA is read: the email parser
# behind `distribution.metadata` takes ten times as long.
PACKAGES_SCRIPT = """
import json, os, platform, re, sys
sys.path.pop(0)
from importlib.metadata import distributions
field = re.compile(r"^(Name|Version): *(.+?) *$", re.M)
packages = {}
for found in distributions():
    text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    fields = dict(field.findall(text.split("\\n\\n", 1)[0]))
    if "Name" in fields:
        packages.setdefault(fields["Name"], fields.get("Version", ""))
folders = [folder for folder in sys.path if os.path.isdir(folder)]
print(json.dumps({"interpreter": sys.executable, "python": "%d.%d.%d" % sys.version_info[:3],
                  "platform": platform.platform(), "packages": packages,
                  "folders": {folder: os.stat(folder).st_mtime_ns for folder in folders}}))
"""


class InterpreterFacts(TypedDict, total=False):
    """What an interpreter says of itself."""

    interpreter: str
    python: str  # its version
    implementation: str
    platform: str
    packages: Dict[str, str]  # name → version
    folders: Dict[str, int]  # that packages are in → when each changed, in ns


class NotPython(Exception):
    """The program did not answer as a Python does; the text says what it did."""


def find_facts(
    interpreter: str, *, variables: Optional[Mapping[str, str]] = None, cache: Optional[Path] = None
) -> InterpreterFacts:
    """Return {"interpreter", "python", "implementation", "platform"}.

    Raises:
        NotPython: it is none.
    """
    kept = _kept_file(cache, "facts", interpreter, "")
    return _cached(kept, lambda answer: True, lambda: _ask(interpreter, _FACTS, variables, timeout_s=_FACTS_TIMEOUT_S))


def find_packages(
    interpreter: str, *, variables: Optional[Mapping[str, str]] = None, cache: Optional[Path] = None
) -> Dict[str, object]:
    """Return {"interpreter", "python", "platform", "packages": {name: version}} as the interpreter itself sees them.

    Raises:
        NotPython: it is none.
    """
    environ = os.environ if variables is None else variables
    kept = _kept_file(cache, "packages", interpreter, environ.get("PYTHONPATH", ""))
    answer = _cached(
        kept, _is_unchanged, lambda: _ask(interpreter, PACKAGES_SCRIPT, variables, timeout_s=_PACKAGES_TIMEOUT_S)
    )
    return {**{key: value for key, value in answer.items() if key != "folders"}, "interpreter": interpreter}


def _ask(
    interpreter: str, script: str, variables: Optional[Mapping[str, str]], *, timeout_s: float
) -> InterpreterFacts:
    argv = [interpreter, "-c", script]
    environ = {**(os.environ if variables is None else variables), "PYTHONWARNINGS": "ignore"}
    environ.pop("RUNYARD_RUN_FOLDER", None)  # this process is no part of a run
    try:
        done = subprocess.run(
            argv,
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotPython(f"It gave no answer within {timeout_s:g} s.") from None
    except OSError as error:
        raise NotPython(f"It cannot be started: {error.strerror}.") from error
    try:
        answer = json.loads(done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
    except ValueError:
        answer = None
    if done.returncode != 0 or not isinstance(answer, dict):
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2] or "nothing"
        raise NotPython(f"Asked for its version, it exited with {done.returncode} and said {said[:300]!r}.")
    return cast("InterpreterFacts", answer)


def _is_unchanged(answer: InterpreterFacts) -> bool:
    folders = answer.get("folders")
    return isinstance(folders, dict) and all(_mtime(folder) == mtime for folder, mtime in folders.items())


def _mtime(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return -1


def _kept_file(cache: Optional[Path], what: str, interpreter: str, path: str) -> Optional[Path]:
    if cache is None:
        return None
    try:
        found = os.stat(interpreter)
    except OSError:
        return None
    key: List[object] = [what, interpreter, path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
    return cache / f"{what}-{hashlib.sha256(repr(key).encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _cached(
    kept: Optional[Path], is_good: Callable[[InterpreterFacts], bool], ask: Callable[[], InterpreterFacts]
) -> InterpreterFacts:
    if kept is not None:
        try:
            answer = json.loads(kept.read_text(encoding="utf-8"))
            known = cast("InterpreterFacts", answer)
            if isinstance(answer, dict) and is_good(known):
                return known
        except (OSError, ValueError):
            pass
    answer = ask()
    if kept is not None:
        _keep(kept, answer)
    return answer


def _keep(kept: Path, answer: InterpreterFacts) -> None:
    beside = kept.with_name(f".{kept.name}.{os.urandom(4).hex()}")
    try:
        for folder in (kept.parent.parent, kept.parent):  # not the home above: one that was removed stays so
            folder.mkdir(mode=0o700, exist_ok=True)
        beside.write_text(json.dumps(answer), encoding="utf-8")
        beside.replace(kept)
    except OSError:  # a cache that cannot be written costs time, nothing else
        pass


_FIELD = re.compile(r"^(Name|Version): *(.+?) *$", re.M)


class Installed(NamedTuple):
    name: str
    version: str
    source: Optional[Mapping[str, Any]]  # the content of its direct_url.json


def list_installed(prefix: Path) -> List[Installed]:
    """Return the packages of an environment in the order of their names. Starts no process."""
    found = [_read(folder) for folder in prefix.glob("lib/python3.*/site-packages/*.dist-info")]
    return sorted((one for one in found if one is not None), key=lambda one: one.name.lower())


def _read(folder: Path) -> Optional[Installed]:
    try:
        with open(folder / "METADATA", encoding="utf-8", errors="replace") as file:
            fields = dict(_FIELD.findall(file.read(8192).split("\n\n", 1)[0]))
        return Installed(fields["Name"], fields["Version"], _source(folder))
    except (OSError, KeyError):
        return None


def _source(folder: Path) -> Optional[Mapping[str, Any]]:
    try:
        value = json.loads((folder / "direct_url.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
