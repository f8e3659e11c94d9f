"""Conda packages in a prefix: translate specifications, plan channels, and have `solver.py` solve and install.

The first half reads conda's specifications as pip's: names that mean the same on PyPI, versions in pip's words. The
channels follow. Both are pure. The last part sends orders to `solver.py` and reads its answers.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from runyard.core.config.logins import HIDDEN, hide_passwords
from runyard.core.errors import RunyardError, SubmitRejected, SystemFailure
from runyard.environments.base import Check, Say
from runyard.environments.process import run_program

if TYPE_CHECKING:
    from runyard.environments.conda.solver import SolveOrder

_PAIRS_FILE = "conda_pairs.txt"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._\-]*")
_CHANNEL = re.compile(r"^\S*::")
_IN_BRACKETS = re.compile(r"\[(.*)\]\s*$")
_VERSION_KEY = re.compile(r"\bversion\s*=\s*(?:'([^']*)'|\"([^\"]*)\"|([^\s,\]]+))")
_ONE = re.compile(r"(==|!=|>=|<=|~=|>|<|=)?\s*([0-9][0-9A-Za-z.!+_\-]*?)(\.?\*)?")
NOTHING = "-"
DEFAULT_CHANNELS = ["conda-forge"]  # where the specification names none
_DEFAULTS = ["main", "r"]  # what conda calls `defaults`, by the names of its parts
_MISSING, _UNREACHABLE = "missing", "unreachable"
_LEFT_OUT = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"})  # the solver runs on our Python, not on the run's
EXTRA_HINT = (
    "`pip install 'runyard[conda]'` where you submit, then `runyard server stop`: the next call starts it with that"
)


class CondaSpec(NamedTuple):
    name: str
    version: str  # as conda writes it, without the build: "", "=1.5", ">=1,<2"


class Translated(NamedTuple):
    requirements: List[str]  # pip's
    unknown: List[str]  # specifications whose name or version says nothing to pip
    left_out: List[str]  # names that wheels bring along


def translate(specs: List[str]) -> Translated:
    """Return conda's specifications as pip requirements, as far as they have the same meaning there."""
    found = Translated([], [], [])
    for spec in specs:
        parsed = parse_spec(spec)
        name = find_pair(parsed.name)
        version = pip_version(parsed.version)
        if name == NOTHING:
            found.left_out.append(parsed.name)
        elif name is None or version is None:
            found.unknown.append(spec)
        else:
            found.requirements.append(name + version)
    return found


def parse_spec(spec: str) -> CondaSpec:
    """Return name and version of `channel::name=1.5=build`, `name >=1,<2`, `name 1.5 build`, `name[version='1.5']`."""
    text = _CHANNEL.sub("", spec.strip())
    brackets = _IN_BRACKETS.search(text)
    if brackets:
        text = text[: brackets.start()]
    match = _NAME.match(text)
    if match is None:
        return CondaSpec(spec.strip(), "")
    name, rest = match.group().lower(), text[match.end() :]
    in_brackets = _VERSION_KEY.search(brackets.group(1)) if brackets else None
    if in_brackets:
        return CondaSpec(name, next(part for part in in_brackets.groups() if part is not None))
    return CondaSpec(name, _without_build(rest))


def pip_version(version: str) -> Optional[str]:
    """Return conda's version limits in pip's words; None when pip has none for them (`1.5|1.7`)."""
    if not version or version in ("*", "=*", "==*"):
        return ""
    limits = [_pip_limit(limit.strip()) for limit in version.split(",")]
    return None if None in limits else ",".join(limit for limit in limits if limit)


def find_pair(name: str) -> Optional[str]:
    """Return the same package's name on PyPI, `-` for what wheels bring along, None when no pair is known."""
    return all_pairs().get(name.lower())


@lru_cache(maxsize=None)
def all_pairs() -> Dict[str, str]:
    """Return the pairs of conda_pairs.txt: conda's name → PyPI's."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), _PAIRS_FILE), encoding="utf-8") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    return {words[0]: words[-1] for words in lines if words}


def _without_build(rest: str) -> str:
    """Return what follows the name less a build: `=1.5=py36_0` and ` 1.5 py36_0` name exactly that version."""
    rest = re.sub(r"\s*([,|<>=!~]+)\s*", r"\1", rest.strip())
    words = rest.split()
    if len(words) > 1 or (words and words[0][0].isdigit() and not words[0].endswith("*") and "," not in words[0]):
        exact = words[0].lstrip("=")
        return "==" + exact if exact[:1].isdigit() else words[0]
    built = re.fullmatch(r"={1,2}([^=<>!~,|]+)=[^=]+", rest)
    return "==" + built.group(1) if built else rest


def _pip_limit(limit: str) -> Optional[str]:
    if limit in ("", "*"):
        return ""
    match = _ONE.fullmatch(limit)
    if match is None:
        return None
    operator, number, star = match.groups()
    number = number.rstrip(".")
    if operator in (">=", "<=", ">", "<", "~="):
        return operator + number
    if operator == "!=":
        return "!=" + number + (".*" if star else "")
    if operator == "==" and not star:
        return "==" + number
    return f"=={number}.*" if star or operator == "=" else "==" + number


def plan_channels(channels: List[str]) -> List[str]:
    """Return names, URLs and folders in the order in which they are asked; `nodefaults` only keeps others away."""
    found: List[str] = []
    for channel in channels:
        for one in _DEFAULTS if channel == "defaults" else [channel]:
            if one != "nodefaults" and _full(one) not in found:
                found.append(_full(one))
    return found or list(DEFAULT_CHANNELS)


def _full(channel: str) -> str:
    """Return a folder with its full path: a relative one says nothing in another process."""
    if channel.startswith(("./", "../", "~", "/")):
        return "file://" + os.path.abspath(os.path.expanduser(channel))
    return channel


def hide_secrets(text: str) -> str:
    """Return the text without passwords and tokens in the URLs that it names."""
    return re.sub(r"(/t/)[^/\s]+", rf"\1{HIDDEN}", hide_passwords(text, keep_user=True))


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
    feed: SolveOrder = {
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


def _parse(line: str) -> Optional[Mapping[str, object]]:
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
