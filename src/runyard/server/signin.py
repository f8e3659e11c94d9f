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
from urllib.parse import quote, unquote

from runyard.core.errors import InvalidArgument

CODE_S = 12 * 3600.0  # a printed link should still open when a long run has ended
COOKIE_S = 30 * 24 * 3600
SIGNIN_PREFIX = "/signin/"
_MOST_CODES = 1000
_UNSAFE = re.compile(r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CODE_LENGTH = 43  # 32 bytes in base64 without padding


class Signin:
    """Codes and cookies of one server. Used from the event loop and from worker threads."""

    def __init__(self, *, token: str, server_id: str, clock: Callable[[], float] = time.time) -> None:
        self.cookie_name = f"runyard_{server_id}"
        self._server_id = server_id
        self._key = hashlib.sha256(b"runyard cookie\0" + token.encode()).digest()
        self._clock = clock
        self._codes: dict[bytes, float] = {}

    def make_path(self, next_path: str) -> str:
        """Return a path that signs in whoever opens it first, within twelve hours, and leads on to `next_path`.

        Raises:
            InvalidArgument: `next_path` is not a path of this server.
        """
        local = clean_next(next_path)
        self._forget_old_codes()
        code = urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
        self._codes[_digest(code)] = self._clock() + CODE_S
        return f"{SIGNIN_PREFIX}{code}?next={quote(local, safe='')}"

    def take(self, code: str) -> bool:
        """Use a code up; whether it was good."""
        # `pop` is one step, so of two browsers with one code only one gets in.
        until = self._codes.pop(_digest(code), None) if len(code) == _CODE_LENGTH else None
        return until is not None and self._clock() <= until

    def make_cookie(self) -> str:
        """Return the value of a `Set-Cookie` header."""
        text = f"{int(self._clock()) + COOKIE_S}.{os.urandom(16).hex()}"
        flags = f"Path=/; Max-Age={COOKIE_S}; HttpOnly; SameSite=Strict"
        return f"{self.cookie_name}={text}.{self._sign(text)}; {flags}"

    def is_session(self, value: str) -> bool:
        """Whether a cookie's value was made by us and has not expired."""
        text, _, signature = value.rpartition(".")
        if not hmac.compare_digest(self._sign(text).encode(), signature.encode("utf-8", "replace")):
            return False
        return float(text.partition(".")[0]) > self._clock()

    def _sign(self, text: str) -> str:
        message = f"{self._server_id}.{text}".encode("utf-8", "replace")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def _forget_old_codes(self) -> None:
        now = self._clock()
        for digest, until in list(self._codes.items()):
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
