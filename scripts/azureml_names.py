"""Microsoft's public names against ours: docs/reference/azureml-names.md, and the table of what is refused.

`azureml_names.tsv` is the stored list of the names and parameters of azureml-core and its kin. The state of a name is
read from our packages: does it resolve, is it more than a refusal, and which of the parameters does it take.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from azureml_reasons import ANOTHER_CLASS, PACKAGES, PRIVATE_HOMES, PRIVATE_MEMBERS, REASONS, RULES

import azureml.core
from runyard.sdk.absent import table
from runyard.sdk.compute.services import ServiceCompute
from runyard.sdk.migration.surface import (
    ACCEPTED_ONLY,
    PLACEHOLDER,
    REFUSED_AT_SUBMIT,
    function_of,
    homes_by_name,
    is_refusal,
    member_of,
    unused_settings,
)

LIST = Path(__file__).with_name("azureml_names.tsv")
# Names that Microsoft's modules have only because they import them, and that scripts take from there.
IMPORTS = Path(__file__).with_name("azureml_imports.tsv")
PACKAGE = Path(azureml.core.__file__).parent.parent
TABLE = PACKAGE.parent / "runyard/sdk/absent.json"
SUPPORTED, PARTLY, WITHOUT_EFFECT, REFUSED = STATES = ("supported", "partly", "without effect", "refused")


INTRODUCTION = """\
# Names of azureml

Written by `make docs`: the public names of Microsoft's azureml-core, azureml-train-core, azureml-telemetry,
azureml-opendatasets, azureml-widgets and azureml-tensorboard (release 1.61), each tried against Runyard. What behaves
otherwise than in Azure is in [Differences from Azure](../azureml-differences.md).

- *supported*: it is there and takes every parameter of Azure's.
- *partly*: it is there, and lacks the parameters that are named. Compute of an Azure service can be looked for, which
  finds none; attaching it is refused.
- *without effect*: accepted, so that scripts run on.
- *refused*: it imports, and its use says what it was, why it is not here and what to use instead. A module of a package
  of its own is an ImportError, so that libraries that look for it go on without it.

"""


class Entry(NamedTuple):
    module: str
    name: str  # empty: the module itself; `Class.member`
    kind: str
    parameters: list[str]

    @property
    def owner(self) -> str:
        return self.name.partition(".")[0]

    @property
    def member(self) -> str:
        return self.name.partition(".")[2]


class State(NamedTuple):
    word: str
    lacking: list[str]  # parameters that it does not take by name
    reason: str = ""


@cache
def entries() -> list[Entry]:
    rows = [line.split("\t") for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [Entry(module, name, kind, parameter_names(text)) for module, name, kind, text in rows]


def parameter_names(text: str) -> list[str]:
    arguments = ast.parse(f"def f({text}): pass").body[0].args  # type: ignore[attr-defined]  # it is a function
    found = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in found if not name.startswith("_") and name not in ("self", "cls")]


@cache
def is_ours(module: str) -> bool:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def find(module: str, name: str) -> Any:
    """Return what we have for a name of Microsoft's module, or None where it is absent or a placeholder."""
    home = home_of(module, name)
    return getattr(import_module(home), name) if home else None


@cache
def home_of(module: str, name: str) -> str | None:
    """Return the module of ours that has it: that of the same path, or another that has the class of that name."""
    if is_ours(module) and exports(module, name):
        return module
    if name in ANOTHER_CLASS.get(module, "").split():
        return None
    return homes_by_name().get(name)


def exports(module: str, name: str) -> bool:
    loaded = import_module(module)
    home = getattr(loaded, "_HOMES", {}).get(name)
    value = getattr(import_module(home), name) if home else vars(loaded).get(name)
    return value is not None and type(value) is not PLACEHOLDER and name not in refused_there(module)


def refused_there(module: str) -> set[str]:
    """Return what the present table put into the module: it is no export of the module's own."""
    lists = table()["modules"].get(module, {})
    return {name for names in lists.values() for name in names.split()}


def state(entry: Entry) -> State:
    target = find(entry.module, entry.owner)
    if entry.member and target is not None:
        target = member_of(target, entry.member)
    if (
        target is None
        or (is_refusal(target) and not is_accepted_only(entry))
        or entry.member in REFUSED_AT_SUBMIT.get(entry.owner, "").split()
    ):
        return State(REFUSED, [], reason(entry))
    if is_accepted_only(entry):
        return State(WITHOUT_EFFECT, [])
    if entry.member in unused_settings(find(entry.module, entry.owner)):
        return State(WITHOUT_EFFECT, [])
    lacking = [name for name in entry.parameters if not takes(target, name)]
    is_looked_for = inspect.isclass(target) and issubclass(target, ServiceCompute)
    return State(PARTLY if lacking or is_looked_for else SUPPORTED, lacking)


def is_accepted_only(entry: Entry) -> bool:
    owners = [base.__name__ for base in getattr(find(entry.module, entry.owner), "__mro__", ())]
    lists = [ACCEPTED_ONLY.get(owner, "") for owner in (owners if entry.member else [entry.module])]
    return any((entry.member or entry.owner) in names.split() for names in lists)


def takes(target: Any, parameter: str) -> bool:
    """Whether the call takes the parameter by its name. One that `**kwargs` swallows is not taken."""
    function = None if isinstance(target, property) else function_of(target)
    if function is None:
        return True
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def reason(entry: Entry) -> str:
    text = f"{entry.module}:{entry.name}"
    return next((found for pattern, found in RULES if re.search(pattern, text)), "azure")


