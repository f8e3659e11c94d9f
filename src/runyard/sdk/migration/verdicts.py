"""What becomes of one use of Azure's SDK here: it works, it differs, or it is missing, and what to do then."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import lru_cache
from importlib import import_module
from typing import Any, FrozenSet, Iterable, Iterator, NamedTuple

from runyard.core.errors import AbsentModule, AbsentName, NotYetSupported
from runyard.sdk.absent import find_member, reason_of, refusal
from runyard.sdk.migration import surface
from runyard.sdk.migration.uses import RETURNED, Use, kinds_of, unknown_keywords

WORKS, DIFFERS, MISSING = "works", "differs", "missing"
_NO_EFFECT = "Accepted without effect: only Azure's services act on it."
_NOWHERE = "Neither Runyard nor azureml-core 1.61 has it."


class UseVerdict(NamedTuple):
    word: str
    text: str = ""  # why, and what to use instead


@lru_cache(maxsize=None)
def judge(use: Use) -> UseVerdict:
    """Return what becomes of the use. Tries it against the classes that are installed, and calls nothing of them."""
    ref = use.ref
    if not ref.name or ref.name == "*":
        return _importing(ref.module)
    try:
        owner = getattr(import_module(ref.module), ref.name)
    except (AbsentModule, AbsentName) as error:
        return _refused(error)
    except (AttributeError, ImportError):
        return _importing(f"{ref.module}.{ref.name}")
    if type(owner) is surface.PLACEHOLDER:
        path = f"{ref.module}.{ref.name}"
        return _refused(refusal(path, reason_of(path), AbsentName))
    if ref.member:
        # What is declared as a base may be any of its kinds: a submit returns a Run, or a HyperDriveRun.
        verdicts = [_member(kind, use) for kind in (owner, *RETURNED.get(ref.name, ()), *kinds_of(owner))]
        return next((verdict for verdict in verdicts if verdict.word != MISSING), verdicts[0])
    if ref.name in surface.ACCEPTED_ONLY.get(ref.module, "").split():
        return UseVerdict(DIFFERS, _NO_EFFECT)
    return _call(owner, use, getattr(owner, "__init__", owner))


def _importing(module: str) -> UseVerdict:
    try:
        import_module(module)
    except AbsentModule as error:
        return _refused(error)
    except ImportError:
        return UseVerdict(MISSING, _NOWHERE)
    return UseVerdict(WORKS)


def _member(owner: Any, use: Use) -> UseVerdict:
    member = use.ref.member
    found = surface.member_of(owner, member)
    if found is None:
        refused = find_member(owner, member) if inspect.isclass(owner) else None
        if refused is not None:
            return _refused(refused)
        return UseVerdict(WORKS) if hasattr(owner, member) else UseVerdict(MISSING, _NOWHERE)
    names = [base.__name__ for base in getattr(owner, "__mro__", ())]
    if any(member in surface.REFUSED_AT_SUBMIT.get(name, "").split() for name in names):
        return UseVerdict(MISSING, "A submit with it is refused.")
    if any(member in surface.ACCEPTED_ONLY.get(name, "").split() for name in names):
        return UseVerdict(DIFFERS, _NO_EFFECT)
    if surface.is_refusal(found):
        return UseVerdict(MISSING, "It is refused with the reason and what to use instead.")
    if member in surface.unused_settings(owner):
        return UseVerdict(DIFFERS, _NO_EFFECT)
    return _call(found, use, found)


def _call(target: Any, use: Use, function: Any) -> UseVerdict:
    wrong = unknown_keywords(target, use.keywords)
    if wrong:
        return UseVerdict(MISSING, f"It takes no argument `{wrong}`.")
    idle = sorted(_idle_keywords(surface.function_of(function)) & set(use.keywords)) if use.call else []
    return UseVerdict(DIFFERS, f"Accepted without effect: {', '.join(idle)}.") if idle else UseVerdict(WORKS)


@lru_cache(maxsize=None)
def _idle_keywords(function: Any) -> FrozenSet[str]:
    """Return the arguments that the function itself notes as without effect, by its source."""
    if not inspect.isfunction(function):
        return frozenset()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, SyntaxError):
        return frozenset()
    return frozenset(_noted(ast.walk(tree)))


def _noted(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "note_without_effect" and node.args:
            keys = node.args[0].keys if isinstance(node.args[0], ast.Dict) else []
            yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))


def _refused(error: NotYetSupported) -> UseVerdict:
    return UseVerdict(MISSING, f"{error.why} {error.hint}".strip())
