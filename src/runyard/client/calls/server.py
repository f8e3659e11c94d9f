"""Calls about the server itself, and about the users of a team's server."""

from __future__ import annotations

import time
from typing import Any, List, NamedTuple, Optional, Tuple

from runyard.client.decoding import Collection, ServerInfo, collection, read_answer, read_record, read_records
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.formats.plain import from_plain
from runyard.core.users import DEFAULT_LABEL, USER, MintedToken, User


class ServerCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def info(self, *, timeout_s: Optional[float] = None, retry: bool = True) -> ServerInfo:
        answer = self._transport.request("GET", "/server", timeout_s=timeout_s, retry=retry)
        return read_record(ServerInfo, answer)

    def clock_offset(self, *, tries: int = 3) -> Tuple[float, float]:
        """Return how far the server's clock is ahead of this one, and the time of an answer, both in seconds."""
        found = []
        for _ in range(tries):
            before = time.time_ns()
            there = read_answer(self._transport.request("GET", "/server"), lambda plain: int(plain["time_ns"]))
            after = time.time_ns()
            found.append(((after - before) / 1e9, (there - (before + after) / 2) / 1e9))
        answer_s, offset_s = min(found)
        return offset_s, answer_s

    def stop(self) -> None:
        """Ask the private server to leave. Live runs go on; a later call starts it again."""
        self._transport.request("POST", "/server/stop", retry=False)

    def collect(self, *, everything: bool = False) -> Collection:
        """Free the bytes that nothing refers to any more, as far as no upload can count on them.

        With `everything` also what lies aside, and what unfinished uploads have sent: they send it again.
        """
        path = "/server/collect?everything=true" if everything else "/server/collect"
        return read_answer(self._transport.request("POST", path, timeout_s=600.0), collection)

    def signin_path(self, next: str = "/") -> str:
        """Return a one-time path that signs a browser in and then shows `next`."""
        answer = self._transport.request("POST", "/signin-codes", json={"next": next})
        return read_answer(answer, lambda plain: str(plain["path"]))


class WhoAmI(NamedTuple):
    """The principal of our requests: a user by name, the owner (role "owner"), or the code of a run."""

    name: Optional[str]
    role: Optional[str]
    run_id: Optional[str]


class UserCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def me(self) -> WhoAmI:
        return read_answer(
            self._transport.request("GET", "/users/me"), lambda found: WhoAmI(*map(found.get, WhoAmI._fields))
        )

    def list(self) -> List[User]:
        return read_records(User, self._transport.request("GET", "/users"))

    def add(self, name: str, *, role: str = USER, label: str = DEFAULT_LABEL) -> MintedToken:
        """Make a user.

        Raises:
            Conflict: there is one of that name.
        """
        return self._mint("/users", {"name": name, "role": role, "label": label})

    def set_role(self, name: str, role: str) -> User:
        return read_record(User, self._transport.request("PATCH", f"/users/{quote(name)}", json={"role": role}))

    def remove(self, name: str) -> None:
        """Remove the user with all tokens; twice is fine."""
        self._transport.request("DELETE", f"/users/{quote(name)}")

    def add_token(self, name: str, label: str) -> MintedToken:
        """Raises: Conflict: the user has a token of that label."""
        return self._mint(f"/users/{quote(name)}/tokens", {"label": label})

    def remove_token(self, name: str, label: str) -> User:
        """Take one token away; twice is fine."""
        return read_record(User, self._transport.request("DELETE", f"/users/{quote(name)}/tokens/{quote(label)}"))

    def rotate(self, name: str, *, label: str = DEFAULT_LABEL) -> MintedToken:
        """Put a new token in the place of all that the user has."""
        return self._mint(f"/users/{quote(name)}/rotate", {"label": label})

    def _mint(self, path: str, body: Any) -> MintedToken:
        # A second try would make another token, or find the name taken.
        return read_answer(self._transport.request("POST", path, json=body, retry=False), _minted)


def _minted(found: Any) -> MintedToken:
    return MintedToken(from_plain(User, found["user"]), str(found["token"]))