def absent_table() -> str:
    """Return the content of `runyard/sdk/absent.json`."""
    modules: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    members: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for entry in entries():
        if PACKAGES.get(entry.module) and not is_ours(entry.module):
            continue
        if not entry.name:
            if not is_ours(entry.module):
                modules[entry.module] = modules[entry.module]
        elif entry.member:
            cls = find(entry.module, entry.owner)
            if inspect.isclass(cls) and member_of(cls, entry.member) is None:
                members[cls.__name__][reason(entry)].add(entry.member)
        else:
            for module in {entry.module, entry.kind.partition(" from ")[2] or entry.module}:
                add_name(modules, module, entry)
    for name, hidden in PRIVATE_MEMBERS.items():
        members[name]["private"].update(hidden.split())
    for module, lists in PRIVATE_HOMES.items():
        for home, names in lists.items():
            modules[module][home].update(names.split())
    for line in IMPORTS.read_text().splitlines()[1:]:
        module, home, names = line.split("\t")
        modules[module][f"={home}"].update(names.split())
    for module in list(modules):
        for parent in parents(module):
            if not is_ours(parent) and parent not in PACKAGES:
                modules[parent] = modules[parent]
    used = {reason for lists in (*modules.values(), *members.values()) for reason in lists if reason[0] != "="}
    reasons = {name: REASONS[name] for name in sorted(used | set(PACKAGES.values()) | {"private", "azure"})}
    table = {"reasons": reasons, "packages": PACKAGES, "modules": texts(modules), "members": texts(members)}
    return json.dumps(table, indent=0, ensure_ascii=False) + "\n"


def add_name(modules: dict[str, dict[str, set[str]]], module: str, entry: Entry) -> None:
    beside = [parent for parent in parents(module) if is_ours(parent)]
    if beside and not (PACKAGE.joinpath(*beside[-1].split(".")[1:]) / "__init__.py").exists():
        return  # below a module that is no package, where Python looks for nothing
    home = home_of(module, entry.name)
    if home != module:
        modules[module][f"={home}" if home else reason(entry)].add(entry.name)


def parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(2, len(parts))]


def texts(lists: dict[str, dict[str, set[str]]]) -> dict[str, dict[str, str]]:
    return {
        owner: {reason: " ".join(sorted(names)) for reason, names in sorted(by_reason.items())}
        for owner, by_reason in sorted(lists.items())
    }


def page() -> str:
    counts: Counter[str] = Counter()
    sections = []
    for module in dict.fromkeys(entry.module for entry in entries()):
        rows = list(module_rows([entry for entry in entries() if entry.module == module], counts))
        if rows:
            sections.append(f"## {module}\n\n| name | parameters | state |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    summary = ", ".join(f"{counts[word]} {word}" for word in STATES)
    return f"{INTRODUCTION}In all: {summary}.\n\n{packages_part()}\n" + "\n".join(sections)


def module_rows(found: list[Entry], counts: Counter[str]) -> Iterator[str]:
    refused: dict[str, list[str]] = defaultdict(list)
    for entry in found:
        if not entry.name or (entry.member and is_told_elsewhere(entry)):
            continue
        status = state(entry)
        counts[status.word] += 1
        if status.word == REFUSED:
            refused[status.reason].append(entry.name)
            continue
        told = status.word + (f", without {ticks(status.lacking)}" if status.lacking else "")
        taken = [name for name in entry.parameters if name not in status.lacking]
        yield f"| `{entry.name}` | {ticks(taken)} | {told} |"
    for why, names in refused.items():
        yield f"| {' '.join(f'`{name}`' for name in names)} |  | refused: {REASONS[why][0]} |"


def is_told_elsewhere(entry: Entry) -> bool:
    """Whether the row of the class, or of a base on this page, says it already."""
    cls = find(entry.module, entry.owner)
    if cls is None:
        return True
    bases = [base for base in getattr(cls, "__mro__", ())[1:] if f"{base.__name__}.{entry.member}" in class_members()]
    member = inspect.getattr_static(cls, entry.member, None)
    return any(member is inspect.getattr_static(base, entry.member, None) for base in bases)


@cache
def class_members() -> frozenset[str]:
    return frozenset(entry.name for entry in entries() if entry.member)


def ticks(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def packages_part() -> str:
    lines = ["## Packages that are not here", "", "| package | what it is | instead |", "|---|---|---|"]
    for package, why in sorted(PACKAGES.items()):
        if not is_ours(package):
            what, later, _, instead = REASONS[why]
            lines.append(f"| `{package}` | {what}{'; comes with a later release' if later else ''} | {instead} |")
    return "\n".join(lines) + "\n"


def is_table_current() -> bool:
    return TABLE.read_text(encoding="utf-8") == absent_table()


def write_table() -> None:
    TABLE.write_text(absent_table(), encoding="utf-8")


def gaps() -> Iterator[str]:
    """Yield each parameter of Azure's that ours does not take by name."""
    for entry in entries():
        if entry.name and not (entry.member and is_told_elsewhere(entry)):
            for name in state(entry).lacking:
                target = find(entry.module, entry.owner)
                target = member_of(target, entry.member) if entry.member else target
                kinds = {kind.kind for kind in inspect.signature(function_of(target)).parameters.values()}
                told = "swallowed by **kwargs" if inspect.Parameter.VAR_KEYWORD in kinds else "TypeError"
                yield f"{entry.module}\t{entry.name}\t{name}\t{told}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(gaps()) + "\n")
