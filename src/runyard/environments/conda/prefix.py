"""Solve and install conda packages into a prefix: orders for `conda_solver.py`, and what its answers mean."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from runyard.core.errors import RunyardError, SubmitRejected, SystemFailure
from runyard.environments.base import Check, Say
from runyard.environments.conda.channels import hide_secrets
from runyard.environments.process import run_program

_MISSING, _UNREACHABLE = "missing", "unreachable"
_LEFT_OUT = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"})  # the solver runs on our Python, not on the run's
EXTRA_HINT = "`pip install 'runyard[conda]'` in the Python that runs Runyard's server"


class CondaUnavailable(Exception):
    """Conda packages cannot be had here now: the library is missing, or no channel answers. The text says which."""

    def __init__(self, why: str, *, is_missing: bool) -> None:
        super().__init__(why)
        self.is_missing = is_missing


class CondaOrder(NamedTuple):
    name: str  # of the environment
    specs: List[str]
    channels: List[str]
    cache: str


def check_library(python: Optional[str]) -> None:
    """Raise CondaUnavailable when this Python has no py-rattler; another one is asked by starting it."""
    if python is None and find_spec("rattler") is None:
        raise CondaUnavailable("the library py-rattler is not installed", is_missing=True)


def install_conda(
    order: CondaOrder,
    prefix: str,
    *,
    variables: Mapping[str, str],
    say: Say,
    check: Check,
    keep: Sequence[int] = (),
    python: Optional[str] = None,
) -> List[Dict[str, str]]:
    """Install into `prefix`, which must be absolute; return the packages: name, version, build, sha256.

    Args:
        python: the interpreter that has py-rattler; None: this one.

    Raises:
        CondaUnavailable: the library is missing, or no channel answers.
        SubmitRejected: the specifications cannot be satisfied; the solver's own explanation is in the error.
    """
    check_library(python)
    answer: Dict[str, Any] = {}
    noise: List[str] = []

    def hear(line: str) -> None:
        told = _parse(line)
        if told is None:
            noise.append(line)
            say(line)
        elif "say" in told:
            say(hide_secrets(str(told["say"])))
        else:
            answer.update(told)

    say(f"Solving {', '.join(order.specs)} with the channels {hide_secrets(', '.join(order.channels))}.")
    feed = {
        "channels": order.channels,
        "specs": order.specs,
        "prefix": prefix,
        "cache": order.cache,
        "alias": variables.get("CONDA_CHANNEL_ALIAS", ""),
    }
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "solver.py")
    environ = {name: value for name, value in variables.items() if name not in _LEFT_OUT}
    code = run_program(
        [python or sys.executable, script], environ=environ, say=hear, check=check, feed=json.dumps(feed), keep=keep
    )
    if "packages" in answer:
        return list(answer["packages"])
    raise _failure(order, str(answer.get("error", "")), hide_secrets(str(answer.get("text", ""))), code, noise)


def _parse(line: str) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _failure(order: CondaOrder, kind: str, text: str, code: int, noise: List[str]) -> Exception:
    if kind == _MISSING:
        return CondaUnavailable(f"the library py-rattler cannot be loaded ({text})", is_missing=True)
    if kind == _UNREACHABLE and not any(channel.startswith("file:") for channel in order.channels):
        return CondaUnavailable(f"no conda channel answers ({_last_cause(text)})", is_missing=False)
    what = f"The conda packages of environment `{order.name}` could not be installed."
    shown = hide_secrets(", ".join(order.channels))
    hints = {
        "solve": f"Look at the names and versions; the channels asked were: {shown}.",
        "spec": "Write a package as `name`, `name=1.5`, or `name>=1.5,<2`.",
        "channel": f"Look at the channels: {shown}. A folder must hold `noarch/repodata.json`.",
        _UNREACHABLE: f"Look at the channels: {shown}.",
    }
    if kind in hints:
        return SubmitRejected(what, why=text.strip(), hint=hints[kind])
    return _broken(what, text or "\n".join(noise[-15:]) or f"The solver exited with {code} and said nothing.")


def _broken(what: str, text: str) -> RunyardError:
    if "No space left" in text:
        return SubmitRejected(what, why=text, hint="The disk is full. `runyard environments prune` makes room.")
    return SystemFailure(what, why=text, hint="Submit again; the build log of the run has all that was said.")


def _last_cause(text: str) -> str:
    return text.strip().rpartition("\n")[2].replace("Caused by: ", "")
