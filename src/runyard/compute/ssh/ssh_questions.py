"""One question at a time to each machine, all at once: one that accepts and says nothing holds up nobody."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from runyard.compute.base import JobHandle
from runyard.compute.ssh.client import Host

MOST_AT_ONCE = 32
Ask = Callable[[Host, Sequence[JobHandle]], Any]


@dataclass(frozen=True)
class Answer:
    """What a host said; `fault` when it said nothing. It knows nothing of jobs that came after `began`."""

    began: float
    jobs: dict[JobHandle, list[dict[str, Any]]]
    fault: str = ""


@dataclass(frozen=True)
class _Asked:
    began: float
    future: Future[Answer]


class Questions:
    """Used by one thread. `ask(host, handles)` may take long or raise."""

    def __init__(self, hosts: Sequence[Host], ask: Ask, *, patience_s: float = 5.0) -> None:
        self._hosts = hosts
        self._ask = ask
        self._patience_s = patience_s
        self._pool = ThreadPoolExecutor(min(MOST_AT_ONCE, len(hosts) or 1), thread_name_prefix="runyard-ssh-ask")
        self._asked: dict[Host, _Asked] = {}
        self._last: dict[Host, str] = {}

    def ask(self, handles: Sequence[JobHandle]) -> dict[Host, Answer]:
        """Ask all hosts, and return what those answered that did within the patience."""
        for host in self._hosts:
            if host not in self._asked:
                began = time.monotonic()
                self._asked[host] = _Asked(began, self._pool.submit(self._call, host, list(handles), began))
        wait([asked.future for asked in self._asked.values()], timeout=self._patience_s)
        return {host: self._take(host) for host in self._hosts}

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _take(self, host: Host) -> Answer:
        asked = self._asked[host]
        if not asked.future.done():
            waited = time.monotonic() - asked.began
            return Answer(asked.began, {}, self._last.get(host) or f"it has said nothing for {waited:.0f} s")
        del self._asked[host]
        answer = asked.future.result()
        self._last[host] = answer.fault
        return answer

    def _call(self, host: Host, handles: list[JobHandle], began: float) -> Answer:
        try:
            found = self._ask(host, handles)["jobs"]
            return Answer(began, dict(zip(handles, found, strict=True)))
        except Exception as error:
            # Whatever it is, it concerns this host alone.
            return Answer(began, {}, getattr(error, "why", "") or str(error) or type(error).__name__)
