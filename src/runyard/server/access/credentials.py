"""Authentication of requests: find the principal of a token or session, and throttle wrong guesses.

`LoginThrottle` blocks a peer that sends wrong tokens; a peer with a valid token is never locked out by another's
guesses. `WhileValid` checks a long request again, so that a revoked token ends its open streams too.

The server keeps a list of the sessions of each token, of bounded length. A session that is not listed is over, and a
sign-in can only end the oldest sessions of the same token.

`Credentials` keeps only hashes of tokens. It caches the store's answer for a moment: a busy run costs no look-up per
request, and a revoked token is soon dead.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from runyard.core.errors import RunyardError
from runyard.core.users import TOKEN_PREFIX, Access
from runyard.server.access.crowd import peer_of
from runyard.server.access.hosts import is_unix, values_of
from runyard.server.access.permissions import Owner, Principal, RunPrincipal, UserPrincipal
from runyard.server.access.signin import PAGE_KEY_HEADER, Pass, Signin, SigninSession
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)

MOST_TRIES = 30  # within WINDOW_S, from one address
WINDOW_S = 60.0
_MOST_PEERS = 4096
RECHECK_S = 2.0  # with what Credentials keeps in mind, a revoked token is dead within 5 s
MOST = 50  # sessions of one token at a time
_LOCK = threading.Lock()
CACHED_S = 2.5
_MOST_CACHED = 4096
_SEEN_EVERY_S = 60.0
_API = ("/api/", "/mlflow/")  # what a page needs its half of the session for
_HAD_TICKET = "runyard.had_ticket"  # a download that lasts longer than its ticket goes on
_USER_PREFIX = TOKEN_PREFIX.encode()


class LoginThrottle:
    """Counts wrong tokens and codes by the peer's address. Used on the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._peers: OrderedDict[str, tuple[float, int]] = OrderedDict()  # address → (since, tries), oldest first

    def is_too_many(self, scope: Any) -> bool:
        """Count one more wrong try of the request's peer; whether it has made too many of late."""
        peer = _peer(scope)
        if peer is None:
            return False  # our own user, on the unix socket
        now = self._clock()
        since, tries = self._peers.get(peer, (now, 0))
        if now - since > WINDOW_S:
            self._peers.pop(peer)
            since, tries = now, 0
        self._peers[peer] = (since, tries + 1)
        if len(self._peers) > _MOST_PEERS:
            self._peers.popitem(last=False)
        if tries == MOST_TRIES:
            logger.warning("More than %d wrong tokens within %d s from %s.", MOST_TRIES, WINDOW_S, peer)
        return tries >= MOST_TRIES


def _peer(scope: Any) -> str | None:
    client = scope.get("client")
    return peer_of(str(client[0])) if client and client[0] else None


class WhileValid:
    """Cancels the task that entered it once `is_valid` says no. `is_revoked` tells that from any other cancel."""

    def __init__(self, is_valid: Callable[[], Awaitable[bool]]) -> None:
        self.is_revoked = False
        self._is_valid = is_valid
        self._checking: asyncio.Task[None] | None = None

    def __enter__(self) -> WhileValid:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        # A timer costs next to nothing, and almost every request is over before it goes off.
        self._timer = self._loop.call_later(RECHECK_S, self._begin)
        return self

    def __exit__(self, *_: Any) -> None:
        self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()

    def _begin(self) -> None:
        self._checking = self._loop.create_task(self._check())

    async def _check(self) -> None:
        while await self._ask():
            await asyncio.sleep(RECHECK_S)
        self.is_revoked = True
        if self._task is not None:
            self._task.cancel()

    async def _ask(self) -> bool:
        try:
            return await self._is_valid()
        except RunyardError as error:  # the database is away: that revokes no token
            logger.warning("Whether an open request's token is still good could not be looked up: %s", error.what)
            return True
        except Exception:
            logger.warning("Whether an open request's token is still good could not be looked up.", exc_info=True)
            return True


def begin_session(store: RunStore, session: SigninSession, *, now: float) -> None:
    """Make the session good; it stays so over restarts, until its time is over or it is ended."""
    with _LOCK:
        live = {nonce: until for nonce, until in _read(store, session).items() if until > now}
        live[session.nonce] = session.until
        _write(store, session, dict(list(live.items())[-MOST:]))


def end_session(store: RunStore, session: SigninSession) -> None:
    """Make the session worth nothing, for good; calling it twice is fine."""
    with _LOCK:
        live = _read(store, session)
        if live.pop(session.nonce, None) is not None:
            _write(store, session, live)


def is_live(store: RunStore, session: SigninSession) -> bool:
    return session.nonce in _read(store, session)


def _read(store: RunStore, session: SigninSession) -> dict[str, float]:
    return dict(json.loads(store.find_value(_key(session)) or "{}"))


def _write(store: RunStore, session: SigninSession, live: dict[str, float]) -> None:
    store.set_value(_key(session), json.dumps(live))


def _key(session: SigninSession) -> str:
    return f"sessions:{'owner' if session.token_id is None else session.token_id}"


Scope = MutableMapping[str, Any]


