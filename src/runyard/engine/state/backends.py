"""The backends this server starts runs with: one instance for each engine that its targets name."""

from __future__ import annotations

import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from runyard.compute import load_backend
from runyard.compute.base import ComputeBackend, HasPlaces
from runyard.core.compute import LOCAL
from runyard.core.config.settings import Settings
from runyard.core.errors import RunyardError, SubmitRejected
from runyard.engine.state.compute_secrets import ComputeSecrets
from runyard.engine.state.targets import Target

__all__ = ["HERE", "Backends", "Given", "InstanceKey", "Make", "load_backend", "open_backends"]

logger = logging.getLogger(__name__)

InstanceKey = tuple[str, str]  # kind, options as JSON
Make = Callable[[str, Settings, Mapping[str, Any]], ComputeBackend]
Given = Mapping[str, ComputeBackend]  # by kind
HERE: InstanceKey = (LOCAL, "")
MOST_INSTANCES = 64


class Backends:
    """Shared between threads. An instance is made when it is needed first; one that cannot be is tried again. Names of
    engines can be anything, so the instance that was not used for longest goes when there are many: it keeps nothing.

    `given` are instances by kind, whatever the options: the server's own machine, and fakes of tests.
    """

    def __init__(
        self,
        settings: Settings,
        given: Given,
        secrets: ComputeSecrets,
        *,
        make: Make = load_backend,
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
        """Return those that are targets by their own name."""
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
        return self.get(self.key_of(target))

    def closed_places(self, target: Target) -> frozenset[int]:
        """Return the target's places that cannot be given now. Never waits: an instance is not made for it."""
        with self._lock:
            made = self._made.get(self.key_of(target))
        return made.closed_places() if isinstance(made, HasPlaces) else frozenset()

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
                logger.exception("a %s engine could not be set up", kind)
            raise SubmitRejected(
                f"Targets of kind `{kind}` cannot be used by this server.",
                why=f"{type(error).__name__}: {error}",
                hint="`runyard server status` says where the server's log is; it has the whole story.",
            ) from error


def open_backends(settings: Settings) -> Given:
    return {LOCAL: load_backend(LOCAL, settings)}


def _close(backend: ComputeBackend) -> None:
    try:
        backend.close()
    except Exception:
        # The others must be closed too.
        logger.exception("a backend could not be closed")
