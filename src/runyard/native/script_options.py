"""The options that a script declares, read from its text: how they are spelt and whether they take a value.

Known are argparse, click, typer, absl and Hydra. Nothing of the script is executed.
"""

from __future__ import annotations

import ast
import os
from typing import Dict, List, NamedTuple, Optional, Set

MOST_BYTES = 1 << 20
_DECLARES = ("add_argument", "option", "Option")
_FLAG_ACTIONS = ("store_true", "store_false", "store_const", "append_const", "count")


class ScriptOption(NamedTuple):
    spelling: str  # "--batch-size"
    kind: str = "value"  # "value", "repeated" (once for each value), "flag", or "switch" (with an opposite)
    opposite: str = ""  # of a switch: "--no-x"
    is_truth: bool = False  # `type=bool`, for which every text but the empty one is true


class ScriptOptions(NamedTuple):
    """`style` is how options that are not found by name are written: "plain", "dashes" or "hydra"."""

    known: Dict[str, ScriptOption]
    style: str = "plain"


def read_options(path: Optional[str]) -> ScriptOptions:
    """Return the options of the script `path`; none when it cannot be read as Python."""
    if path is None or not path.endswith(".py"):
        return ScriptOptions({})
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return ScriptOptions({})
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ScriptOptions({})
    known: Dict[str, ScriptOption] = {}
    imported: Set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            known.update(_declared(node))
        elif isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    style = "hydra" if "hydra" in imported else "dashes" if "typer" in imported else "plain"
    return ScriptOptions(known, style)


def key_of(spelling: str) -> str:
    return spelling.lstrip("-").replace("-", "_")


def _declared(call: ast.Call) -> Dict[str, ScriptOption]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name.startswith("DEFINE_"):
        return _of_absl(name, call)
    if name not in _DECLARES:
        return {}
    words = [word for word in map(_text, call.args) if word.startswith("-")]
    parts = [word.partition("/") for word in words]  # click's `--x/--no-x`
    declared = [_option(spelling.strip(), opposite.strip(), call) for spelling, _, opposite in parts]
    best = next((option for option in declared if option.spelling.startswith("--")), None)
    # `-l` and `--lr` are one option; its long form shows in the run's parameters.
    return {key_of(option.spelling): best or option for option in declared}


def _option(spelling: str, opposite: str, call: ast.Call) -> ScriptOption:
    given = {word.arg: word.value for word in call.keywords if word.arg}
    action = given.get("action")
    action_name = _text(action) or (action.attr if isinstance(action, ast.Attribute) else getattr(action, "id", ""))
    if opposite:
        return ScriptOption(spelling, "switch", opposite)
    if action_name == "BooleanOptionalAction":
        return ScriptOption(spelling, "switch", f"--no-{spelling.lstrip('-')}")
    if action_name in _FLAG_ACTIONS or _is_true(given.get("is_flag")):
        return ScriptOption(spelling, "flag")
    if action_name == "append" or _is_true(given.get("multiple")):
        return ScriptOption(spelling, "repeated")
    is_truth = getattr(given.get("type"), "id", "") == "bool" and isinstance(call.func, ast.Attribute)
    return ScriptOption(spelling, is_truth=is_truth and call.func.attr == "add_argument")  # type: ignore[attr-defined]


def _of_absl(name: str, call: ast.Call) -> Dict[str, ScriptOption]:
    option = _text(call.args[0]) if call.args else ""
    if not option:
        return {}
    if name in ("DEFINE_boolean", "DEFINE_bool"):
        return {key_of(option): ScriptOption(f"--{option}", "switch", f"--no{option}")}
    return {key_of(option): ScriptOption(f"--{option}", "repeated" if name.startswith("DEFINE_multi") else "value")}


def _text(node: Optional[ast.AST]) -> str:
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else ""


def _is_true(node: Optional[ast.AST]) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def module_file(source: str, module: str) -> Optional[str]:
    """Return the file that `python -m module` would run, where it is in the source folder."""
    parts: List[str] = module.split(".")
    for path in (os.path.join(source, *parts) + ".py", os.path.join(source, *parts, "__main__.py")):
        if os.path.isfile(path):
            return path
    return None
