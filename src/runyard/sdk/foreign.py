"""Loaded by Microsoft's azureml-core, never by us: its import loads the entry points `azureml_run_type_providers`.

Where both are installed and its files win, `import azureml.core` would silently talk to Azure. Fetching the name that
our entry point gives stops that import and says what to uninstall.
"""

from __future__ import annotations

from typing import NoReturn

from runyard.sdk.compat import REMEDY


class ForeignAzureMLFirst(BaseException):
    """No Exception: azureml-core turns those into a log line and goes on."""


def __getattr__(name: str) -> NoReturn:
    if name != "stop":
        raise AttributeError(name)
    raise ForeignAzureMLFirst(
        "Microsoft's azureml-core is installed beside Runyard, and Python found its `azureml.core` first.\n"
        "Scripts would talk to Azure, whose SDK v1 is no longer served.\n\n"
        f"hint: {REMEDY}"
    )
