"""Models that another scikit-learn pickled: what its warnings say, as one line for the log and for the diagnosis."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any, Dict, List, Optional

# "Trying to unpickle estimator Ridge from version 0.24.1 when using version 1.5.2. …", since 0.18
_WARNED = re.compile(r"Trying to unpickle estimator (\S+) from version (\S+) when using version (\S+?)\.(?:\s|$)")


class PickleWatch:
    """Listens to warnings while a script or model loads; they are shown as ever."""

    def __init__(self) -> None:
        self._seen: Dict[str, List[str]] = {}  # the version that it was made with → estimators
        self._present = ""
        self._show: Any = None

    def __enter__(self) -> PickleWatch:
        self._show = shown = warnings.showwarning

        def watch(message: Any, *rest: Any, **named: Any) -> None:
            self._note(str(message))
            shown(message, *rest, **named)

        warnings.showwarning = watch
        return self

    def __exit__(self, *_: object) -> None:
        warnings.showwarning = self._show

    def text(self, error: Optional[BaseException] = None) -> str:
        """Return what to say about the model's age; "" when there is nothing to say."""
        for made, estimators in self._seen.items():
            named = ", ".join(sorted(set(estimators))[:3])
            return (
                f"runyard: the model ({named}) was made by scikit-learn {made}; here is {self._present}. "
                f"Its answers may differ. Have the service's environment ask for it: scikit-learn=={made}\n"
            )
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing and missing.startswith("sklearn."):
            present = getattr(sys.modules.get("sklearn"), "__version__", "another one")
            return (
                f"runyard: the model was made by another scikit-learn, which had `{missing}`; here is {present}. Have "
                "the service's environment ask for the version it was trained with: scikit-learn==…\n"
            )
        return ""

    def _note(self, message: str) -> None:
        found = _WARNED.search(message)
        if found:
            estimator, made, self._present = found.groups()
            self._seen.setdefault(made, []).append(estimator)
