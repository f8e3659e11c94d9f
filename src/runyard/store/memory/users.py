"""MemoryStore's part for users of a team's server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from runyard.core.users import Access, User, UserToken
from runyard.store.rules import label_is_taken, no_user, user_is_taken


@dataclass
class _Token:
    id: int
    user: str
    token_hash: str
    token: UserToken


@dataclass
class MemoryUsers:
    clock: Callable[[], datetime]
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _users: dict[str, User] = field(default_factory=dict)  # without their tokens
    _tokens: dict[int, _Token] = field(default_factory=dict)
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
        self._tokens[self._last_id] = _Token(self._last_id, name, token_hash, UserToken(label, self.clock()))
        return self.get(name)

    def _drop(self, name: str, label: str | None = None) -> None:
        for id, one in list(self._tokens.items()):
            if one.user == name and label in (None, one.token.label):
                del self._tokens[id]
