"""Notices that the engine's process which started this supervisor is gone.

An engine whose daemon on this node dies does not end our processes, and may give their resources to somebody else. Who
starts a supervisor below such a daemon gives it the reading end of a pipe, names it in RUNYARD_WATCH_FD, and keeps the
other end: it closes when that process ends, however that happens.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Callable, Mapping, Optional

VARIABLE = "RUNYARD_WATCH_FD"

logger = logging.getLogger(__name__)


def watch_engine(gone: Callable[[], None], environ: Mapping[str, str] = os.environ) -> None:
    """Call `gone` from a thread, once, when the engine's process is gone; nothing where there is none to watch."""
    fd = _find_descriptor(environ)
    if fd is not None:
        threading.Thread(target=_wait, args=(fd, gone), name="engine-watch", daemon=True).start()


def _find_descriptor(environ: Mapping[str, str]) -> Optional[int]:
    text = environ.get(VARIABLE, "")
    if not text.isdigit():
        return None
    try:
        os.set_inheritable(int(text), True)  # a supervisor that takes over by exec needs it too
    except OSError:
        logger.warning("%s names descriptor %s, which is not open", VARIABLE, text)
        return None
    return int(text)


def _wait(fd: int, gone: Callable[[], None]) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except OSError as error:  # a socket that was reset: the other end is gone as well
        logger.info("the engine's pipe: %s", error)
    logger.warning("the engine's process that started this supervisor is gone")
    gone()
