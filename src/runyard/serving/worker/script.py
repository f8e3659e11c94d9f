"""Load an entry script and find out how its `run()` wants to be called."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Callable, Iterator, List, Optional

from runyard.runtime import old_modules
from runyard.serving.scripts import MARK, Batching, Scorer
from runyard.serving.worker import raw_http

MODULE = "entry_module"
TREE_LINES = 200


class ScriptFault(Exception):
    """The script cannot be served as it is."""


@dataclass(frozen=True)
class Script:
    """A loaded entry script; `scorer` is set in place of `run` where it defines a class."""

    path: str
    init: Callable[[], Any]
    run: Callable[..., Any]
    scorer: Optional[Scorer] = None

    @property
    def batching(self) -> Optional[Batching]:
        return find_batching(self.run)


def find_batching(function: Any) -> Optional[Batching]:
    """Return what `@batched` says on a function, whatever stands around it."""
    while function is not None:
        found = getattr(function, MARK, None)
        if found is not None:
            return Batching(*found)
        function = getattr(function, "__wrapped__", None)
    return None


def load_script(app_root: str, entry: str, source_directory: str = "") -> Script:
    """Import the script `entry` (relative to `app_root`; "": `main.py`) and check its functions.

    Raises:
        ScriptFault: it is not there, or has no `init()` and `run()` that can be called.
        BaseException: what its import raised.
    """
    for folder in (os.path.join(app_root, source_directory) if source_directory else "", app_root):
        if folder and folder not in sys.path:
            sys.path.insert(0, folder)
    raw_http.install_modules()
    old_modules.install()
    path = os.path.normpath(os.path.join(app_root, entry or "main.py"))
    if not os.path.isfile(path):
        there = ", ".join(sorted(os.listdir(app_root))[:20]) if os.path.isdir(app_root) else "no such folder"
        raise ScriptFault(f"There is no entry script {path}. {app_root} holds: {there}.")
    return _find_functions(_import(path), path)


def _import(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise ScriptFault(f"The entry script {path} is not a Python file: its name must end in `.py`.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module  # dataclasses and pickles of the script look for it
    spec.loader.exec_module(module)
    return module


def _find_functions(module: ModuleType, path: str) -> Script:
    init, run = getattr(module, "init", None), getattr(module, "run", None)
    if init is None and run is None:
        classes = [
            found
            for found in vars(module).values()
            if inspect.isclass(found) and issubclass(found, Scorer) and found.__module__ == MODULE
        ]
        if len(classes) == 1:
            scorer = classes[0]()
            scorer.model_folder = os.environ.get("AZUREML_MODEL_DIR", "")
            return Script(path, scorer.setup, scorer.predict, scorer)
        if classes:
            names = ", ".join(found.__name__ for found in classes)
            raise ScriptFault(f"{path} has several scorers: {names}. Keep one of them in the entry script.")
    for name, function in (("init", init), ("run", run)):
        if not callable(function):
            raise ScriptFault(
                f"{path} has no {name}(). Define `init()`, which loads the model, and `run(data)`, which answers."
            )
    assert init is not None and run is not None
    driver = getattr(module, "driver_module", None)  # Azure's generated scripts call the real one through this
    if isinstance(driver, ModuleType) and hasattr(driver, "run"):
        run = driver.run
    return Script(path, init, run)


def data_parameters(run: Callable[..., Any]) -> List[inspect.Parameter]:
    """Return the parameters that take data: all but `request_headers`.

    Raises:
        ScriptFault: `run` has parameters that cannot be given by name, or none for data.
    """
    parameters = list(inspect.signature(run).parameters.values())
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(one.kind not in by_name for one in parameters):
        raise ScriptFault("run() cannot have positional-only parameters, *args or **kwargs.")
    data = [one for one in parameters if one.name != "request_headers"]
    if not data:
        beside = ' beside "request_headers"' if parameters else ""
        raise ScriptFault(f"run() needs a parameter for the data of a request{beside}.")
    return data


def takes_headers(run: Callable[..., Any]) -> bool:
    return "request_headers" in inspect.signature(run).parameters


def iter_tree(folder: str, depth: int = 0) -> Iterator[str]:
    """Yield the lines of a folder's tree."""
    name = os.path.basename(os.path.normpath(folder))
    if not os.path.isdir(folder):
        yield "    " * depth + name
        return
    yield "    " * depth + name + os.sep
    for child in sorted(os.listdir(folder)):
        yield from iter_tree(os.path.join(folder, child), depth + 1)


def tree_of(folder: str) -> str:
    """Return the first 200 lines of a folder's tree."""
    lines: List[str] = []
    for line in iter_tree(folder):
        if len(lines) == TREE_LINES:
            lines.append(f"… the first {TREE_LINES} lines")
            break
        lines.append(line)
    return "\n".join(lines)
