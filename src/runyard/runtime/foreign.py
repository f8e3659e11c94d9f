"""Tells our own failures from what a signal handler raised while our code was interrupted."""

from __future__ import annotations

_OURS = __name__.rpartition(".")[0] + "."


def raise_foreign(error: Exception) -> None:
    """Pass on an exception from somebody else's code: TimeoutError, which handlers raise, is an OSError too."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None and not trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        raise error