class Credentials:
    """Finds the principal of a request. Used on the event loop; the store is asked in threads."""

    def __init__(
        self, *, token: str, store: RunStore, signin: Signin, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.signin = signin
        self.wrong_tries = LoginThrottle(clock)
        self._owner_hash = _hash(token.encode())
        self._store = store
        self._clock = clock
        self._known: dict[str, tuple[Principal, float]] = {}
        self._seen: dict[int, float] = {}  # token id → when its use was written down last

    async def find_principal(self, scope: Scope) -> tuple[Principal, bool] | None:
        """Return the principal, and whether it was found by a cookie."""
        authorization = values_of(scope["headers"], b"authorization")
        if len(authorization) > 1:
            return None
        if authorization:
            principal = await self._by_bearer(authorization[0])
            return None if principal is None else (principal, False)
        if is_unix(scope) or not self._is_from_our_page(scope):
            return None
        principal = await self._by_cookie(scope)
        return None if principal is None else (principal, True)

    async def has_session(self, scope: Scope) -> bool:
        return await self._by_cookie(scope) is not None

    async def begin_session(self, session: SigninSession) -> None:
        """Make a session good; where the store cannot take it, until the server stops."""
        try:
            await asyncio.to_thread(begin_session, self._store, session, now=self.signin.now())
        except RunyardError as error:
            logger.warning("A browser's session could not be stored and ends with this server: %s", error)
            self.signin.hold(session)

    async def find_name(self, granted: Pass) -> str | None:
        """Return the user whose session a sign-in code begins; None: the owner, who alone can have made it."""
        if granted.token_id is None:
            return None
        access = await asyncio.to_thread(self._store.find_access_by_id, granted.token_id)
        return "" if access is None else access.name

    async def is_still(self, scope: Scope, principal: Principal) -> bool:
        """Whether the request would be let in as the same principal now.

        What a run delivers is not cut off in the middle when its user goes: the next request may deliver it, too.
        """
        found = await self.find_principal(scope)
        if found is None:
            return False
        now = found[0]
        if isinstance(now, RunPrincipal) and isinstance(principal, RunPrincipal) and scope.get("method") != "GET":
            same = (principal.run_id, principal.attempt, principal.external_writer)
            return (now.run_id, now.attempt, now.external_writer) == same
        return now == principal

    def find_session(self, scope: Scope) -> SigninSession | None:
        """Return the session that the request's cookie names, when we made it and its time is not over."""
        prefix = self.signin.cookie_name.encode() + b"="
        pairs = [pair.strip() for value in values_of(scope["headers"], b"cookie") for pair in value.split(b";")]
        found = [pair[len(prefix) :] for pair in pairs if pair.startswith(prefix)]
        return self.signin.find_session(found[0].decode("latin-1")) if len(found) == 1 else None

    def is_owner(self, token: bytes) -> bool:
        # Hashes are compared, in constant time: how long it takes says nothing about the token.
        return hmac.compare_digest(_hash(token), self._owner_hash)

    async def _by_bearer(self, value: bytes) -> Principal | None:
        scheme, _, token = value.partition(b" ")
        if scheme.lower() == b"basic":
            token = _password(token)
        elif scheme.lower() != b"bearer":
            return None
        if not token or len(token) > 256:
            return None
        if self.is_owner(token):
            return Owner()
        digest = _hash(token)
        find = self._find_user if token.startswith(_USER_PREFIX) else self._find_run
        return await self._look_up(digest, lambda: find(digest))

    async def _by_cookie(self, scope: Scope) -> Principal | None:
        session = self.find_session(scope)
        if session is None:
            return None
        return await self._look_up(session.nonce, lambda: self._find_browser(session))

    def _is_from_our_page(self, scope: Scope) -> bool:
        """Whether the page's half came too: every port of a host gets the cookie. The page without data needs none."""
        if not scope["path"].startswith(_API) or scope.get(_HAD_TICKET):
            return True
        session = self.find_session(scope)
        if session is None:
            return False
        keys = values_of(scope["headers"], PAGE_KEY_HEADER)
        if keys:
            return len(keys) == 1 and self.signin.is_page_key(session, keys[0])
        scope[_HAD_TICKET] = self._has_ticket(scope, session)
        return bool(scope[_HAD_TICKET])

    def _has_ticket(self, scope: Scope, session: SigninSession) -> bool:
        tickets = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("ticket", [])
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        return is_get and len(tickets) == 1 and self.signin.is_ticket(session, scope["raw_path"], tickets[0])

    async def _look_up(self, key: str, find: Callable[[], Principal | None]) -> Principal | None:
        known, until = self._known.get(key, (None, 0.0))
        if known is not None and self._clock() < until:
            return known
        found = await asyncio.to_thread(find)
        if found is None:
            self._known.pop(key, None)
            return None
        if len(self._known) >= _MOST_CACHED:
            self._known.clear()
        self._known[key] = (found, self._clock() + CACHED_S)
        return found

    def _find_run(self, digest: str) -> Principal | None:
        found = self._store.find_token(digest)
        if found is None:
            return None
        opened = (found.run_id, found.attempt, found.workspace, found.user, found.role)
        return RunPrincipal(*opened, external_writer=found.external_writer)

    def _find_user(self, digest: str) -> Principal | None:
        return self._seen_user(self._store.find_access(digest))

    def _find_browser(self, session: SigninSession) -> Principal | None:
        if not (is_live(self._store, session) or self.signin.is_held(session)):
            return None
        if session.token_id is None:
            return Owner()
        return self._seen_user(self._store.find_access_by_id(session.token_id))

    def _seen_user(self, access: Access | None) -> UserPrincipal | None:
        if access is None:
            return None
        now = self._clock()
        if now - self._seen.get(access.token_id, -_SEEN_EVERY_S) >= _SEEN_EVERY_S:
            self._seen[access.token_id] = now
            try:
                self._store.note_token_seen(access.token_id)
            except RunyardError as error:  # a full disk must not lock users out
                logger.warning("When a token was last used could not be kept: %s", error)
        return UserPrincipal(access.name, access.role, access.token_id)


def _password(encoded: bytes) -> bytes:
    """Return the password of a Basic header: clients that know no Bearer send the token as one, with any user name."""
    if len(encoded) > 1024:
        return b""
    try:
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _hash(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()
