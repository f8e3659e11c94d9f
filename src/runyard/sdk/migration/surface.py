"""What Runyard's `azureml` has: its classes by name, their members, and what is accepted without effect or refused.

`make docs` writes the page of names from it, and `runyard check` judges code with it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, FrozenSet, List

from runyard.sdk.placeholders import placeholder

PLACEHOLDER = type(placeholder("azureml.Any"))
# Accepted so that scripts run on, and nothing comes of it. Code cannot tell this of itself.
ACCEPTED_ONLY = {
    "AbstractAuthentication": "get_authentication_header",
    "AmlCompute": "add_identity list_quotas list_usages remove_identity",
    "Environment": "asset_id databricks inferencing_stack_version r spark",
    "DockerSection": "platform",
    "HistoryConfiguration": "snapshot_project",
    "Run": "clean start",
    "PythonSection": "base_conda_environment",
    "RunConfiguration": "amlcompute application_endpoints auto_cluster_compute_specification credential_passthrough "
    "hdi kubernetescompute paralleltask priority source_directory_data_store spark",
    "azureml.core.authentication": "AbstractAuthentication AzureCliAuthentication InteractiveLoginAuthentication "
    "MsiAuthentication ServicePrincipalAuthentication TokenAuthentication",
    "azureml.telemetry": "set_diagnostics_collection",
}


# Kept on the object, and refused at submit.
REFUSED_AT_SUBMIT = {"RunConfiguration": "datacaches"}


@lru_cache(maxsize=None)
def homes_by_name() -> Dict[str, str]:
    """Return our module of each public class and function: of the façade, the shortest path first, else of the SDK."""
    found: Dict[str, str] = {}
    for package in ("azureml", "runyard.sdk"):
        is_facade = package == "azureml"
        for module in sorted(_modules_below(package), key=lambda module: (module.count("."), module)):
            loaded = import_module(module)
            for name in getattr(loaded, "__all__", ()) if is_facade else sorted(vars(loaded)):
                value = getattr(loaded, name)
                ours = inspect.isclass(value) or (is_facade and inspect.isfunction(value))
                if ours and type(value) is not PLACEHOLDER and value.__module__.startswith(("runyard.sdk", "azureml")):
                    found.setdefault(name, module if is_facade else value.__module__)
    return found


def _modules_below(package: str) -> List[str]:
    """Return the modules of ours below a package, by their files."""
    folder = Path(next(iter(import_module(f"{package}.core" if package == "azureml" else package).__path__)))
    root = folder.parent if package == "azureml" else folder
    found = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found.append(".".join([package, *(part for part in parts if part != "__init__")]))
    return found


def member_of(cls: Any, name: str) -> Any:
    """Return the member as it stands in the class; True for an attribute that the code of the class sets."""
    found = inspect.getattr_static(cls, name, None)
    return found if found is not None else (True if name in set_attributes(cls) else None)


@lru_cache(maxsize=None)
def set_attributes(cls: Any) -> FrozenSet[str]:
    """Return the names that methods of the class assign on `self`, and those it accepts without effect."""
    found = set(unused_settings(cls))
    for base in cls.__mro__ if inspect.isclass(cls) else ():
        if base.__module__.startswith(("runyard", "azureml")):
            for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(base)))):
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                for target in (part for one in targets for part in (one.elts if isinstance(one, ast.Tuple) else [one])):
                    if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") in ("self", "made"):
                        found.add(target.attr)
            found.update(getattr(base, "__annotations__", {}))
    return frozenset(found)


def unused_settings(cls: Any) -> FrozenSet[str]:
    return getattr(cls, "_unused", frozenset()) if inspect.isclass(cls) else frozenset()


def function_of(target: Any) -> Any:
    """Return what is called, or None where the target is a value."""
    if isinstance(target, property):
        target = target.fget
    target = getattr(target, "__func__", target)
    return inspect.unwrap(target) if inspect.isfunction(target) else target if inspect.isclass(target) else None


def is_refusal(target: Any) -> bool:
    """Whether a function does nothing but refuse, or return an empty collection."""
    function = function_of(target)
    if not inspect.isfunction(function):
        return False
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(definition, ast.FunctionDef):
        return False
    steps = [
        step for step in definition.body if not (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
    ]
    if len(steps) != 1:
        return False
    if isinstance(steps[0], ast.Raise):
        return True
    call = steps[0].value if isinstance(steps[0], (ast.Expr, ast.Return)) else None
    if isinstance(call, ast.Dict):
        return not call.keys
    called = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
    return called == "unsupported" or (called == "CallableDict" and not call.args)  # type: ignore[union-attr]  # a call
