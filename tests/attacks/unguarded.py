"""The real app and sign-in with the checks of where a request comes from taken out: attacks on those bite here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from runyard.server.access import guard
from runyard.server.access.credentials import Credentials
from runyard.server.access.hosts import HostNames, values_of
from tests.server.guarded import Guarded, serving


@dataclass(frozen=True)
class EveryName(HostNames):
    """Answers to whatever name it is called by."""

    def find_host(self, scope: Any) -> bytes | None:
        return next(iter(values_of(scope["headers"], b"host")), b"")


def take_checks_out(patch: pytest.MonkeyPatch) -> None:
    """Have this process's guard believe that every request is from our own pages."""
    patch.setattr(guard, "foreign_page", lambda *_: "")
    patch.setattr(guard, "_has_origin_if_needed", lambda _: True)
    patch.setattr(guard, "came_from_elsewhere", lambda _: False)
    patch.setattr(guard, "fault_of", lambda _: None)  # of which type a body is
    patch.setattr(Credentials, "_is_from_our_page", lambda *_: True)  # the cookie alone will do


@contextmanager
def unguarded() -> Iterator[Guarded]:
    with pytest.MonkeyPatch.context() as patch:
        take_checks_out(patch)
        with serving(names=EveryName(0)) as found:
            yield found
