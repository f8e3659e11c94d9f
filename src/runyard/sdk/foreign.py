"""Stop an import of Microsoft's azureml-core when both packages are installed and its files win.

Only azureml-core loads this module: its import loads the entry points `azureml_run_type_providers`. Without the stop,
`import azureml.core` would silently talk to Azure. Loading our entry point raises an error that names the package to
uninstall.
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
