"""The Pythons of this machine: which one a build starts from."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from runyard.core.errors import SubmitRejected
from runyard.core.formats.python_range import fits, is_range, lowest
from runyard.environments.system import NotPython, find_facts

OLDEST = (3, 8)
_PROGRAM = re.compile(r"python3\.(\d+)")


class Python(NamedTuple):
    path: str
    version: str
    warning: str = ""


def find_python(
    wanted: Optional[str],
    given: Optional[str],
    *,
    variables: Mapping[str, str],
    cache: Optional[Path],
    is_fallback_allowed: bool = True,
) -> Python:
    """Return the Python for a build: `given`, the submitting one, when its version fits, else an installed one.

    Another patch release of the wanted version is taken with a warning; so is the nearest other version where the
    wanted one is absent, or too old for runs, unless that is not allowed.

    Raises:
        SubmitRejected: there is none; the message lists those that are there.
    """
    mine = Python(sys.executable, platform.python_version())
    own = (_look_at(given, variables, cache) if given else None) or mine
    if not wanted:
        return own
    if is_range(wanted):
        return _in_range(wanted, [own, mine], variables, cache)
    number = _parsed(wanted)
    if number < OLDEST:
        if not is_fallback_allowed:
            raise _too_old(wanted, variables, cache)
        return _nearest(wanted, [own, mine], variables, cache)
    near: Optional[Python] = None
    for found in _iter_pythons([own, mine], _minor(number), variables, cache):
        if _fits(found.version, wanted):
            return found
        near = near or (found if _fits(found.version, _minor(number)) else None)
    if near is None:
        if not is_fallback_allowed:
            raise _missing(wanted, variables, cache)
        return _nearest(wanted, [own, mine], variables, cache)
    text = f"Python {wanted} is not on this machine; {near.version} is used instead ({near.path})."
    return near._replace(warning=text)


def is_too_old(version: str) -> bool:
    """Whether no run can use that version of Python; a range is judged when a Python is looked for."""
    return not is_range(version) and _numbers(version)[:2] < OLDEST


def _in_range(wanted: str, known: List[Python], variables: Mapping[str, str], cache: Optional[Path]) -> Python:
    """Return the submitting Python when its version fits, else this process's, else the newest that does.

    Raises:
        SubmitRejected: there is none. What a lock file or a script's header asks for is not bent.
    """
    usable = [one for one in known if not is_too_old(one.version)]
    for found in usable:
        if fits(found.version, wanted):
            return found
    for found in list_pythons(variables, cache):
        if fits(found.version, wanted):
            return found
    there, _ = _there(variables, cache)
    raise SubmitRejected(
        f"No Python of this machine is {wanted}.",
        why=f"There are: {there}.",
        hint=f"Install one: `uv python install {lowest(wanted) or wanted}`. With RUNYARD_PYTHON_DOWNLOADS=1 a build "
        "may fetch it by itself.",
    )


def _nearest(wanted: str, known: List[Python], variables: Mapping[str, str], cache: Optional[Path]) -> Python:
    """Return the Python whose version is next to the wanted one; of two as near, the newer one."""
    number = _parsed(wanted)
    usable = [one for one in known if not is_too_old(one.version)]
    found = [*usable, *list_pythons(variables, cache)]  # of one minor version, those that are known come first
    near = min(found, key=lambda one: (_distance(one.version, number), [-part for part in _numbers(one.version)[:2]]))
    why = f"too old (runs need {_minor(OLDEST)} or newer)" if number < OLDEST else "not on this machine"
    text = f"Python {wanted} is {why}; {near.version} is used instead ({near.path})."
    return near._replace(warning=f"{text} RUNYARD_PYTHON_FALLBACK=never forbids this.")


def _distance(version: str, number: Tuple[int, ...]) -> int:
    major, minor = _numbers(version)[:2]
    return abs((major - number[0]) * 100 + minor - number[1])


def list_pythons(variables: Mapping[str, str], cache: Optional[Path]) -> List[Python]:
    """Return the Pythons of this machine that runs can use, newest first."""
    found: Dict[str, Python] = {}
    for path in [sys.executable, *_iter_programs(variables, None)]:
        one = _look_at(path, variables, cache)
        if one is not None and _parsed(one.version) >= OLDEST:
            found.setdefault(one.version, one)
    return sorted(found.values(), key=lambda one: _numbers(one.version), reverse=True)


def _iter_pythons(
    known: List[Python], minor: str, variables: Mapping[str, str], cache: Optional[Path]
) -> Iterator[Python]:
    yield from known
    for path in _iter_programs(variables, minor):
        found = _look_at(path, variables, cache)
        if found is not None:
            yield found


def _look_at(path: str, variables: Mapping[str, str], cache: Optional[Path]) -> Optional[Python]:
    """Return what an interpreter is; this process's own needs no asking."""
    if os.path.realpath(path) == os.path.realpath(sys.executable):
        return Python(path, platform.python_version())
    try:
        facts = find_facts(path, variables=variables, cache=cache)
    except NotPython:
        return None
    return Python(path, str(facts["python"])) if facts.get("implementation") == "cpython" else None


