"""A word on stderr about work that takes longer than a second."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from runyard.cli.text import plain

FIRST_AFTER_S = 1.0


class Progress:
    """Says how far the work is, once a second at most. Quick work says nothing. `show` writes the amounts."""

    def __init__(self, verb: str, total: int, *, show: Callable[[int], str] = str) -> None:
        self._verb, self._total, self._show = verb, total, show
        self._said = time.monotonic()

    def part(self, before: int, what: str) -> Callable[[int], None]:
        """Return what counts one piece of the work on, `before` having been done."""
        return lambda done: self.step(before + done, what)

    def step(self, done: int, what: str = "") -> None:
        now = time.monotonic()
        if now - self._said >= FIRST_AFTER_S:
            self._said = now
            amounts = f"{self._show(done)} of {self._show(self._total)}"
            click.echo(f"{self._verb} {amounts}{f': {plain(what)}' if what else ''}", err=True)
