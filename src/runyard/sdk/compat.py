"""Compatibility with Azure ML: the check for Microsoft's azureml-core, and small leftovers of its API.

The checks at the top raise when azureml-core takes the place of Runyard's `azureml`, and name the package to uninstall.
`set_diagnostics_collection` does nothing, because Runyard collects no diagnostics. `CallableDict` serves
`ws.experiments`, which was a method in 2018 and is a property today.
"""

from __future__ import annotations

import os
import sys
from typing import Dict, Optional, TypeVar

from runyard.core.errors import UserError

_THEIRS = "_base_sdk_common"  # a folder of azureml-core that Runyard has not
REMEDY = (
    "pip uninstall -y azureml-core azureml-sdk azureml-train-core azureml-defaults && "
    "pip install --force-reinstall --no-deps runyard"
)
V = TypeVar("V")


class ForeignAzureML(UserError, ImportError):
    """Microsoft's azureml-core stands where Runyard's `azureml` should be."""

    code = "ForeignAzureML"


def refuse_shared_folder(core_file: str) -> None:
    """Raise when azureml-core was installed into the very folder that holds our `azureml`.

    Each file there is then whose package came last, and neither works.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(core_file)))
    if os.path.isdir(os.path.join(package, _THEIRS)):
        raise ForeignAzureML(
            "Runyard and Microsoft's azureml-core are installed in one place.",
            why=f"Both put files into {package}, so that parts of each are missing.",
            hint=REMEDY,
        )


def refuse_foreign_core() -> None:
    """Raise when this process has loaded an `azureml.core` that is not ours."""
    core = sys.modules.get("azureml.core")
    if core is not None and not hasattr(core, "refuse_shared_folder"):
        raise ForeignAzureML(
            "`azureml.core` in this process is Microsoft's, not Runyard's.",
            why=f"Python found {getattr(core, '__file__', None)} first.",
            hint=REMEDY,
        )


def set_diagnostics_collection(
    send_diagnostics: bool = True, verbosity: Optional[int] = None, reason: str = "", path: Optional[str] = None
) -> None:
    """Do nothing."""


class CallableDict(Dict[str, V]):
    def __call__(self) -> CallableDict[V]:
        return self
