"""Keys and tokens of services. The gateway keeps digests of keys and a secret for tokens, never a key itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

_KIND = "rys1"


def make_key() -> str:
    """Return a new key of 256 bits."""
    return base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode("ascii")


def digest_of(key: str | bytes) -> str:
    return hashlib.sha256(key.encode("utf-8") if isinstance(key, str) else key).hexdigest()


def make_token(secret: str, service: str, expires_at: int) -> str:
    """Return a token for one service (its id), good until `expires_at` (Unix seconds)."""
    text = f"{_KIND}.{expires_at}"
    return f"{text}.{_sign(secret, service, text)}"


def is_token(text: str) -> bool:
    return text.startswith(_KIND + ".")


def token_is_good(token: str, secret: str, service: str, now: float) -> bool:
    """Whether this service's secret signed the token, and its time is not over."""
    text, _, signature = token.rpartition(".")
    kind, _, expires = text.partition(".")
    is_signed = hmac.compare_digest(signature.encode(), _sign(secret, service, text).encode())
    return bool(secret) and is_signed and kind == _KIND and expires.isdigit() and now < int(expires)


def _sign(secret: str, service: str, text: str) -> str:
    return hmac.new(secret.encode(), f"{service}\n{text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()
