"""What a busy server used goes back to the machine when it has nothing to do."""

from __future__ import annotations

import gc


def give_memory_back() -> None:
    """Return free pages of the heap: after a large ingest glibc would keep some 30 MB for ever."""
    # Only a server that was busy comes here; an idle one should not hold ctypes.
    import ctypes

    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
    if trim is not None:
        trim(0)
