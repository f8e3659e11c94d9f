"""Sign-in of a browser: a one-time path made for the holder of a token, then a session of two halves.

One half is a cookie, which scripts cannot read. A browser sends it to every port of the same host, to other users'
programs too, so it opens the empty page and nothing else. The other half, the page key, lies in the page's own storage,
which belongs to one port; the page sends it as a header with every call of the API. A download cannot carry a header,
so it has a ticket for its one path instead.

Cookie, page key and tickets are signed with a key made from the server's token and an epoch: they end with either.

The pages at the end are for browsers without a session. They make no request, and have one style that their policy
names. Only the page that ends a sign-in has a script: it stores the page key where this port alone reads it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from urllib.parse import quote, unquote

from runyard.core.errors import InvalidArgument

CODE_S = 12 * 3600.0  # a printed link should still open when a long run has ended
COOKIE_S = 7 * 24 * 3600
TICKET_S = 60.0  # between a click and the request that it leads to
SIGNIN_PREFIX = "/signin/"
PAGE_KEY_HEADER = b"runyard-session"
MOST_CODES = 1000  # of one token, that were not used yet
_MOST_UNKEPT = 100
_ENDED_S = 60.0  # longer than any cached answer of the store is used
_UNSAFE = re.compile(r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CODE_LENGTH = 43  # 32 bytes in base64 without padding
_STYLE = """
:root{color-scheme:light dark;--page:#f7f8fa;--surface:#fff;--line:#dfe3e9;--text:#1b1f27;--soft:#586172;--code:#eff1f4}
@media(prefers-color-scheme:dark){
:root{--page:#0f1218;--surface:#161a22;--line:#2a303c;--text:#e6e9ef;--soft:#a3acbc;--code:#0b0e13}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:24px 16px;background:var(--page);
color:var(--text);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:32rem;background:var(--surface);border:1px solid var(--line);border-radius:12px;padding:28px}
svg{display:block;margin-bottom:16px}
h1{font-size:20px;line-height:1.3;margin:0 0 8px}
p{margin:0 0 12px;color:var(--soft)}
p:last-child{margin-bottom:0}
pre{margin:0 0 16px;padding:10px 12px;background:var(--code);border:1px solid var(--line);border-radius:8px;
white-space:pre-wrap;overflow-wrap:anywhere;color:var(--text);user-select:all}
a{display:inline-block;padding:7px 16px;border-radius:8px;background:#3557d6;color:#fff;font-weight:600;
text-decoration:none}
a:focus-visible{outline:2px solid var(--text);outline-offset:2px}
h1{overflow-wrap:anywhere}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
"""
_ICON = (
    '<svg width="36" height="36" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" '
    'fill="#3a5bd9"/><path d="M7 23V9m6 14V13m6 10V9m6 14v-8" stroke="#fff" stroke-width="3" stroke-linecap="round"/>'
    "</svg>"
)
_REFRESH = '<meta http-equiv="refresh" content="0">'
# The key's name is that in web/src/api/session.ts.
_KEEP = (
    "const {key, next} = document.currentScript.dataset; localStorage.setItem('runyard-session', key); "
    "location.replace(next);"
)
_RUN = re.compile(rb"/runs/([A-Za-z0-9_\-]{1,200})")  # nothing else of a request is ever written into the page


@dataclass(frozen=True)
class Pass:
    """What a code was made for: a session of the user who has that token, or of the owner (None)."""

    token_id: int | None = None


@dataclass(frozen=True)
class SigninSession:
    """A browser that signed in."""

    nonce: str
    until: float
    token_id: int | None = None  # of the user's token that the link was made with; None: the owner's


class Signin:
    """Codes and cookies of one server. Used from the event loop and from worker threads."""

    def __init__(self, *, token: str, server_id: str, epoch: str = "", clock: Callable[[], float] = time.time) -> None:
        self.cookie_name = f"runyard_{server_id}"
        self._server_id = server_id
        self._key = hashlib.sha256(b"runyard cookie\0" + token.encode() + epoch.encode()).digest()
        self._clock = clock
        self._codes: dict[bytes, tuple[float, Pass]] = {}
        self._ended: dict[str, float] = {}  # nonce → when it may be forgotten
        self._unkept: dict[str, float] = {}  # nonce → until: sessions that the store could not take

    def make_path(self, next_path: str, token_id: int | None = None) -> str:
        """Return a path that signs in the first browser that opens it within twelve hours, and leads on to `next_path`.

        The session is that of the user with the token `token_id`, and ends with that token.

        Raises:
            InvalidArgument: `next_path` is not a path of this server.
        """
        local = clean_next(next_path)
        self._forget_old_codes(token_id)
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

    def now(self) -> float:
        return self._clock()

    def make_session(self, token_id: int | None = None) -> SigninSession:
        """Return a new session, which is good once `sessions.begin_session` has it on its list."""
        return SigninSession(os.urandom(16).hex(), float(int(self._clock()) + COOKIE_S), token_id)

    def cookie_of(self, session: SigninSession, *, is_secure: bool = False) -> str:
        """Return the value of a `Set-Cookie` header; `is_secure`: for a browser that came over TLS."""
        text = f"{int(session.until)}.{session.nonce}"
        if session.token_id is not None:
            text += f".{session.token_id}"
        value = f"{text}.{self._sign(text)}"
        return self._cookie(value, int(session.until - self._clock())) + ("; Secure" if is_secure else "")

    def page_key_of(self, session: SigninSession) -> str:
        """Return the half of the session that the page itself keeps."""
        return self._sign(f"page.{session.nonce}")

    def is_page_key(self, session: SigninSession, key: bytes) -> bool:
        return hmac.compare_digest(self.page_key_of(session).encode(), key)

    def make_ticket(self, session: SigninSession, path: bytes) -> str:
        """Return what lets the session's browser get one path of the API within a minute, without the page key."""
        until = int(self._clock() + TICKET_S)
        return f"{until}.{self._sign_ticket(session, path, str(until))}"

    def is_ticket(self, session: SigninSession, path: bytes, ticket: str) -> bool:
        until, _, signature = ticket.partition(".")
        expected = self._sign_ticket(session, path, until)
        is_ours = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
        return is_ours and self._clock() <= int(until)

    def make_end(self) -> str:
        """Return the `Set-Cookie` header's value that takes the cookie away."""
        return self._cookie("", 0)

    def end(self, session: SigninSession) -> None:
        """Have the session be over from this moment; `sessions.end_session` keeps it so."""
        now = self._clock()
        for nonce in [nonce for nonce, until in list(self._ended.items()) if until < now]:
            self._ended.pop(nonce, None)
        self._ended[session.nonce] = now + _ENDED_S
        self._unkept.pop(session.nonce, None)

    def hold(self, session: SigninSession) -> None:
        """Keep the session valid until the server stops: a full disk must not lock users out."""
        while len(self._unkept) >= _MOST_UNKEPT:
            self._unkept.pop(next(iter(self._unkept)), None)
        self._unkept[session.nonce] = session.until

    def is_held(self, session: SigninSession) -> bool:
        return session.nonce in self._unkept

    def find_session(self, value: str) -> SigninSession | None:
        """Return the session that a cookie's value names, when we made it and it has not expired."""
        text, _, signature = value.rpartition(".")
        if not hmac.compare_digest(self._sign(text).encode(), signature.encode("utf-8", "replace")):
            return None
        until, nonce, *token_id = text.split(".")
        if float(until) <= self._clock() or nonce in self._ended:
            return None
        return SigninSession(nonce, float(until), int(token_id[0]) if token_id else None)

    def _cookie(self, value: str, max_age_s: int) -> str:
        return f"{self.cookie_name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict"

    def _sign(self, text: str) -> str:
        message = f"{self._server_id}.{text}".encode("utf-8", "replace")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def _sign_ticket(self, session: SigninSession, path: bytes, until: str) -> str:
        return self._sign(f"ticket.{session.nonce}.{until}.{path.decode('latin-1')}")

    def _forget_old_codes(self, token_id: int | None) -> None:
        """Make room for one more code of that token: many codes of one token push out only its own oldest."""
        now = self._clock()
        maker, of_maker = Pass(token_id), []
        for digest, (until, granted) in list(self._codes.items()):
            if until < now:
                self._codes.pop(digest, None)
            elif granted == maker:
                of_maker.append(digest)
        for digest in of_maker[: max(0, len(of_maker) + 1 - MOST_CODES)]:
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


def _hash(text: str) -> str:
    return "'sha256-" + b64encode(sha256(text.encode()).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
).encode()
LANDING_POLICY = POLICY + f"; script-src {_hash(_KEEP)}".encode()


def signin_page(path: bytes) -> bytes:
    """Return the page that answers a request for `path` without a session."""
    run = _RUN.fullmatch(path)
    command = f"runyard studio {run.group(1).decode()}" if run else "runyard studio"
    used = "<p>This link was used before, or is older than twelve hours.</p>" if path.startswith(b"/signin/") else ""
    return _page(
        "Sign in",
        f"<h1>This browser is not signed in</h1>{used}"
        f"<p>In a terminal, type</p><pre>{command}</pre><p>and open the link that it prints. It works once, within "
        "twelve hours; this browser then stays signed in for a week.</p>"
        "<p>On a team’s server, <code>runyard login</code> comes first, on your own machine.</p>",
    )


def again_page() -> bytes:
    """Return a page that asks for its own address again, from here."""
    return _page("Opening", "<h1>One moment</h1><p>The page is being opened.</p>", _REFRESH)


def landing_page(target: str, key: str) -> bytes:
    """Return the page that keeps the session's half for pages of this port, and leads on to `target`."""
    return _page(
        "Signed in",
        "<h1>Signed in</h1><noscript><p>The studio needs JavaScript.</p></noscript>"
        f'<script data-key="{escape(key)}" data-next="{escape(target)}">{_KEEP}</script>',
    )


def confirm_page(name: str) -> bytes:
    """Return a page that asks whether this browser should be signed in as `name`: another site's page led here."""
    return _page(
        "Sign in",
        f"<h1>Sign in as {escape(name) or 'a user who is gone'}?</h1>"
        "<p>A page of another site led here. Go on only if the link is yours: what you do then is done in that "
        'name.</p><a href="">Sign in</a>',
    )


def _page(title: str, body: str, head: str = "") -> bytes:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title} · Runyard</title>'
        f'<link rel="icon" href="data:,">{head}<style>{_STYLE}</style></head>'
        f"<body><main>{_ICON}{body}</main></body></html>"
    ).encode()
