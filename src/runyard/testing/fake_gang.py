"""What FakeServer knows of the nodes of one run, in the words of `POST /runs/{id}/nodes/{rank}`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Dict, List


@dataclass
class FakeGang:
    """Like the real board it is empty after a restart, and another `epoch` says so."""

    epoch: str = field(default_factory=lambda: os.urandom(4).hex())
    version: int = 0
    facts: Dict[int, Dict[str, Any]] = field(default_factory=dict)
    lost: Dict[int, str] = field(default_factory=dict)
    failed: List[int] = field(default_factory=list)
    silent: List[int] = field(default_factory=list)  # nodes whose lease a test says is over

    def hear(self, rank: int, said: Dict[str, Any]) -> None:
        facts = said.get("facts")
        if facts is not None and facts != self.facts.get(rank):
            self.facts[rank] = facts
            self.version += 1
            if "failed" in facts and rank not in self.failed:
                self.failed.append(rank)

    def lose(self, rank: int, why: str) -> None:
        self.lost[rank] = why
        self.version += 1
        if rank not in self.failed:
            self.failed.append(rank)

    def show(self) -> List[Dict[str, Any]]:
        return [self._show(rank) for rank in sorted({*self.facts, *self.lost})]

    def _show(self, rank: int) -> Dict[str, Any]:
        facts = self.facts.get(rank, {})
        order = self.failed.index(rank) + 1 if rank in self.failed else 0
        shown = {"rank": rank, "facts": facts, "lost": self.lost.get(rank, ""), "host": facts.get("host", "")}
        return {**shown, "failed_order": order, "silent": rank in self.silent}
