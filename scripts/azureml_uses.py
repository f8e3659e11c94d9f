"""Count how much of the `azureml` in real code works here: `python scripts/azureml_uses.py FOLDER...`

Reads every .py file and notebook below the folders, finds the uses of Azure's SDK (imports, constructors, calls with
their keywords, attributes) and tries each against the installed packages. A use works, is accepted without effect, is
refused with words, or ends in a bare Python error. Types come from imports, annotations, assignments and the return
annotations of our own classes; nothing of the code that is read is run. Without a folder it takes the stored counts of
41 public repositories (azureml_uses.tsv).
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import azureml_names
from azureml_names import PLACEHOLDER, Entry
from azureml_reasons import RULES

from runyard.core.errors import AbsentModule, AbsentName
from runyard.sdk.absent import reason_of, table
from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.data.kinds import FileDataset, TabularDataset
from runyard.sdk.run_config.script_run_config import ScriptRunConfig

STORED = Path(__file__).with_name("azureml_uses.tsv")
WORKS, NO_EFFECT, REFUSED, KEYWORD, BARE, UNKNOWN = (
    "works",
    "no effect",
    "refused",
    "keyword",
    "bare error",
    "not in azureml-core 1.61 either",
)
BLOCKED = (REFUSED, KEYWORD, BARE, UNKNOWN)
# Areas that have a product or a release of their own; the rest is the training scope.
OUTSIDE = {
    "serving": "serving",
    "pipelines": "pipelines",
    "automl": "automl",
    "metrics": "automl",
    "explain": "explain",
    "fairness": "explain",
    "responsibleai": "explain",
    "mlflow": "mlflow",
    "dataprep": "dataprep",
    "fsspec": "dataprep",
    "drift": "drift",
    **dict.fromkeys(
        ("private", "designer", "reinforcement", "gbdt", "notebook", "fpga", "workbench", "preview"), "other"
    ),
    **dict.fromkeys(("featurestore", "maintenance"), "other"),
}
# The class of early 2019 was both: `Dataset.get(...)` and its like return these here.
RETURNED = {"Dataset": (TabularDataset, FileDataset)}
CONTAINERS = re.compile(r"\b(Dict|List|Iterator|Sequence|Iterable|Tuple|CallableDict|Mapping)\[")


class Ref(NamedTuple):
    """What an expression stands for: a module, a name of a module, an instance of a class, or a member of a class."""

    kind: str  # "module", "name", "instance", "member", "items"
    module: str
    name: str = ""  # class or function
    member: str = ""


class Use(NamedTuple):
    ref: Ref
    call: bool = False
    keywords: tuple[str, ...] = ()

    def __str__(self) -> str:
        base = self.ref.module if not self.ref.name else f"{self.ref.module}:{self.ref.name}"
        return f"{base}.{self.ref.member}" if self.ref.member else f"{base}()" if self.call else base


class Reader(ast.NodeVisitor):
    """Collects the uses of one file; names are looked up in the order in which the file binds them."""

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self.known: dict[str, Ref] = {}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] == "azureml":
                self.uses.append(Use(Ref("module", alias.name)))
                self.known[alias.asname or "azureml"] = Ref("module", alias.name if alias.asname else "azureml")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").split(".")[0] != "azureml" or node.level:
            return
        for alias in node.names:
            ref = Ref("name", node.module or "", alias.name)
            self.uses.append(Use(ref))
            if alias.name != "*":
                self.known[alias.asname or alias.name] = ref

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before = dict(self.known)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self.known.pop(argument.arg, None)
            if argument.annotation is not None:
                self.bind(argument.arg, self.annotated(argument.annotation))
        for decorator in node.decorator_list:
            self.visit(decorator)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.known = {**before, **{name: ref for name, ref in self.known.items() if "." in name}}

    visit_AsyncFunctionDef = visit_FunctionDef  # ast's own spelling

    def visit_Assign(self, node: ast.Assign) -> None:
        found = self.ref_of(node.value)
        for target in node.targets:
            self.bind_target(target, found)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        found = self.ref_of(node.value) if node.value is not None else None
        self.bind_target(node.target, found or self.annotated(node.annotation))

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            found = self.ref_of(item.context_expr)
            if item.optional_vars is not None:
                self.bind_target(item.optional_vars, found)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncWith = visit_With

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.bind_target(node.target, self.item_of(self.ref_of(node.iter)))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.bind_target(node.target, self.item_of(self.ref_of(node.iter)))
        for test in node.ifs:
            self.visit(test)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        for generator in node.generators:
            self.visit_comprehension(generator)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(part)

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def visit_Call(self, node: ast.Call) -> None:
        self.ref_of(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.ref_of(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.ref_of(node)

    def bind_target(self, target: ast.expr, found: Ref | None) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, found)
        elif isinstance(target, ast.Attribute):
            self.ref_of(target)
            if isinstance(target.value, ast.Name) and target.value.id == "self":
                self.bind(f"self.{target.attr}", found)
        else:
            self.visit(target)

    def bind(self, name: str, found: Ref | None) -> None:
        if found is None:
            self.known.pop(name, None)
        else:
            self.known[name] = found

    def annotated(self, annotation: ast.expr) -> Ref | None:
        """Return the instance that an annotation promises; `Optional[X]` and `"X"` are X."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return None
        if isinstance(annotation, ast.Subscript):
            is_optional = isinstance(annotation.value, ast.Name) and annotation.value.id == "Optional"
            return self.annotated(annotation.slice) if is_optional else None
        found = self.ref_of(annotation) if isinstance(annotation, (ast.Name, ast.Attribute)) else None
        return Ref("instance", found.module, found.name) if found is not None and found.kind == "name" else None

    def ref_of(self, node: ast.expr) -> Ref | None:
        """Return what an expression stands for, and record the uses inside of it."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in self.known:
                return self.known[f"{node.value.id}.{node.attr}"]
            return self.attribute(self.ref_of(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self.called(node)
        if isinstance(node, ast.Subscript):
            self.visit(node.slice)
            return self.item_of(self.ref_of(node.value))
        if isinstance(node, ast.Await):
            return self.ref_of(node.value)
        self.generic_visit(node)
        return None

    def attribute(self, owner: Ref | None, name: str) -> Ref | None:
        if owner is None or owner.kind == "items" or name.startswith("__"):
            return None
        if owner.kind == "module":
            if is_module(f"{owner.module}.{name}"):
                return Ref("module", f"{owner.module}.{name}")
            found = Ref("name", owner.module, name)
        elif owner.kind == "member":
            return None
        else:
            found = Ref("member", owner.module, owner.name, name)
        self.uses.append(Use(found))
        return value_of(found) if found.kind == "member" else found

    def called(self, node: ast.Call) -> Ref | None:
        function = self.ref_of(node.func)
        place = len(self.uses) - 1
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(argument)
        if function is None or function.kind not in ("name", "member"):
            return None
        keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg)
        if function.kind == "member":
            if place >= 0 and self.uses[place].ref == function:
                self.uses[place] = Use(function, True, keywords)
            return returned(function)
        self.uses.append(Use(function, True, keywords))
        target = resolve(function)
        if inspect.isclass(target) or target is None:
            return Ref("instance", function.module, function.name)
        return returned(function)

    def item_of(self, found: Ref | None) -> Ref | None:
        return found._replace(kind="instance") if found is not None and found.kind == "items" else None


@cache
def is_module(name: str) -> bool:
    try:
        import_module(name)
    except AbsentModule:
        return True
    except ImportError:
        return False
    return True


@cache
def resolve(ref: Ref) -> Any:
    """Return our object of a name or member; a placeholder, or None where the name is not there."""
    try:
        found = getattr(import_module(ref.module), ref.name)
    except (AttributeError, ImportError):
        return None
    if not ref.member or type(found) is PLACEHOLDER:
        return found
    return azureml_names.member_of(found, ref.member)


@cache
def value_of(ref: Ref) -> Ref:
    """Return what reading a member gives: an instance where our annotation or an example says so, else the member."""
    target = resolve(ref)
    if isinstance(target, property) and target.fget is not None:
        return by_annotation(target.fget) or ref
    owner = resolve(ref._replace(kind="name", member=""))
    if inspect.isclass(target):
        return Ref("name", *home(target)) if home(target) else ref
    if target is True and inspect.isclass(owner):
        value = getattr(example(owner), ref.member, None)
        place = home(type(value))
        return Ref("instance", *place) if place else ref
    return ref


@cache
def returned(ref: Ref) -> Ref | None:
    target = resolve(ref)
    function = azureml_names.function_of(target) if target is not None else None
    if function is not None and not inspect.isclass(function):
        found = by_annotation(function)
        if found is not None:
            return found
    # Without a word on it, `Run.get_context()` and `AksCompute.create(...)` give an object of their class.
    entry = listed().get((ref.name, ref.member))
    is_maker = entry is not None and entry.kind in ("static", "classm") and is_untold(function)
    return Ref("instance", ref.module, ref.name) if is_maker else None


def is_untold(function: Any) -> bool:
    return function is None or getattr(function, "__annotations__", {}).get("return", "Any") in ("Any", "NoReturn")


def by_annotation(function: Any) -> Ref | None:
    annotation = str(getattr(inspect.unwrap(function), "__annotations__", {}).get("return", ""))
    for word in re.findall(r"\w+", annotation.replace("CallableDict", "")):
        module = azureml_names.homes_by_name().get(word)
        if module:
            return Ref("items" if CONTAINERS.search(annotation) else "instance", module, word)
    return None


@cache
def home(cls: type) -> tuple[str, str] | None:
    module = azureml_names.homes_by_name().get(cls.__name__)
    return (module, cls.__name__) if module and getattr(import_module(module), cls.__name__) is cls else None


@cache
def example(cls: type) -> Any:
    """Return a configuration object of the class, for the types of its attributes; others would ask a server."""
    if not issubclass(cls, (SealedConfig, ScriptRunConfig)):
        return None
    parameters = inspect.signature(cls).parameters.values()
    required = [one for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    return cls(*["." for _ in required])


@cache
def listed() -> dict[tuple[str, str], Entry]:
    return {(entry.owner, entry.member): entry for entry in azureml_names.entries()}


@cache
def judge(use: Use) -> tuple[str, str]:
    """Return the state of a use, and what is wrong with it."""
    ref = use.ref
    if not ref.name or ref.name == "*":
        return importing(ref.module)
    try:
        owner = getattr(import_module(ref.module), ref.name)
    except (AbsentModule, AbsentName):
        return REFUSED, reason_of(f"{ref.module}.{ref.name}")
    except (AttributeError, ImportError):
        return importing(f"{ref.module}.{ref.name}")
    if type(owner) is PLACEHOLDER:
        return REFUSED, reason_of(f"{ref.module}.{ref.name}")
    if ref.member:
        # What is declared as a base may be any of its kinds: a submit returns a Run, or a HyperDriveRun.
        states = [member_state(kind, use) for kind in (owner, *RETURNED.get(ref.name, ()), *kinds_of(owner))]
        return next((state for state in states if state[0] in (WORKS, NO_EFFECT)), states[0])
    wrong = unknown_keywords(owner, use.keywords)
    if wrong:
        return KEYWORD, f"{ref.name}({wrong}=)"
    is_accepted = ref.name in azureml_names.ACCEPTED_ONLY.get(ref.module, "").split()
    return (NO_EFFECT, "") if is_accepted else (WORKS, "")


def kinds_of(cls: Any) -> Iterator[type]:
    for kind in cls.__subclasses__() if inspect.isclass(cls) else ():
        yield kind
        yield from kinds_of(kind)


def importing(module: str) -> tuple[str, str]:
    try:
        import_module(module)
    except AbsentModule:
        return REFUSED, reason_of(module)
    except ImportError as error:
        return BARE, str(error)
    return WORKS, ""


def member_state(owner: Any, use: Use) -> tuple[str, str]:
    member = use.ref.member
    found = azureml_names.member_of(owner, member)
    if found is None:
        try:
            getattr(owner, member)
        except AbsentName as error:
            return REFUSED, error.what
        except AttributeError as error:
            is_theirs = member.startswith("_") or (use.ref.name, member) in listed()
            return (BARE if is_theirs else UNKNOWN), str(error)
        return WORKS, ""
    names = [base.__name__ for base in getattr(owner, "__mro__", ())]
    accepted = any(member in azureml_names.ACCEPTED_ONLY.get(name, "").split() for name in names)
    refused = any(member in azureml_names.REFUSED_AT_SUBMIT.get(name, "").split() for name in names)
    if refused or (azureml_names.is_refusal(found) and not accepted):
        return REFUSED, f"{use.ref.name}.{member}"
    wrong = unknown_keywords(found, use.keywords)
    if wrong:
        return KEYWORD, f"{use.ref.name}.{member}({wrong}=)"
    return (NO_EFFECT if accepted or member in azureml_names.unused_settings(owner) else WORKS), ""


def unknown_keywords(target: Any, keywords: Iterable[str]) -> str:
    function = azureml_names.function_of(target)
    if function is None or isinstance(target, property):
        return ""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ""
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return ""
    return next((name for name in keywords if name not in parameters), "")


def area(use: Use) -> str:
    """Return the area outside of training that a use belongs to, or `training`."""
    path = f"{use.ref.module}.{use.ref.name}" if use.ref.name else use.ref.module
    packages = table()["packages"]
    for length in range(path.count("."), 0, -1):
        reason = packages.get(".".join(path.split(".")[: length + 1]))
        if reason:
            return OUTSIDE.get(reason, "training")
    text = f"{use.ref.module}:{use.ref.name}" + (f".{use.ref.member}" if use.ref.member else "")
    found = next((reason for pattern, reason in RULES if re.search(pattern, text)), "")
    return OUTSIDE.get(found, "training") if found in ("serving", "pipelines", "mlflow", "private") else "training"


def units(folders: Iterable[Path]) -> Iterator[tuple[Path, list[ast.Module]]]:
    """Yield each file with the code in it; a cell or file that is no Python 3 has none."""
    for folder in folders:
        for path in sorted([folder] if folder.is_file() else [*folder.rglob("*.py"), *folder.rglob("*.ipynb")]):
            if path.is_file() and ".ipynb_checkpoints" not in path.parts:
                texts = cells(path) if path.suffix == ".ipynb" else [path.read_text(encoding="utf-8", errors="replace")]
                yield path, [tree for tree in map(parsed, texts) if tree is not None]


def cells(path: Path) -> list[str]:
    try:
        notebook = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except ValueError:
        return []
    sheets = [notebook, *notebook.get("worksheets", [])]
    found = [cell for sheet in sheets for cell in sheet.get("cells", []) if cell.get("cell_type") == "code"]
    texts = ["".join(cell.get("source", cell.get("input", ""))) for cell in found]
    return [without_magic(text) for text in texts if not re.match(r"\s*%%(?!writefile|time|capture)", text)]


def without_magic(text: str) -> str:
    """Return the cell with `%magic` and `!command` lines as `pass`, at their indentation."""
    return re.sub(r"^([ \t]*)(?:[%!?]|\w+[ \t]*=[ \t]*[%!]).*$", r"\1pass", text, flags=re.MULTILINE)


def parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError):
            return None


class Report(NamedTuple):
    by_area: dict[str, Counter[str]]
    blocked: Counter[tuple[str, str, str, str]]  # area, name, state, what is wrong
    files: int
    free_files: int  # files with a use and none that is blocked


def count(folders: Iterable[Path]) -> Report:
    by_area: dict[str, Counter[str]] = defaultdict(Counter)
    blocked: Counter[tuple[str, str, str, str]] = Counter()
    files = free = 0
    for _, trees in units(folders):
        reader = Reader()
        for tree in trees:
            reader.visit(tree)
        states = [(use, *judge(use)) for use in reader.uses]
        for use, state, wrong in states:
            by_area[area(use)][state] += 1
            if state in BLOCKED:
                blocked[area(use), str(use), state, wrong] += 1
        files += bool(states)
        free += bool(states) and all(state in (WORKS, NO_EFFECT) for _, state, _ in states)
    return Report(by_area, blocked, files, free)


def count_stored() -> Report:
    """Judge the names of azureml_uses.tsv, which have no keywords."""
    rows = [line.split("\t") for line in STORED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    homes = {name.partition(":")[2]: name.partition(":")[0] for name, *_ in rows if ":" in name}
    by_area: dict[str, Counter[str]] = defaultdict(Counter)
    blocked: Counter[tuple[str, str, str, str]] = Counter()
    for name, place, uses, *_ in rows:
        state, wrong = judge_stored(name, homes)
        by_area[place][state] += int(uses)
        if state in BLOCKED:
            blocked[place, name, state, wrong] += int(uses)
    return Report(by_area, blocked, 0, 0)


def judge_stored(text: str, homes: dict[str, str]) -> tuple[str, str]:
    if text.startswith("azureml"):
        module, _, name = text.partition(":")
        return judge(Use(Ref("name" if name else "module", module, name)))
    owner, _, member = text.replace("#", ".").removesuffix("()").partition(".")
    module = azureml_names.homes_by_name().get(owner) or homes.get(owner) or microsofts_module(owner)
    if not module:
        return REFUSED, "it is reached only through a name that is refused"
    return judge(Use(Ref("member" if member else "name", module, owner, member), call=text.endswith("()")))


@cache
def microsofts_module(name: str) -> str:
    return next((entry.module for entry in azureml_names.entries() if entry.name == name), "")


def share(counts: Counter[str], *states: str) -> str:
    total = sum(counts.values())
    return f"{100 * sum(counts[state] for state in states) / total:.1f} %" if total else "-"


def summary(report: Report) -> str:
    """Return the shares as a table in Markdown."""
    outside = {*OUTSIDE.values()}
    training: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for place, counts in report.by_area.items():
        whole.update(counts)
        if place not in outside:
            training.update(counts)
    rows = [("all uses", whole), ("training scope", training)]
    rows += sorted(report.by_area.items(), key=lambda item: -sum(item[1].values()))
    titles = [
        "area",
        "uses",
        "works",
        "+ without effect",
        "refused with words",
        "keyword not taken",
        "bare Python error",
    ]
    lines = [f"| {' | '.join(titles)} | not in azureml-core 1.61 either |", "|---" + "|--:" * 7 + "|"]
    for place, counts in rows:
        name = place if place in outside or place in ("all uses", "training scope") else f"{place} (training)"
        told = f"{sum(counts.values()):,} | {share(counts, WORKS)} | {share(counts, WORKS, NO_EFFECT)}"
        told += "".join(f" | {counts[state]:,}" for state in BLOCKED)
        lines.append(f"| {name} | {told} |")
    return "\n".join(lines) + "\n"


def ranking(report: Report, most: int) -> str:
    lines = ["| uses | name | area | answer |", "|--:|---|---|---|"]
    for (place, name, state, wrong), uses in report.blocked.most_common(most):
        answer = f"{state}: {wrong}" if state in (KEYWORD, BARE, UNKNOWN) else state
        lines.append(f"| {uses} | `{name}` | {place} | {answer} |")
    return "\n".join(lines) + "\n"


INTRODUCTION = """\
# Coverage by real use

