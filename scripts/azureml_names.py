"""docs/reference/azureml-names.md: what each public name of `azureml` does here, read from the packages themselves."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import azureml.core
from azureml.core import authentication
from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.errors import placeholder
from runyard.sdk.run_config.script_run_config import ScriptRunConfig

PACKAGE = Path(azureml.core.__file__).parent.parent
PLACEHOLDER = type(placeholder("azureml.Any"))
STATES = ("supported", "without effect", "not yet")

# Accepted so that scripts run on, and nothing comes of it. Code cannot tell this of itself.
WITHOUT_EFFECT = {
    "AbstractAuthentication": ["get_authentication_header"],
    "Environment": ["asset_id", "databricks", "inferencing_stack_version", "r", "spark"],
    "DockerSection": ["platform"],
    "HistoryConfiguration": ["snapshot_project"],
    "Run": ["clean", "start"],
    "PythonSection": ["base_conda_environment"],
    "RunConfiguration": [
        "amlcompute",
        "application_endpoints",
        "auto_cluster_compute_specification",
        "credential_passthrough",
        "datacaches",
        "hdi",
        "kubernetescompute",
        "paralleltask",
        "priority",
        "source_directory_data_store",
        "spark",
    ],
    "azureml.core.authentication": authentication.__all__,
    "azureml._restclient.snapshots_client": ["SNAPSHOT_MAX_SIZE_BYTES"],
    "azureml.telemetry": ["set_diagnostics_collection"],
}
# Kept, and refused at submit, or not acted upon before a later release.
NOT_YET = {
    "DockerSection": ["build_context"],
    "RunConfiguration": ["data", "output_data"],
}

INTRODUCTION = """\
# Names of azureml

Written by `make docs` from the packages themselves. *Without effect*: accepted, so that scripts run on. *Not yet*:
imports, and says on use what is missing; a collection is empty. A class has the members of its bases too. What behaves
otherwise than in Azure is in [Differences from Azure](../azureml-differences.md).

"""


def page() -> str:
    modules = {name: import_module(name) for name in module_names()}
    rows = {name: states(name, exported(module)) for name, module in modules.items()}
    real = real_classes(modules.values())
    classes = {name: states(name, members(cls, real)) for name, cls in sorted(real.items())}
    check_lists({**rows, **classes})
    counts = [sum(len(found[state]) for found in [*rows.values(), *classes.values()]) for state in STATES]
    summary = ", ".join(f"{count} {state}" for count, state in zip(counts, STATES, strict=True))
    return (
        f"{INTRODUCTION}In all: {summary}.\n\n## Modules\n\n{table('module', rows)}"
        f"\n## Members of classes\n\n{table('class', classes)}"
    )


def module_names() -> list[str]:
    paths = sorted(PACKAGE.rglob("*.py"))
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths]
    return sorted(name.removesuffix(".__init__") for name in names)


def exported(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in getattr(module, "__all__", ())}


def real_classes(modules: Any) -> dict[str, type]:
    """Return the classes that are there, by name; a name is one object wherever it is exported."""
    found = [value for module in modules for value in exported(module).values()]
    later = {name for names in NOT_YET.values() for name in names}
    classes = [cls for cls in found if inspect.isclass(cls) and type(cls) is not PLACEHOLDER]
    return {cls.__name__: cls for cls in classes if cls.__name__ not in later}


def members(cls: type, real: dict[str, type]) -> dict[str, Any]:
    """Return the public members that no other class of the table has; of configuration objects, the attributes too."""
    others = [SealedConfig, *(base for base in cls.__mro__ if base is not cls and real.get(base.__name__) is base)]
    foreign = {name for base in [*cls.__mro__, *others] if base in others or is_builtin(base) for name in dir(base)}
    own = {name for base in cls.__mro__ for name in vars(base) if not name.startswith("_")}
    found = {name: inspect.getattr_static(cls, name) for name in own - foreign}
    if issubclass(cls, (SealedConfig, ScriptRunConfig)):
        found.update(dict.fromkeys(attributes(cls)))
    return found


def is_builtin(cls: type) -> bool:
    return cls.__module__ in ("builtins", "typing")


def attributes(cls: Any) -> list[str]:
    made = sample(cls)
    if isinstance(made, SealedConfig):
        return [*made._names(), *cls._unused]
    return [name for name in vars(made) if not name.startswith("_")]


def sample(cls: Any) -> Any:
    required = [
        parameter
        for parameter in inspect.signature(cls).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return cls(*["." for _ in required])


def states(owner: str, found: dict[str, Any]) -> dict[str, list[str]]:
    by_state: dict[str, list[str]] = {state: [] for state in STATES}
    unused = unused_names(owner)
    for name in sorted(found, key=str.lower):
        if name in WITHOUT_EFFECT.get(owner, ()) or name in unused:
            by_state["without effect"].append(name)
        elif name in NOT_YET.get(owner, ()) or is_missing(found[name]):
            by_state["not yet"].append(name)
        else:
            by_state["supported"].append(name)
    return by_state


def unused_names(owner: str) -> frozenset[str]:
    waiting = [SealedConfig]
    while waiting:
        cls = waiting.pop()
        if cls.__name__ == owner:
            return cls._unused
        waiting += cls.__subclasses__()
    return frozenset()


def is_missing(member: Any) -> bool:
    """Whether it is a placeholder, or a function that does nothing but `unsupported(...)` or return an empty dict."""
    if type(member) is PLACEHOLDER:
        return True
    if isinstance(member, property):
        member = member.fget
    member = getattr(member, "__func__", member)
    return callable(member) and inspect.isfunction(inspect.unwrap(member)) and is_hollow(inspect.unwrap(member))


def is_hollow(function: Any) -> bool:
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    steps = [
        step for step in definition.body if not (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
    ]
    if len(steps) != 1 or not isinstance(steps[0], (ast.Expr, ast.Return)):
        return False
    call = steps[0].value
    if isinstance(call, ast.Dict):
        return not call.keys
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return False
    return call.func.id == "unsupported" or (call.func.id == "CallableDict" and not call.args)


def check_lists(rows: dict[str, dict[str, list[str]]]) -> None:
    for state, owner, name in listed():
        if name not in rows.get(owner, {}).get(state, []):
            raise SystemExit(f"scripts/azureml_names.py lists {owner}.{name} as {state}, which it is not (any more).")


def listed() -> Iterator[tuple[str, str, str]]:
    for state, lists in (("without effect", WITHOUT_EFFECT), ("not yet", NOT_YET)):
        yield from ((state, owner, name) for owner, names in lists.items() for name in names)


def table(noun: str, rows: dict[str, dict[str, list[str]]]) -> str:
    lines = [f"| {noun} | {' | '.join(STATES)} |", "|---" * (len(STATES) + 1) + "|"]
    for owner, by_state in rows.items():
        cells = [" ".join(f"`{name}`" for name in by_state[state]) for state in STATES]
        if any(cells):
            lines.append(f"| `{owner}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
