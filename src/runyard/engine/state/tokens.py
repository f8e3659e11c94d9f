"""Tokens of runs and of users: 256 random bits, of which only the SHA-256 is ever stored."""

from __future__ import annotations

import hashlib
import secrets

from runyard.core.users import TOKEN_PREFIX

PREFIX = "ryr_"


def mint_run_token() -> str:
    return PREFIX + secrets.token_hex(32)


def mint_user_token() -> str:
    return TOKEN_PREFIX + secrets.token_hex(32)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
