"""Stored bytes that are not what was stored."""

from __future__ import annotations


class Damaged(Exception):
    """A row cannot be read. The database turns it into StoreUnavailable, which names the file."""
