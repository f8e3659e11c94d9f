"""A word on stderr about work that takes longer than a second."""

from __future__ import annotations

import time

import click

from runyard.cli.text import plain

FIRST_AFTER_S = 1.0


class Progress:
    """Says how far the work is, once a second at most. Quick work says nothing."""

    def __init__(self, verb: str, total: int, noun: str) -> None:
        self._verb, self._total, self._noun = verb, total, noun
        self._said = time.monotonic()

    def step(self, done: int, what: str = "") -> None:
        now = time.monotonic()
        if now - self._said >= FIRST_AFTER_S:
            self._said = now
            click.echo(
                f"{self._verb} {done} of {self._total} {self._noun}{f': {plain(what)}' if what else ''}", err=True
            )
