"""How the end of one rank shows in the others: a failure that looks like one of these is a consequence."""

from __future__ import annotations

import re

# Type names without their module. An empty EOFError is a connection that was closed; one with words is something else.
_TYPES = frozenset(
    {
        "BrokenPipeError",
        "ConnectionAbortedError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "HorovodInternalError",
        "DistNetworkError",
    }
)
_TENSORFLOW_TYPES = frozenset({"UnavailableError", "AbortedError", "CancelledError"})

_TEXTS = re.compile(
    r"""
      connection\ (was\ )?(likely\ )?(reset|closed|refused|aborted|lost|broken)
    | (reset|closed|refused)\ by\ (remote\ )?peer
    | broken\ pipe | socket\ closed | failed\ to\ connect\ to\ all\ addresses
    | remote\ (peer|process|rank)\ (has\ |was\ )?(exited|died|closed|lost|failed|gone)
    | peer\ process\ has\ unexpectedly\ disconnected
    | ncclRemoteError | NCCL\ communicator\ was\ aborted | remote\ process\ has\ terminated
    | (send|recv)(Value|Bytes|Vector|String)?\ failed
    | MPI_ERR_PROC_FAILED | MPI_ERR_REVOKED | MPI_ERR_(OTHER|UNKNOWN).*(abort|known\ error)
    | Horovod\ has\ been\ shut\ down | Collective\ ops\ is\ aborted
    | task\ .{0,80}(unhealthy|stopped\ sending\ heartbeats|unavailable)
    | (detected|reported)\ .{0,60}(peer|another\ task|remote\ task)
    """,
    re.VERBOSE | re.IGNORECASE,
)

_TIMEOUTS = re.compile(
    r"""
      timed\ out\ (after\ )?[\d.]*\s*\w*\s*waiting\ (for\ clients|[\d.]*\s*m?s\ for\ (send|recv))
    | timed\ out\ waiting\ \d+ms\ for\ (send|recv)
    | watchdog\ caught\ collective\ operation\ timeout
    | application\ timeout\ caused\ pair\ closure
    | (socket\ has|wait)\ time(d\ )?out\ after
    | barrier.{0,60}timed?\ ?out
    """,
    re.VERBOSE | re.IGNORECASE,
)


def is_peer_error(type_name: str, message: str) -> bool:
    """Whether an exception tells that another process is gone, or never came."""
    short = type_name.rpartition(".")[2]
    if short == "EOFError":
        return not message.strip()
    if short in _TENSORFLOW_TYPES and type_name.startswith("tensorflow."):
        return True
    return short in _TYPES or tells_of_peers(message)


def tells_of_peers(text: str) -> bool:
    return bool(_TEXTS.search(text)) or is_timeout(text)


def is_timeout(text: str) -> bool:
    """Whether somebody waited in vain for another rank."""
    return bool(_TIMEOUTS.search(text))
