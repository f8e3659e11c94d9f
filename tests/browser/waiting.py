"""Looks at a page until it is so: it draws, and tells its address, a moment after what made it do so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from playwright.sync_api import Page

T = TypeVar("T")
PATIENCE_S = 30.0
PAUSE_MS = 20


def expect_soon(page: Page, read: Callable[[], T], wanted: T) -> None:
    """As `assert read() == wanted`, for what `expect` has no words for."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = read()
        if found == wanted or time.monotonic() > deadline:
            break
        page.wait_for_timeout(PAUSE_MS)  # no other pause lets Playwright hear of a new address
    assert found == wanted
