"""Read the uses of Azure's SDK in Python code: imports, constructors, calls with their keywords, attributes.

Types come from imports, annotations, assignments and the return annotations of Runyard's own classes. Nothing of the
code that is read is run.
"""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

from runyard.core.errors import AbsentModule
from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.data.kinds import FileDataset, TabularDataset
from runyard.sdk.migration import surface
from runyard.sdk.run_config.script_run_config import ScriptRunConfig

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
    keywords: Tuple[str, ...] = ()

    def __str__(self) -> str:
        base = self.ref.module if not self.ref.name else f"{self.ref.module}:{self.ref.name}"
        return f"{base}.{self.ref.member}" if self.ref.member else f"{base}()" if self.call else base


class Reader(ast.NodeVisitor):
    """Collects the uses of one file; names are looked up in the order in which the file binds them."""

    def __init__(self) -> None:
        self.uses: List[Use] = []
        self.lines: List[int] = []  # of each use
        self.known: Dict[str, Ref] = {}

    def _add(self, use: Use, line: int) -> None:
        self.uses.append(use)
        self.lines.append(line)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] == "azureml":
                self._add(Use(Ref("module", alias.name)), node.lineno)
                self.known[alias.asname or "azureml"] = Ref("module", alias.name if alias.asname else "azureml")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").split(".")[0] != "azureml" or node.level:
            return
        for alias in node.names:
            ref = Ref("name", node.module or "", alias.name)
            self._add(Use(ref), node.lineno)
            if alias.name != "*":
                self.known[alias.asname or alias.name] = ref

    def visit_FunctionDef(self, node: Union[ast.FunctionDef, ast.AsyncFunctionDef]) -> None:
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

    def visit_With(self, node: Union[ast.With, ast.AsyncWith]) -> None:
        for item in node.items:
            found = self.ref_of(item.context_expr)
            if item.optional_vars is not None:
                self.bind_target(item.optional_vars, found)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncWith = visit_With

    def visit_For(self, node: Union[ast.For, ast.AsyncFor]) -> None:
        self.bind_target(node.target, self.item_of(self.ref_of(node.iter)))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.bind_target(node.target, self.item_of(self.ref_of(node.iter)))
        for test in node.ifs:
            self.visit(test)

    def visit_ListComp(self, node: Union[ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp]) -> None:
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

    def bind_target(self, target: ast.expr, found: Optional[Ref]) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, found)
        elif isinstance(target, ast.Attribute):
            self.ref_of(target)
            if isinstance(target.value, ast.Name) and target.value.id == "self":
                self.bind(f"self.{target.attr}", found)
        else:
            self.visit(target)

    def bind(self, name: str, found: Optional[Ref]) -> None:
        if found is None:
            self.known.pop(name, None)
        else:
            self.known[name] = found

    def annotated(self, annotation: ast.expr) -> Optional[Ref]:
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

    def ref_of(self, node: ast.expr) -> Optional[Ref]:
        """Return what an expression stands for, and record the uses inside of it."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in self.known:
                return self.known[f"{node.value.id}.{node.attr}"]
            return self.attribute(self.ref_of(node.value), node.attr, node.end_lineno or node.lineno)
        if isinstance(node, ast.Call):
            return self.called(node)
        if isinstance(node, ast.Subscript):
            self.visit(node.slice)
            return self.item_of(self.ref_of(node.value))
        if isinstance(node, ast.Await):
            return self.ref_of(node.value)
        self.generic_visit(node)
        return None

    def attribute(self, owner: Optional[Ref], name: str, line: int) -> Optional[Ref]:
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
        self._add(Use(found), line)
        return value_of(found) if found.kind == "member" else found

    def called(self, node: ast.Call) -> Optional[Ref]:
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
        self._add(Use(function, True, keywords), node.lineno)
        target = resolve(function)
        if inspect.isclass(target) or target is None:
            return Ref("instance", function.module, function.name)
        return returned(function)

    def item_of(self, found: Optional[Ref]) -> Optional[Ref]:
        return found._replace(kind="instance") if found is not None and found.kind == "items" else None


@lru_cache(maxsize=None)
def is_module(name: str) -> bool:
    try:
        import_module(name)
    except AbsentModule:
        return True
    except ImportError:
        return False
    return True


@lru_cache(maxsize=None)
def resolve(ref: Ref) -> Any:
    """Return our object of a name or member; a placeholder, or None where the name is not there."""
    try:
        found = getattr(import_module(ref.module), ref.name)
    except (AttributeError, ImportError):
        return None
    if not ref.member or type(found) is surface.PLACEHOLDER:
        return found
    return surface.member_of(found, ref.member)


@lru_cache(maxsize=None)
def value_of(ref: Ref) -> Ref:
    """Return what reading a member gives: an instance where our annotation or an example says so, else the member."""
    target: Any = resolve(ref)
    kind: Any
    if isinstance(target, property) and target.fget is not None:
        return by_annotation(target.fget) or ref
    owner = resolve(ref._replace(kind="name", member=""))
    if inspect.isclass(target):
        kind = target
        known = home(kind)
        return Ref("name", *known) if known else ref
    if target is True and inspect.isclass(owner):
        kind = owner
        kind = type(getattr(example(kind), ref.member, None))
        place = home(kind)
        return Ref("instance", *place) if place else ref
    return ref


@lru_cache(maxsize=None)
def returned(ref: Ref) -> Optional[Ref]:
    target = resolve(ref)
    function = surface.function_of(target) if target is not None else None
    if function is not None and not inspect.isclass(function):
        found = by_annotation(function)
        if found is not None:
            return found
    # Without a word on it, `Run.get_context()` and `AksCompute.create(...)` give an object of their class.
    owner = resolve(ref._replace(kind="name", member=""))
    static = inspect.getattr_static(owner, ref.member, None) if inspect.isclass(owner) and ref.member else None
    is_maker = isinstance(static, (staticmethod, classmethod)) and is_untold(function)
    return Ref("instance", ref.module, ref.name) if is_maker else None


def is_untold(function: Any) -> bool:
    return function is None or getattr(function, "__annotations__", {}).get("return", "Any") in ("Any", "NoReturn")


def by_annotation(function: Any) -> Optional[Ref]:
    annotation = str(getattr(inspect.unwrap(function), "__annotations__", {}).get("return", ""))
    for word in re.findall(r"\w+", annotation.replace("CallableDict", "")):
        module = surface.homes_by_name().get(word)
        if module:
            return Ref("items" if CONTAINERS.search(annotation) else "instance", module, word)
    return None


@lru_cache(maxsize=None)
def home(cls: Any) -> Optional[Tuple[str, str]]:
    module = surface.homes_by_name().get(cls.__name__)
    return (module, cls.__name__) if module and getattr(import_module(module), cls.__name__) is cls else None


@lru_cache(maxsize=None)
def example(cls: Any) -> Any:
    """Return a configuration object of the class, for the types of its attributes; others would ask a server."""
    if not issubclass(cls, (SealedConfig, ScriptRunConfig)):
        return None
    parameters = inspect.signature(cls).parameters.values()
    required = [one for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    made: Any = cls
    return made(*["." for _ in required])


def kinds_of(cls: Any) -> Iterator[type]:
    for kind in cls.__subclasses__() if inspect.isclass(cls) else ():
        yield kind
        yield from kinds_of(kind)


def unknown_keywords(target: Any, keywords: Iterable[str]) -> str:
    function = surface.function_of(target)
    if function is None or isinstance(target, property):
        return ""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ""
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return ""
    return next((name for name in keywords if name not in parameters), "")


def without_magic(text: str) -> str:
    """Return the cell with `%magic` and `!command` lines as `pass`, at their indentation."""
    return re.sub(r"^([ \t]*)(?:[%!?]|\w+[ \t]*=[ \t]*[%!]).*$", r"\1pass", text, flags=re.MULTILINE)


def parsed(text: str) -> Optional[ast.Module]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError):
            return None
