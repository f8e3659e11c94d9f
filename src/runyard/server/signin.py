"""How a browser gets in: a one-time path made for who has the token, and a signed cookie from then on.

The cookie is signed with a key made from the server's token, so it outlives restarts and ends with the token. Its name
holds the server's id: browsers share cookies between all ports of 127.0.0.1.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, unquote

from runyard.core.errors import InvalidArgument

CODE_S = 12 * 3600.0  # a printed link should still open when a long run has ended
COOKIE_S = 30 * 24 * 3600
SIGNIN_PREFIX = "/signin/"
_MOST_CODES = 1000
_UNSAFE = re.compile(r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CODE_LENGTH = 43  # 32 bytes in base64 without padding


@dataclass(frozen=True)
class Pass:
    """What a code was made for: a session of the user who has that token, or of the owner (None)."""

    token_id: int | None = None


@dataclass(frozen=True)
class Session:
    """A browser that signed in."""

    nonce: str
    until: float
    token_id: int | None = None  # of the user's token that the link was made with; None: the owner's


class Signin:
    """Codes and cookies of one server. Used from the event loop and from worker threads."""

    def __init__(self, *, token: str, server_id: str, clock: Callable[[], float] = time.time) -> None:
        self.cookie_name = f"runyard_{server_id}"
        self._server_id = server_id
        self._key = hashlib.sha256(b"runyard cookie\0" + token.encode()).digest()
        self._clock = clock
        self._codes: dict[bytes, tuple[float, Pass]] = {}
        self._ended: set[str] = set()

    def make_path(self, next_path: str, token_id: int | None = None) -> str:
        """Return a path that signs in whoever opens it first, within twelve hours, and leads on to `next_path`.

        The session is that of the user with the token `token_id`, and ends with that token.

        Raises:
            InvalidArgument: `next_path` is not a path of this server.
        """
        local = clean_next(next_path)
        self._forget_old_codes()
        code = urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
        self._codes[_digest(code)] = (self._clock() + CODE_S, Pass(token_id))
        return f"{SIGNIN_PREFIX}{code}?next={quote(local, safe='')}"

    def find(self, code: str) -> Pass | None:
        """Return what a code is good for, and leave it good."""
        until, found = self._codes.get(_digest(code), (0.0, None)) if len(code) == _CODE_LENGTH else (0.0, None)
        return found if self._clock() <= until else None

    def take(self, code: str) -> Pass | None:
        """Use a code up; None when it was not good."""
        # `pop` is one step, so of two browsers with one code only one gets in.
        until, found = self._codes.pop(_digest(code), (0.0, None)) if len(code) == _CODE_LENGTH else (0.0, None)
        return found if self._clock() <= until else None

    def make_cookie(self, token_id: int | None = None, *, is_secure: bool = False) -> str:
        """Return the value of a `Set-Cookie` header; `is_secure`: for a browser that came over TLS."""
        text = f"{int(self._clock()) + COOKIE_S}.{os.urandom(16).hex()}"
        if token_id is not None:
            text += f".{token_id}"
        return self._cookie(f"{text}.{self._sign(text)}", COOKIE_S) + ("; Secure" if is_secure else "")

    def make_end(self) -> str:
        """Return the `Set-Cookie` header's value that takes the cookie away."""
        return self._cookie("", 0)

    def end(self, session: Session) -> None:
        """Have the session's cookie be no good from this moment; the store keeps it so over restarts."""
        self._ended.add(session.nonce)

    def find_session(self, value: str) -> Session | None:
        """Return the session that a cookie's value names, when we made it and it has not expired."""
        text, _, signature = value.rpartition(".")
        if not hmac.compare_digest(self._sign(text).encode(), signature.encode("utf-8", "replace")):
            return None
        until, nonce, *token_id = text.split(".")
        if float(until) <= self._clock() or nonce in self._ended:
            return None
        return Session(nonce, float(until), int(token_id[0]) if token_id else None)

    def _cookie(self, value: str, max_age_s: int) -> str:
        return f"{self.cookie_name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict"

    def _sign(self, text: str) -> str:
        message = f"{self._server_id}.{text}".encode("utf-8", "replace")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def _forget_old_codes(self) -> None:
        now = self._clock()
        for digest, (until, _) in list(self._codes.items()):
            if until < now or len(self._codes) >= _MOST_CODES:
                self._codes.pop(digest, None)


def clean_next(path: str) -> str:
    """Return `path` when a browser will take it for a path of this server, whatever it makes of odd spellings.

    Raises:
        InvalidArgument: it could lead elsewhere.
    """
    seen = path
    for _ in range(3):
        if _leads_away(seen):
            raise InvalidArgument(
                f"{path[:200]!r} is not a path of this server.",
                why="After signing in, only pages of this server can be shown.",
                hint="Give a path such as `/runs/my_run`.",
            )
        seen = unquote(seen)
    return quote(path, safe="/%?&=#:;,+@!$'()*~-._")


def _leads_away(path: str) -> bool:
    if not path.startswith("/") or path.startswith("//") or len(path) > 2048:
        return True
    return any(
        char == "\\" or ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000 for char in path
    )


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
