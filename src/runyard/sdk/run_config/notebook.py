"""`NotebookRunConfig` of azureml.contrib.notebook: a notebook as the script of a run, and its execution handlers."""

from __future__ import annotations

import os
from copy import copy
from typing import Any, Dict, List, Mapping, Optional

from runyard.runtime.notebook import FOLDER, OUTPUT, TIMEOUT
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import RunConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig

_KEPT = ("outputs", "logs")


@raises_azure_errors
class NotebookExecutionHandler(AzureClass):
    """Base of the handlers: how a notebook is executed."""

    def __init__(self) -> None:
        self.timeout: Optional[int] = None
        self.cwd: Optional[str] = None
        self.dependencies: List[str] = []


@raises_azure_errors
class AzureMLNotebookHandler(NotebookExecutionHandler):
    """Executes the cells one by one; metrics are logged by the cells themselves, with `Run.get_context().log`.

    Args:
        timeout: seconds that one cell may take.
        cwd: the folder, below the source directory, that cells run in.
    """

    supported_options = ("progress_bar", "log_output", "kernel_name", "cwd")

    def __init__(
        self,
        history: bool = True,
        timeout: Optional[int] = None,
        *,
        progress_bar: Optional[bool] = None,
        log_output: Optional[bool] = None,
        kernel_name: Optional[str] = None,
        cwd: Optional[str] = None,
    ) -> None:
        super().__init__()
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1):
            raise UserErrorException(f"timeout must be whole seconds, 1 or more, found {timeout!r}.")
        note_without_effect(
            {
                "history": None if history else history,
                "progress_bar": progress_bar,
                "log_output": log_output,
                "kernel_name": kernel_name,
            }
        )
        self.timeout, self.cwd = timeout, cwd


class PapermillExecutionHandler(AzureMLNotebookHandler):
    """The earlier name of `AzureMLNotebookHandler`."""


@raises_azure_errors
class NotebookRunConfig(ScriptRunConfig):
    """What `experiment.submit` takes to run a notebook.

    Args:
        notebook: path of the notebook, relative to `source_directory`.
        output_notebook: where the executed notebook goes; by default beside its name, with `.output`, in `outputs`.
        parameters: values that are put behind the cell tagged `parameters`, else before the first one.
        handler: an AzureMLNotebookHandler with a time limit for cells.

    Raises:
        UserErrorException: it is no notebook, or parameters have names that Python does not know.
    """

    def __init__(
        self,
        source_directory: str,
        notebook: str,
        output_notebook: Optional[str] = None,
        parameters: Optional[Mapping[str, Any]] = None,
        handler: Optional[NotebookExecutionHandler] = None,
        run_config: Optional[RunConfiguration] = None,
        _telemetry_values: Any = None,
    ) -> None:
        if not str(notebook).endswith(".ipynb"):
            raise UserErrorException(f"notebook must be the path of a notebook (.ipynb), found {notebook!r}.")
        if handler is not None and not isinstance(handler, NotebookExecutionHandler):
            raise UserErrorException(f"handler must be an AzureMLNotebookHandler, found {type(handler).__name__}.")
        own = copy(run_config) if run_config is not None else RunConfiguration()
        own.script, own.command, own.arguments = "", "", []
        target = os.path.normpath(output_notebook or _default_output(str(notebook)))
        own.environment_variables = {**(own.environment_variables or {}), **_variables(target, handler)}
        if target.split(os.sep)[0] not in _KEPT:
            own.keep = [*own.keep, target]
        super().__init__(source_directory, str(notebook), _arguments(parameters), own)
        self.notebook, self.output_notebook, self.parameters = str(notebook), target, dict(parameters or {})


def _default_output(notebook: str) -> str:
    return os.path.join("outputs", f"{os.path.splitext(os.path.basename(notebook))[0]}.output.ipynb")


def _variables(target: str, handler: Optional[NotebookExecutionHandler]) -> Dict[str, str]:
    found = {OUTPUT: target}
    if handler is not None and handler.timeout is not None:
        found[TIMEOUT] = str(handler.timeout)
    if handler is not None and handler.cwd is not None:
        found[FOLDER] = str(handler.cwd)
    return found


def _arguments(parameters: Optional[Mapping[str, Any]]) -> List[str]:
    for name in parameters or {}:
        if not str(name).isidentifier():
            raise UserErrorException(f"The parameter {name!r} is no name of a variable.")
    return [f"{name}={value!r}" for name, value in (parameters or {}).items()]