Written by `make docs`: how often the names of Azure's SDK occur in 1,282 notebooks and scripts of 41 public
repositories, each name tried against Runyard. The stored counts have no keywords; for any folder of code,
`python scripts/azureml_uses.py FOLDER` counts them too.

A use *works* when the name resolves, is not refused and takes the keywords. *Refused with words* says what the name
was, why it is not here and what to use instead. Serving, pipelines and MLflow come with later releases; automated
machine learning, explanations, drift and data preparation stay with the libraries that the refusals name. The *training
scope* is all that is none of these and no private client of Microsoft's.

"""


def page() -> str:
    report = count_stored()
    inside = Counter({key: uses for key, uses in report.blocked.items() if key[0] not in OUTSIDE.values()})
    return (
        f"{INTRODUCTION}{summary(report)}\n## What is missing most\n\n{ranking(report, 40)}"
        f"\n## What is missing most in the training scope\n\n{ranking(report._replace(blocked=inside), 40)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Count how much of the azureml in real code works here.")
    parser.add_argument("folder", nargs="*", type=Path, help="code to read; without one, the stored counts")
    folders: list[Path] = parser.parse_args().folder
    for folder in folders:
        if not folder.exists():
            parser.error(f"there is no folder {str(folder)!r}")
    report = count(folders) if folders else count_stored()
    print(summary(report))
    if report.files:
        print(f"{report.free_files} of {report.files} files that use azureml have no blocked use.\n")
    print(ranking(report, 60))


if __name__ == "__main__":
    main()
