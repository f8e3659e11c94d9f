"""A request that lasts is asked again who it is from: a revoked token ends its open streams too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from runyard.core.errors import RunyardError

logger = logging.getLogger(__name__)

RECHECK_S = 2.0  # with what Credentials keeps in mind, a revoked token is dead within 5 s


class WhileValid:
    """Cancels the task that entered it once `is_valid` says no. `is_revoked` tells that from any other cancel."""

    def __init__(self, is_valid: Callable[[], Awaitable[bool]]) -> None:
        self.is_revoked = False
        self._is_valid = is_valid
        self._checking: asyncio.Task[None] | None = None

    def __enter__(self) -> WhileValid:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        # A timer costs next to nothing, and almost every request is over before it goes off.
        self._timer = self._loop.call_later(RECHECK_S, self._begin)
        return self

    def __exit__(self, *_: Any) -> None:
        self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()

    def _begin(self) -> None:
        self._checking = self._loop.create_task(self._check())

    async def _check(self) -> None:
        while await self._ask():
            await asyncio.sleep(RECHECK_S)
        self.is_revoked = True
        if self._task is not None:
            self._task.cancel()

    async def _ask(self) -> bool:
        try:
            return await self._is_valid()
        except RunyardError as error:  # the database is away: nobody was revoked by that
            logger.warning("Whether an open request's token is still good could not be looked up: %s", error.what)
            return True
        except Exception:
            logger.warning("Whether an open request's token is still good could not be looked up.", exc_info=True)
            return True
