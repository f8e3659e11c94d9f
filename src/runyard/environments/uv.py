"""The EnvironmentBuilder `uv`: a venv per content key, filled by uv with hard links from its cache.

`build_once` is shared by every builder that installs packages: one build per key, however many runs wait for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.config.logins import hide_passwords
from runyard.core.config.paths import cache_folder, environments_folder
from runyard.core.config.settings import Settings, read_settings
from runyard.core.errors import SubmitRejected, UserError, error_from_plain
from runyard.core.formats.python_range import fits, is_range, lowest
from runyard.core.provided_packages import LeftOut, package_name, tell_absent, tell_left_out
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import BuiltEnvironment, Check, EnvironmentBuilder, Say, SupportsLock, never
from runyard.environments.cache import FAILED, CacheEntry, Marker, get_place, lock_text
from runyard.environments.pip import PipInstall, guard_pip, install, plan_pip
from runyard.environments.pythons import OLDEST, Python, find_python, is_too_old, list_pythons
from runyard.environments.system import list_installed
from runyard.environments.uv_program import find_uv, install_failed
from runyard.environments.wheels import (
    WheelSearch,
    exact_pins,
    lacks_wheels,
    limits_of_pins,
    limits_of_then,
    notes_of,
    wheels_only,
)

POLL_S = 0.05
REMIND_EVERY_S = 15.0

# Gets the lock's descriptor. The programs that it starts inherit it, so that no second build begins while they live.
Make = Callable[[int], Marker]
FORMAT = 1  # part of every key: raise it when builds change what they make
LOCK = "requirements.lock.txt"


def build_once(
    place: CacheEntry,
    make: Make,
    *,
    say: Say,
    check: Check,
    user: Optional[str],
    who: str,
    remind_every_s: float = REMIND_EVERY_S,
) -> Marker:
    """Return the marker of the finished environment; `make` fills an empty `place.prefix` when that was not done yet.

    A build that fails with a UserError fails for all callers that waited; a later call tries again. One that was
    killed or stopped leaves no marker, and the next in line builds.
    """
    asked_at = time.time()
    marker = place.take(user)
    if marker is not None:
        return marker
    fd = wait_for_lock(place, say=say, check=check, remind_every_s=remind_every_s)
    with place.signed(fd, who):
        marker = place.note_use(user)
        if marker is not None:
            return marker
        _raise_failure_since(place, asked_at)
        place.clear()
        _make(place, lambda: make(fd))
        marker = place.note_use(user)
    assert marker is not None
    return marker


def _make(place: CacheEntry, make: Callable[[], Marker]) -> None:
    began = time.monotonic()
    try:
        facts = make()
    except UserError as error:
        with suppress(OSError):  # a full disk: processes that wait find out by themselves
            place.write(FAILED, {"at": time.time(), "error": error.to_plain()})
        raise
    place.publish({**facts, "built_at": time.time(), "build_s": round(time.monotonic() - began, 3)})


def _raise_failure_since(place: CacheEntry, asked_at: float) -> None:
    failed = place.read(FAILED)
    if failed is not None and float(failed.get("at", 0)) >= asked_at:
        raise error_from_plain(failed["error"])


def wait_for_lock(place: CacheEntry, *, say: Say, check: Check, remind_every_s: float = REMIND_EVERY_S) -> int:
    """Return a descriptor that holds the lock; meanwhile `say` names its holder."""
    began = time.monotonic()
    said_at: Optional[float] = None
    while True:
        fd = place.try_lock()
        if fd is not None:
            return fd
        now = time.monotonic()
        if said_at is None or now - said_at >= remind_every_s:
            say(_waiting(place, now - began))
            said_at = now
        check()
        time.sleep(POLL_S)


def _waiting(place: CacheEntry, waited_s: float) -> str:
    holder = place.read("lock") or {}
    who = holder.get("who") or "Somebody"
    for_s = f" Waiting for {waited_s:.0f} s." if waited_s >= 1 else ""
    return f"{who} (process {holder.get('pid', '?')}) builds this environment; using it when it is ready.{for_s}"


class UvBuilder(EnvironmentBuilder, SupportsLock):
    def __init__(self, *, cache: Optional[Path] = None, settings: Optional[Settings] = None) -> None:
        self._cache = None if cache is None else cache / "interpreters"
        self._settings = settings or read_settings()

    def build(
        self,
        spec: EnvironmentSpec,
        *,
        say: Say,
        variables: Optional[Mapping[str, str]] = None,
        check: Check = never,
        user: Optional[str] = None,
    ) -> BuiltEnvironment:
        environ = os.environ if variables is None else variables
        pip = self._plan(spec, environ)
        python = self._find_python(spec, environ)
        place = self._place(environment_key("uv", python, pip.what_counts()))
        say_left_out(pip.left_out, say)
        if python.warning:
            say(python.warning)
        warnings = [*([python.warning] if python.warning else []), *tell_absent(pip.left_out)]
        marker = place.take(user)
        if marker is None:
            marker = build_once(
                place,
                lambda fd: self._make(place, spec, python, pip, say=say, check=check, keep=[fd]),
                say=say,
                check=check,
                user=user,
                who=who_asks(user),
            )
        notes = marker.get("notes") or []
        for note in notes:
            say(note)
        say(f"Environment `{spec.name}` is ready: {place.prefix}")
        return BuiltEnvironment(
            interpreter=str(place.interpreter),
            variables={"VIRTUAL_ENV": str(place.prefix)},
            warnings=[*warnings, *notes],
            key=place.key,
        )

    def describe(self, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None) -> Dict[str, object]:
        place = self._place(built.key)
        marker = place.read_marker() or Marker()
        return {
            "interpreter": built.interpreter,
            "python": marker.get("python", ""),
            "platform": platform.platform(),
            "packages": {one.name: one.version for one in list_installed(place.prefix)},
        }

    def lock(
        self, spec: EnvironmentSpec, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None
    ) -> str:
        """As the base class says; kept beside the environment once every package has its hashes."""
        place = self._place(built.key)
        try:
            return (place.folder / LOCK).read_text(encoding="utf-8")
        except OSError:
            pass
        pip = self._plan(spec, os.environ if variables is None else variables)
        version = (place.read_marker() or Marker()).get("python", "")
        title = f"Exact packages, Python {version} on {platform.machine()}."
        text, is_whole = lock_text(pip, built.interpreter, list_installed(place.prefix), title=title)
        if is_whole:
            place.write_text(LOCK, text)
        return text

    def _plan(self, spec: EnvironmentSpec, variables: Mapping[str, str]) -> PipInstall:
        return plan_pip(
            spec,
            variables=variables,
            allows_downloads=self._settings.python_downloads,
            horovod_wheels=cache_folder(self._settings.home) / "horovod",
        )

    def _find_python(self, spec: EnvironmentSpec, variables: Mapping[str, str]) -> Python:
        wanted, fetches = spec.python_version, self._settings.python_downloads
        try:
            return find_python(
                wanted,
                spec.interpreter,
                variables=variables,
                cache=self._cache,
                is_fallback_allowed=self._allows_fallback and not (fetches and wanted and not is_too_old(wanted)),
            )
        except SubmitRejected:
            to_fetch = lowest(wanted) if wanted is not None and is_range(wanted) else wanted
            if not fetches or not to_fetch or is_too_old(to_fetch):
                raise
            return Python(to_fetch, to_fetch)

    @property
    def _allows_fallback(self) -> bool:
        return self._settings.python_fallback != "never"

    def _other_pythons(self, python: Python, spec: EnvironmentSpec, variables: Mapping[str, str]) -> List[Python]:
        """Return the Pythons that may take the place of the chosen one, newest first; none of a version that was
        asked for and is there.
        """
        given = find_python(None, spec.interpreter, variables=variables, cache=self._cache)
        wanted = spec.python_version or given.version
        if not is_too_old(wanted) and _minor(wanted) == _minor(python.version) != _minor(given.version):
            return []
        here = [one for one in list_pythons(variables, self._cache) if one.version != python.version]
        if is_range(wanted):
            return [one for one in here if fits(one.version, wanted)]
        if not self._settings.python_downloads:
            return here
        have = {_minor(one.version) for one in [python, *here]}
        newest = max(int(minor.split(".")[1]) for minor in have)
        to_fetch = [f"3.{number}" for number in range(newest, OLDEST[1] - 1, -1)]
        return [*here, *(Python(version, version) for version in to_fetch if version not in have)]

    def _place(self, key: str) -> CacheEntry:
        return get_place(environments_folder(self._settings.home), key)

    def _make(
        self,
        place: CacheEntry,
        spec: EnvironmentSpec,
        python: Python,
        pip: PipInstall,
        *,
        say: Say,
        check: Check,
        keep: Sequence[int],
    ) -> Marker:
        say(f"Building environment `{spec.name}` on Python {python.version} ({python.path}).")
        for line in pip.requirements:
            say(f"  {line}")
        make_venv(place, python, pip, say=say, check=check, keep=keep)
        used, notes = self._install(place, spec, python, pip, say=say, check=check, keep=keep)
        guard_pip(place.prefix)
        shown = [hide_passwords(line) for line in pip.requirements]
        return {"kind": "uv", "name": spec.name, "python": used.version, "requirements": shown, "notes": notes}

    def _install(
        self,
        place: CacheEntry,
        spec: EnvironmentSpec,
        python: Python,
        pip: PipInstall,
        *,
        say: Say,
        check: Check,
        keep: Sequence[int],
    ) -> Tuple[Python, List[str]]:
        """Return the Python that was used in the end, and what the run shall say about other versions."""
        is_old = spec.python_version is not None and is_too_old(spec.python_version)
        pins = exact_pins(pip) if self._allows_fallback else {}
        limits = limits_of_then(pip, python) if is_old and self._allows_fallback else []
        for limit, pin in ({} if limits else limits_of_pins(pins)).items():
            say(f"Kept to {limit}, which {pin} was built for.")
            limits.append(limit)
        if not pins and not limits:
            install(pip, str(place.interpreter), say=say, check=check, keep=keep)
            return python, []
        if limits and is_old:
            say(f"Kept to versions that code of Python {spec.python_version} knows: {', '.join(limits)}.")
        first = replace(wheels_only(pip, list(pins)), constraints=[*pip.constraints, *limits])
        try:
            install(first, str(place.interpreter), say=say, check=check, keep=keep)
            return python, []
        except SubmitRejected as error:
            if not (limits or lacks_wheels(error)):
                raise
        others = self._other_pythons(python, spec, pip.variables)
        if not others and not is_old:
            try:  # as pip would: this Python was asked for, so packages without wheels are compiled
                install(pip, str(place.interpreter), say=say, check=check, keep=keep)
                return python, []
            except SubmitRejected:
                say("That did not work; looking for the nearest versions that have wheels.")
        else:
            say("Looking for a Python that these versions have wheels for.")
        choice = WheelSearch(pip, python, check=check, keep=keep).choose([python, *others])
        if choice is None:
            install(pip, str(place.interpreter), say=say, check=check, keep=keep)
            return python, []
        if choice.python != python:
            place.clear()
            make_venv(place, choice.python, pip, say=say, check=check, keep=keep)
        chosen = replace(pip, requirements=choice.requirements, constraints=choice.constraints)
        chosen = wheels_only(chosen, [name for name in pins if name not in choice.sources])
        install(chosen, str(place.interpreter), say=say, check=check, keep=keep)
        installed = {package_name(one.name): one.version for one in list_installed(place.prefix)}
        return choice.python, notes_of(choice, python, pins, installed)


def make_venv(
    place: CacheEntry,
    python: Python,
    pip: PipInstall,
    *,
    say: Say,
    check: Check,
    keep: Sequence[int],
    options: Sequence[str] = (),
) -> None:
    lines: List[str] = []
    argv = [find_uv(pip.variables), "venv", "--quiet", "--no-project", *options, "--python", python.path]
    code = pip.run([*argv, str(place.prefix)], environ=pip.environ(), say=lines.append, check=check, keep=keep)
    for line in lines:
        say(line)
    if code != 0:
        raise install_failed(pip.name, code, lines)


def environment_key(kind: str, python: Python, what_counts: Sequence[Any]) -> str:
    """Return the content key: the same request on the same Python is the same environment."""
    path = os.path.realpath(python.path) if os.sep in python.path else python.path  # else a version to be fetched
    facts = [FORMAT, kind, path, python.version, platform.machine(), what_counts]
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def say_left_out(left_out: Sequence[LeftOut], say: Say) -> None:
    for text in tell_left_out(left_out):
        say(text)


def who_asks(user: Optional[str]) -> str:
    """Return the builder's name, for processes that wait: the run, by its folder `runs/<run id>/<attempt>`."""
    return f"Run {os.path.basename(os.path.dirname(user))}" if user else "Somebody"
