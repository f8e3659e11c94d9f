"""A run's own token: 256 random bits, of which only the SHA-256 is ever stored."""

from __future__ import annotations

import hashlib
import secrets

PREFIX = "ryr_"


def mint_run_token() -> str:
    return PREFIX + secrets.token_hex(32)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
