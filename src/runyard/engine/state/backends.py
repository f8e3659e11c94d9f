"""The backends that start runs, one instance for each cluster that targets name, and the secrets they need.

Secrets of attached targets are in files that only this server's user reads, never in the database.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from runyard.compute import load_backend
from runyard.compute.base import ComputeBackend, SupportsSlots
from runyard.core.compute import LOCAL
from runyard.core.compute_options import SECRETS
from runyard.core.config.settings import Settings
from runyard.core.errors import InvalidArgument, RunyardError, SubmitRejected, SystemFailure
from runyard.engine.sanitize import HIDDEN
from runyard.engine.state.targets import Target

REFERENCE = "secret"  # {"secret": "<32 hex>"} stands for what the file of that name holds
_NAME = re.compile(r"[0-9a-f]{32}")
_AS_FILE = "private_key"  # programs want it as a file
MOST_INSTANCES = 64


class ComputeSecrets:
    """Secrets of attached targets, one 0600 file each. `folder` is created, 0700, with the first. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as they may be stored.

        Raises:
            InvalidArgument: a secret is what we show instead of one.
        """
        return {name: self._keep(name, value) if name in SECRETS else value for name, value in options.items()}

    def resolve(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as a backend wants them: a private key as the path of its file, others as they are."""
        return {name: self._resolve(name, value) if name in SECRETS else value for name, value in options.items()}

    def is_same(self, kept: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
        """Whether options that were given are those that are kept."""
        if set(kept) != set(given):
            return False
        return all(
            given[name] == HIDDEN or _text_of(name, given[name]) == self._read(value)
            if name in SECRETS
            else given[name] == value
            for name, value in kept.items()
        )

    def forget(self, options: Mapping[str, Any]) -> None:
        """Remove the secrets that these stored options name. It may be repeated."""
        for value in _references(options):
            self._file(value).unlink(missing_ok=True)

    def sweep(self, kept: Iterable[Mapping[str, Any]]) -> None:
        """Remove the files that no options name: a server was killed before it stored them."""
        named = {self._file(value).name for options in kept for value in _references(options)}
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name not in named:
                    path.unlink(missing_ok=True)

    def _keep(self, name: str, value: Any) -> Any:
        if value == HIDDEN:
            raise InvalidArgument(
                f"The option {name} is {HIDDEN}.",
                why="That is shown instead of a secret; it is none.",
                hint="Attach again with the secret itself.",
            )
        reference = {REFERENCE: os.urandom(16).hex()}
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(self._file(reference), flags, 0o600), "w", encoding="utf-8") as file:
            file.write(_text_of(name, value))
            file.flush()
            os.fsync(file.fileno())
        return reference

    def _resolve(self, name: str, value: Mapping[str, str]) -> Any:
        return str(self._file(value)) if name == _AS_FILE else json.loads(self._read(value))

    def _read(self, value: Mapping[str, str]) -> str:
        try:
            return self._file(value).read_text(encoding="utf-8")
        except OSError as error:
            raise SystemFailure(
                "The secret of a compute target cannot be read.", why=f"{error}.", hint="Attach the target again."
            ) from error

    def _file(self, reference: Mapping[str, str]) -> Path:
        name = str(reference[REFERENCE])
        if not _NAME.fullmatch(name):
            raise SystemFailure(f"{name[:40]!r} names no secret.")
        return self._folder / name


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without their secrets."""
    return {name: HIDDEN if name in SECRETS else value for name, value in options.items()}


def _references(options: Mapping[str, Any]) -> list[Mapping[str, str]]:
    return [value for name, value in options.items() if name in SECRETS]


def _text_of(name: str, value: Any) -> str:
    if name != _AS_FILE:
        return json.dumps(value, sort_keys=True)
    return value if value.endswith("\n") else f"{value}\n"  # ssh does not read a key without a line end


__all__ = ["HERE", "BackendFactory", "Backends", "BackendsByKind", "InstanceKey", "load_backend", "open_backends"]

logger = logging.getLogger(__name__)

InstanceKey = tuple[str, str]  # kind, options as JSON
BackendFactory = Callable[[str, Settings, Mapping[str, Any]], ComputeBackend]
BackendsByKind = Mapping[str, ComputeBackend]
HERE: InstanceKey = (LOCAL, "")


class Backends:
    """One backend instance for each cluster that targets name, made when it is first needed. Thread-safe.

    An instance that cannot be made is tried again at the next call. The least recently used one is closed when there
    are many: an instance keeps nothing. `given` are instances by kind, whatever the options: this machine, and fakes
    of tests.
    """

    def __init__(
        self,
        settings: Settings,
        given: BackendsByKind,
        secrets: ComputeSecrets,
        *,
        make: BackendFactory = load_backend,
    ) -> None:
        self._settings = settings
        self._given = dict(given)
        self._secrets = secrets
        self._make = make
        self._lock = threading.Lock()
        self._making: defaultdict[InstanceKey, threading.Lock] = defaultdict(threading.Lock)
        self._made: dict[InstanceKey, ComputeBackend] = {}
        self._said: dict[str, str] = {}  # the last failure of each kind that stands in the log
        self._is_closed = False

    def kinds(self) -> list[str]:
        """Return the kinds that are targets by their own name."""
        return list(self._given)

    def key_of(self, target: Target | None) -> InstanceKey:
        """Return what all targets with the same instance have in common; a target that is gone was this machine."""
        if target is None:
            return HERE
        if target.backend in self._given:
            return target.backend, ""
        return target.backend, json.dumps(target.options, sort_keys=True)

    def get(self, key: InstanceKey) -> ComputeBackend:
        """Return the instance.

        Raises:
            UserError: it cannot be made, with what to do.
        """
        kind, options = key
        if kind in self._given:
            return self._given[kind]
        with self._lock:
            made, making = self._made.pop(key, None), self._making[key]
            if made is not None:
                self._made[key] = made  # the last one now
                return made
        with making:
            return self._made.get(key) or self._add(key, self._new(kind, json.loads(options)))

    def of(self, target: Target) -> ComputeBackend:
        """Return the target's instance; raises as `get`."""
        return self.get(self.key_of(target))

    def closed_slots(self, target: Target) -> frozenset[int]:
        """Return the target's slots that cannot be given now. Never waits: an instance is not made for it."""
        with self._lock:
            made = self._made.get(self.key_of(target))
        return made.closed_slots() if isinstance(made, SupportsSlots) else frozenset()

    def close(self) -> None:
        """Close every instance; none is made any more."""
        with self._lock:
            self._is_closed = True
            opened = [*self._given.values(), *self._made.values()]
        for backend in opened:
            _close(backend)

    def forget(self, key: InstanceKey) -> None:
        """Close the instance of targets that are gone."""
        with self._lock:
            left = self._drop(key)
        if left is not None:
            _close(left)

    def is_made(self, key: InstanceKey) -> bool:
        """Whether there is an instance already."""
        with self._lock:
            return key[0] in self._given or key in self._made

    def _add(self, key: InstanceKey, backend: ComputeBackend) -> ComputeBackend:
        with self._lock:
            if self._is_closed:
                left: list[ComputeBackend | None] = [backend]
            else:
                self._made[key] = backend
                left = [self._drop(old) for old in list(self._made)[:-MOST_INSTANCES]]
            is_closed = self._is_closed
        for one in filter(None, left):
            _close(one)
        if is_closed:
            raise SubmitRejected("The server stops.", why="It starts no runs any more.")
        return backend

    def _drop(self, key: InstanceKey) -> ComputeBackend | None:
        self._making.pop(key, None)
        return self._made.pop(key, None)

    def _new(self, kind: str, options: Mapping[str, Any]) -> ComputeBackend:
        try:
            return self._make(kind, self._settings, self._secrets.resolve(options))
        except RunyardError:
            raise
        except Exception as error:
            # A backend may be somebody else's code, and its library may be missing: that concerns its targets alone.
            if self._said.get(kind) != repr(error):  # its live runs are asked for every second
                self._said[kind] = repr(error)
                logger.exception("a %s cluster could not be set up", kind)
            raise SubmitRejected(
                f"Targets of kind `{kind}` cannot be used by this server.",
                why=f"{type(error).__name__}: {error}",
                hint="`runyard server status` says where the server's log is; it has the whole story.",
            ) from error


def open_backends(settings: Settings) -> BackendsByKind:
    """Return the instances that every server has: that of this machine."""
    return {LOCAL: load_backend(LOCAL, settings)}


def _close(backend: ComputeBackend) -> None:
    try:
        backend.close()
    except Exception:
        # The others must be closed too.
        logger.exception("a backend could not be closed")
