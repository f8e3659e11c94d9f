"""The call by which the supervisors of one gang hear from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, cast

from runyard.client.decoding import DesiredState, read_answer, run_wish
from runyard.client.http1 import quote
from runyard.client.transport import Transport

if TYPE_CHECKING:
    from runyard.core.formats.documents import NodeFacts

LEAST_TIMEOUT_S = 15.0  # beyond what the server shall wait


class Peer(NamedTuple):
    """One node of a job as the server shows it to the others."""

    rank: int
    facts: NodeFacts
    lost: str = ""  # why the node will never be heard again
    host: str = ""
    failed_order: int = 0  # which of the nodes failed first, as the server heard it; 0: it has not
    silent: bool = False  # not heard for a lease


class GangNews(NamedTuple):
    wish: DesiredState
    epoch: str  # another one: the server was restarted, and knows nothing
    version: str
    nodes: List[Peer]


class GangCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def speak(
        self,
        run_id: str,
        rank: int,
        *,
        attempt: int,
        incarnation: str,
        facts: Optional[NodeFacts] = None,
        since: str = "",
        wait_s: float = 0.0,
    ) -> GangNews:
        """Say that the node lives and, with `facts`, all that it knows.

        The answer comes when there is news since the version `since`, or after `wait_s`.
        """
        body: Dict[str, object] = {"attempt": attempt, "incarnation": incarnation, "since": since, "wait_s": wait_s}
        if facts is not None:
            body["facts"] = facts
        path = f"/runs/{quote(run_id)}/nodes/{rank}"
        answer = self._transport.request("POST", path, json=body, timeout_s=wait_s + LEAST_TIMEOUT_S)
        return read_answer(answer, _gang_news)


def _gang_news(plain: Any) -> GangNews:
    return GangNews(run_wish(plain), str(plain["epoch"]), str(plain["version"]), [_peer(one) for one in plain["nodes"]])


def _peer(plain: Any) -> Peer:
    return Peer(
        rank=int(plain["rank"]),
        facts=cast("NodeFacts", dict(plain.get("facts") or {})),
        lost=str(plain.get("lost") or ""),
        host=str(plain.get("host") or ""),
        failed_order=int(plain.get("failed_order") or 0),
        silent=bool(plain.get("silent")),
    )
