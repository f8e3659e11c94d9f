"""Answers requests with a model: worker processes in the user's interpreter, and the gateway that speaks HTTP for them.

`from runyard import serving` is also what entry scripts import: `@serving.batched` and `class Mine(serving.Scorer)`.

May enter: the rooms `worker` and `scorers` run in the user's interpreter (standard library, Python 3.8), `gateway` in
the server's. Loads: with an entry script that names it, and in these processes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from runyard.serving.scripts import Scorer, batched

__all__ = ["Scorer", "batched"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Loaded on first use: every process of serving imports this package first.
    from runyard.serving import scripts

    return getattr(scripts, name)


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
