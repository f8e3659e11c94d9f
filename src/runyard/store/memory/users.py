"""MemoryStore's part for users of a team's server.

What of a MemoryStore is deleted and can still come back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from runyard.core.records import Experiment, Run
from runyard.core.users import Access, User, UserToken
from runyard.store.rules import (
    check_ended,
    label_is_taken,
    no_hidden_experiment,
    no_user,
    no_view,
    not_hidden,
    parent_is_hidden,
    user_is_taken,
)


@dataclass
class _StoredToken:
    id: int
    user: str
    token_hash: str
    token: UserToken


@dataclass
class MemoryUsers:
    clock: Callable[[], datetime]
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _users: dict[str, User] = field(default_factory=dict)  # without their tokens
    _tokens: dict[int, _StoredToken] = field(default_factory=dict)
    _last_id: int = 0

    def add(self, name: str, *, role: str, label: str, token_hash: str) -> User:
        with self._lock:
            if name in self._users:
                raise user_is_taken(name)
            self._users[name] = User(name, role, self.clock())
            return self._put(name, label, token_hash)

    def get(self, name: str) -> User:
        with self._lock:
            found = self._users.get(name)
            if found is None:
                raise no_user(name)
            return replace(found, tokens=[one.token for one in self._tokens.values() if one.user == name])

    def find_role(self, name: str) -> str | None:
        with self._lock:
            found = self._users.get(name)
            return None if found is None else found.role

    def list_users(self) -> list[User]:
        with self._lock:
            return [self.get(name) for name in sorted(self._users)]

    def set_role(self, name: str, role: str) -> User:
        with self._lock:
            self._users[name] = replace(self.get(name), role=role, tokens=[])
            return self.get(name)

    def remove(self, name: str) -> None:
        with self._lock:
            if self._users.pop(name, None) is not None:
                self._drop(name)

    def add_token(self, name: str, *, label: str, token_hash: str) -> User:
        with self._lock:
            if any(token.label == label for token in self.get(name).tokens):
                raise label_is_taken(name, label)
            return self._put(name, label, token_hash)

    def replace_tokens(self, name: str, *, label: str, token_hash: str) -> User:
        with self._lock:
            self.get(name)
            self._drop(name)
            return self._put(name, label, token_hash)

    def remove_token(self, name: str, label: str) -> User:
        with self._lock:
            self.get(name)
            self._drop(name, label)
            return self.get(name)

    def find(self, is_it: Callable[[int, str], bool]) -> Access | None:
        """Return what the token opens of which `is_it(id, hash)` is true."""
        with self._lock:
            for one in self._tokens.values():
                if is_it(one.id, one.token_hash):
                    return Access(one.user, self._users[one.user].role, one.id)
            return None

    def note_seen(self, token_id: int) -> None:
        with self._lock:
            found = self._tokens.get(token_id)
            if found is not None:
                found.token = replace(found.token, seen_at=self.clock())

    def _put(self, name: str, label: str, token_hash: str) -> User:
        self._last_id += 1
        self._tokens[self._last_id] = _StoredToken(self._last_id, name, token_hash, UserToken(label, self.clock()))
        return self.get(name)

    def _drop(self, name: str, label: str | None = None) -> None:
        for id, one in list(self._tokens.items()):
            if one.user == name and label in (None, one.token.label):
                del self._tokens[id]


Place = tuple[str, str]  # workspace and name of an experiment


class MemoryHidden:
    """Looks at the store's own tables; the caller holds its lock."""

    def __init__(self, runs: Mapping[str, Run], experiments: Mapping[Place, Experiment]) -> None:
        self._all_runs = runs
        self._all_experiments = experiments
        self.runs: dict[str, datetime] = {}
        self.experiments: set[Place] = set()
        self.batches: dict[Place, datetime] = {}  # what was hidden with an experiment, which may be there again

    def in_view(self, view: str) -> list[Run]:
        if view == "deleted":
            return [replace(run, undo_until=self.runs[id]) for id, run in self._all_runs.items() if id in self.runs]
        if view not in ("active", "archived", "all"):
            raise no_view(view)
        shown = [run for id, run in self._all_runs.items() if id not in self.runs]
        return [run for run in shown if view == "all" or (run.archived_at is not None) == (view == "archived")]

    def find(self, run_id: str) -> Run | None:
        return replace(self._all_runs[run_id], undo_until=self.runs[run_id]) if run_id in self.runs else None

    def find_experiment(self, place: Place) -> Experiment | None:
        return self._all_experiments.get(place) if place not in self.experiments else None

    def hide(self, tops: list[Run], until: datetime) -> list[str]:
        family = [run for run in self.below(tops) if run.id not in self.runs]
        for run in family:
            check_ended(run)
        self.runs.update((run.id, until) for run in family)
        return [run.id for run in family]

    def hide_experiment(self, place: Place, until: datetime) -> list[str]:
        hidden = self.hide([run for run in self._all_runs.values() if (run.workspace, run.experiment) == place], until)
        self.experiments.add(place)
        self.batches[place] = until
        return hidden

    def restore(self, run_id: str) -> list[str]:
        if run_id not in self.runs:
            raise not_hidden(run_id)
        top = self._hidden_above(self._all_runs[run_id])
        if top is not None:
            raise parent_is_hidden(run_id, top)
        return self._show([self._all_runs[run_id]], self.runs[run_id])

    def restore_experiment(self, place: Place) -> list[str]:
        until = self.batches.pop(place, None)
        if until is None:
            raise no_hidden_experiment(place[1])
        self.experiments.discard(place)
        of_it = [run for run in self._all_runs.values() if (run.workspace, run.experiment) == place]
        found = [run for run in of_it if self.runs.get(run.id) == until]
        together = {run.id for run in found}
        return self._show([run for run in found if run.parent_id in together or not self._hidden_above(run)], until)

    def below(self, tops: list[Run]) -> list[Run]:
        """Return the runs and all below them, in the order of creation."""
        ids = {run.id for run in tops}
        for run in self._all_runs.values():  # a parent is made before its children
            if run.parent_id in ids:
                ids.add(run.id)
        return [run for run in self._all_runs.values() if run.id in ids]

    def _hidden_above(self, run: Run) -> str | None:
        top: str | None = None
        while run.parent_id is not None and run.parent_id in self.runs:
            top = run.parent_id
            run = self._all_runs[top]
        return top

    def _show(self, tops: list[Run], until: datetime) -> list[str]:
        family = [run for run in self.below(tops) if self.runs.get(run.id) == until]
        for run in family:
            del self.runs[run.id]
            self.experiments.discard((run.workspace, run.experiment))
        return [run.id for run in family]
