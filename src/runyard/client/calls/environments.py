"""Calls about the environments that are built on the server's machine; `environments.pruning.BuiltFolder` as a dict."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from runyard.client.decoding import read_answer
from runyard.client.http1 import quote
from runyard.client.transport import Transport

_SLOW_S = 600.0  # sizes are counted, and gigabytes of small files removed


class EnvironmentCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> List[Dict[str, Any]]:
        """Last used first."""
        return read_answer(self._transport.request("GET", "/environments", timeout_s=_SLOW_S), _folders)

    def prune(
        self, *, keep_bytes: Optional[int] = None, unused_s: Optional[float] = None, dry_run: bool = False
    ) -> List[Dict[str, Any]]:
        """Remove what nobody uses, as far as it is older or more; return what went."""
        body = {"keep_bytes": keep_bytes, "unused_s": unused_s, "dry_run": dry_run}
        return read_answer(
            self._transport.request("POST", "/environments/prune", json=body, timeout_s=_SLOW_S), _folders
        )

    def remove(self, key: str) -> Dict[str, Any]:
        """Remove one; `key` may be its beginning.

        Raises:
            NotFound: there is none, or several begin so.
            Conflict: a run uses it.
        """
        answer = self._transport.request("DELETE", f"/environments/{quote(key)}", timeout_s=_SLOW_S)
        return read_answer(answer, lambda found: _folders([found])[0])


def _folders(found: Any) -> List[Dict[str, Any]]:
    return [dict(one) for one in found]