def _iter_programs(variables: Mapping[str, str], minor: Optional[str]) -> Iterator[str]:
    """Yield programs named `python3.x` that may be Pythons, each once; files are looked at, nothing is started."""
    seen: Set[str] = set()
    for folder in _folders(variables):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            match = _PROGRAM.fullmatch(name)
            path = os.path.join(folder, name)
            if match is None or (minor is not None and f"3.{match[1]}" != minor) or not os.access(path, os.X_OK):
                continue
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield path


def _folders(variables: Mapping[str, str]) -> Iterator[str]:
    home = variables.get("HOME") or os.path.expanduser("~")
    data = variables.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    pyenv = variables.get("PYENV_ROOT") or os.path.join(home, ".pyenv")
    managed = variables.get("UV_PYTHON_INSTALL_DIR") or os.path.join(data, "uv", "python")
    for folder in (variables.get("PATH") or os.defpath).split(os.pathsep):
        # A shim is a script that picks one; a venv belongs to its user.
        if folder and os.path.basename(folder) != "shims" and not os.path.exists(f"{folder}/../pyvenv.cfg"):
            yield folder
    yield from ("/usr/bin", "/usr/local/bin")
    for parent in (os.path.join(pyenv, "versions"), managed):
        try:
            yield from (os.path.join(parent, name, "bin") for name in sorted(os.listdir(parent), reverse=True))
        except OSError:
            continue


def _parsed(version: str) -> Tuple[int, ...]:
    found = _numbers(version)
    if len(found) < 2 or not re.fullmatch(r"\d+(\.\d+){1,2}", version):
        raise SubmitRejected(
            f"The Python version `{version}` cannot be read.",
            why="It must be two or three numbers.",
            hint="Such as `3.11` or `3.11.7`.",
        )
    return found[:2]


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _minor(number: Tuple[int, ...]) -> str:
    return f"{number[0]}.{number[1]}"


def _fits(version: str, wanted: str) -> bool:
    return (version + ".").startswith(wanted + ".")


def _missing(wanted: str, variables: Mapping[str, str], cache: Optional[Path]) -> SubmitRejected:
    there, newest = _there(variables, cache)
    return SubmitRejected(
        f"Python {wanted} is not on this machine.",
        why=f"There are: {there}.",
        hint=f"Name one of them (`set_python_version('{newest}')`, `python={newest}` in a conda file), or install "
        f"that one: `uv python install {wanted}`. With RUNYARD_PYTHON_DOWNLOADS=1 a build may fetch it by itself; "
        "without RUNYARD_PYTHON_FALLBACK=never the nearest one is used.",
    )


def _too_old(wanted: str, variables: Mapping[str, str], cache: Optional[Path]) -> SubmitRejected:
    there, newest = _there(variables, cache)
    return SubmitRejected(
        f"Python {wanted} is too old.",
        why=f"Runs need Python {_minor(OLDEST)} or newer. There are: {there}.",
        hint=f"`set_python_version('{newest}')`, or `python={newest}` in a conda file. Without "
        "RUNYARD_PYTHON_FALLBACK=never the nearest one is used.",
    )


def _there(variables: Mapping[str, str], cache: Optional[Path]) -> Tuple[str, str]:
    found = list_pythons(variables, cache)
    return ", ".join(one.version for one in found), _minor(_numbers(found[0].version))
