"""Public names of Azure's SDK that Runyard lacks: what each was, why it is not here, and what to use instead.

`absent.json` is written by `make docs` from the list of Microsoft's names, less what resolves here. It holds

- `reasons`: what it was, whether a later release brings it, why, and what to use instead;
- `packages`: packages that Azure's users install beside azureml-core. Importing one raises AbsentModule, as it would be
  missing without the installation;
- `modules`: the absent names of modules of azureml-core and its kin, by reason. A module that is not here either is
  made from this list, so that scripts that import it at their top go on until they use it;
- `members`: the absent members of classes that are here.
"""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Dict, List, Optional, Type

from runyard import __version__
from runyard.core.errors import AbsentModule, AbsentName, NotYetSupported
from runyard.sdk.names import absent_names
from runyard.sdk.placeholders import placeholder

_PRIVATE = "private"


@lru_cache(maxsize=None)
def table() -> Dict[str, Dict[str, Any]]:
    with open(os.path.join(os.path.dirname(__file__), "absent.json"), encoding="utf-8") as file:
        found: Dict[str, Dict[str, Any]] = json.load(file)
    return found


def find_module(name: str) -> Optional[ModuleSpec]:
    """Return how to make the module, or None where the name is not known.

    Raises:
        AbsentModule: an import asks for a package that is known and not here. `importlib.util.find_spec` gets None.
    """
    if name in table()["modules"]:
        return ModuleSpec(name, _Maker(), is_package=any(other.startswith(f"{name}.") for other in table()["modules"]))
    reason = _package_reason(name)
    asking = _import_frames()
    if reason is None or "_find_and_load_unlocked" not in asking:
        return None
    error = refusal(name, reason, AbsentModule)
    # `from azureml import pipeline` drops the error of a module of that name, and says "cannot import name" instead.
    error.name = None if "_handle_fromlist" in asking else name
    raise error


def find_in_module(module: str, name: str) -> Any:
    """Return what `module.name` is: a submodule, or the stand-in of an absent name.

    Raises:
        AttributeError: there is no such name, here or in Azure's SDK.
    """
    for reason, names in table()["modules"].get(module, {}).items():
        if name in names.split():
            path = f"{module}.{name}"
            value = getattr(import_module(reason[1:]), name) if reason.startswith("=") else placeholder(path)
            setattr(sys.modules[module], name, value)
            return value
    if not name.startswith("_") and hasattr(sys.modules[module], "__path__"):
        try:
            return import_module(f"{module}.{name}")
        except AbsentModule as error:
            raise AbsentName(error.what, why=error.why, hint=error.hint) from None
        except ModuleNotFoundError as error:
            if error.name != f"{module}.{name}":
                raise
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def find_member(cls: type, name: str) -> Optional[AbsentName]:
    """Return the refusal of a member of `cls` that Azure's class has, or None where neither has it."""
    for base in cls.__mro__:
        for reason, names in table()["members"].get(base.__name__, {}).items():
            if name in names.split():
                found: AbsentName = refusal(f"{base.__name__}.{name}", reason, AbsentName)
                return found
    return None


def reason_of(path: str) -> str:
    """Return the reason of a dotted name: of its module's list, else of the package that it belongs to."""
    module, _, name = path.rpartition(".")
    found = [reason for reason, names in table()["modules"].get(module, {}).items() if name in names.split()]
    return found[0] if found else _package_reason(path) or "azure"


def refusal(path: str, reason: str, kind: Type[NotYetSupported]) -> Any:
    """Return the error that says what `path` was, why it is not here and what to use instead."""
    what, comes_later, why, instead = table()["reasons"][reason]
    state = "is not there yet" if comes_later else "is not part of Runyard"
    return kind(f"`{path}` {state}.", why=f"It is {what}. {why.format(version=__version__)}", hint=instead)


def _package_reason(name: str) -> Optional[str]:
    packages = table()["packages"]
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        reason: Optional[str] = packages.get(".".join(parts[:length]))
        if reason is not None:
            return reason
    return _PRIVATE if any(part.startswith("_") and not part.startswith("__") for part in parts[1:]) else None


def _import_frames() -> List[str]:
    """Return the functions of the import system that are above, up to the statement or call that asked."""
    frame, names = sys._getframe(3), []
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        names.append(frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return names


class _Maker(Loader):
    """Loader of a module that has nothing but names of the table."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        lists = table()["modules"][module.__name__].values()
        module.__doc__ = "Names of Azure's SDK; those that Runyard lacks say so on use."
        module.__dict__["__all__"] = [name for names in lists for name in names.split()]
        module.__dict__["__getattr__"] = absent_names(module.__name__)
