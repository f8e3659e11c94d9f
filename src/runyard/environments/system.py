"""The EnvironmentBuilder `system`: an interpreter that is already there, the submitter's own or the one named."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

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
        ignored = [*spec.pip_packages, *spec.conda_packages]
        warnings = [_ignored(spec, interpreter)] if ignored else []
        return BuiltEnvironment(interpreter=interpreter, warnings=warnings)

    def describe(self, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None) -> Dict[str, object]:
        """As the base class says; `error` says why when the package list could not be read."""
        from runyard.environments.interpreter import NotPython, find_packages

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

    def _facts(self, interpreter: str, variables: Optional[Mapping[str, str]]) -> Dict[str, Any]:
        # Here and above: a node's start does not wait for what it does not need.
        from runyard.environments.interpreter import NotPython, find_facts

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


def _ignored(spec: EnvironmentSpec, interpreter: str) -> str:
    return (
        f"The packages that environment `{spec.name}` names are not installed: its Python is managed by you. "
        f"Install them with `{interpreter} -m pip install …` if the script misses one."
    )
