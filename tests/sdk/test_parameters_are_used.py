"""Every parameter of a façade call is used in its body: honoured, refused or reported. The rest is listed, with why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import runyard.sdk

SDK = Path(runyard.sdk.__file__).parent

# What these ask for is so anyway.
ALWAYS = {
    "wait_for_completion": "a call returns when it is done",
    "wait_post_processing": "the end is always waited for",
    "show_output": "there is nothing to show",
    "no_wait": "it is done on return",
    "timeout_in_minutes": "nothing is waited for",
    "batch_size": "how much travels at once shows in nothing",
    "page_count": "how much travels at once shows in nothing",
    "expand": "a model is always complete",
    "rehydrate": "a run always has its own class",
    "clean_up": "a handle holds nothing to clean up",
    "create_resource_group": "a group is only a name",
    "delete_dependent_resources": "there are none",
    "force": "a sign-in does nothing",
    "service_principal_password": "a sign-in keeps no secret",
    "identity_config": "a sign-in does nothing",
    "render_lib": "a card is drawn by the notebook itself",
    "widget_settings": "a card is drawn by the notebook itself",
    "enable_telemetry": "nothing is sent anywhere",
    "send_diagnostics": "nothing is sent anywhere",
    "cloud": "there is but one",
    "is_file": "it is found by looking",
    "pin_sdk_version": "Runyard is the SDK",
    "path_on_compute": "a table has no path",
    "executor": "a follower needs one thread",
    "session": "the run has its own connection",
    "init": "what a replica prints at its start is in its log",
    "raw": "a replica has one log",
}
REFUSALS = {"unsupported", "_refuse", "_refuse_sql"}
# Calls that answer the same for all workspaces and places, or refuse whatever they are given.
WHOLE = {
    "supported_vmsizes", "list_usages", "list_quotas", "set_diagnostics_collection", "get_mlflow_tracking_uri",
    "AbstractAuthentication.get_token", "TabularDataset.get_profile", "DataType.to_stream",
    "DockerBuildContext.from_local_directory", "COVID19OpenResearch.__init__",
}  # fmt: skip


def test_no_parameter_is_ignored_in_silence() -> None:
    ignored = [
        f"{call}({name}=)"
        for path in sorted(SDK.rglob("*.py"))
        for call, names in unused(ast.parse(path.read_text()))
        for name in names
        if name not in ALWAYS and call.rpartition(".")[2] not in WHOLE and call not in WHOLE
    ]

    assert ignored == []


def unused(module: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Yield each public function with the parameters that its body never reads."""
    for owner in [module, *(one for one in module.body if isinstance(one, ast.ClassDef) and one.name[0] != "_")]:
        prefix = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
        for function in owner.body:
            is_call = isinstance(function, ast.FunctionDef) and (function.name[0] != "_" or function.name == "__init__")
            if is_call and not _refuses(function):
                yield prefix + function.name, sorted(_names(function.args) - _read(function))


def _refuses(function: ast.FunctionDef) -> bool:
    """Whether the call refuses whatever it is given."""
    last = function.body[-1]
    is_refusal = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
    return isinstance(last, ast.Raise) or (is_refusal and ast.unparse(last.value.func) in REFUSALS)


def _names(arguments: ast.arguments) -> set[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {one.arg for one in every if one is not None} - {"self", "cls"}
    return {name for name in names if not name.startswith("_") or name in ("_args", "_kwargs")}


def _read(function: ast.FunctionDef) -> set[str]:
    read = {node.id for line in function.body for node in ast.walk(line) if isinstance(node, ast.Name)}
    return read | _names(function.args) if read & {"locals", "vars"} else read
