"""Modules that libraries dropped and old scripts still import: they are answered with what took their place.

`sklearn.externals.joblib` and `.six` went with scikit-learn 0.23. The finder stands last on `sys.meta_path`, so it is
asked only where nothing else has the module; the hook in every process of a run asks it alike.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Dict, Optional, Sequence

_SUCCESSORS: Dict[str, str] = {"sklearn.externals.joblib": "joblib", "sklearn.externals.six": "six"}


class _Successors(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        return find_spec(name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        from importlib import import_module

        module = import_module(_SUCCESSORS[spec.name])
        self._own_spec = module.__spec__
        print(f"runyard: `{spec.name}` is gone; `{module.__name__}` is used in its place.", file=sys.stderr, flush=True)
        return module

    def exec_module(self, module: ModuleType) -> None:
        name = next(old for old, new in _SUCCESSORS.items() if new == module.__name__)
        module.__spec__ = self._own_spec  # the import system has just put the old name there
        # Pickles of that time name `sklearn.externals.joblib.numpy_pickle`: a second copy would not know the first one.
        for loaded, found in list(sys.modules.items()):
            if loaded.startswith(f"{module.__name__}."):
                sys.modules.setdefault(name + loaded[len(module.__name__) :], found)


def find_spec(name: str) -> Optional[importlib.machinery.ModuleSpec]:
    """Return how an old name is answered; None where it is no such name, or its successor is not installed."""
    successor = _SUCCESSORS.get(name)
    if successor is None:
        return None
    from importlib.util import find_spec  # only here: `importlib.util` takes milliseconds

    return importlib.machinery.ModuleSpec(name, _Successors()) if find_spec(successor) else None


def install() -> None:
    """Answer the old names from now on; may be called twice."""
    if not any(isinstance(finder, _Successors) for finder in sys.meta_path):
        sys.meta_path.append(_Successors())
