"""Hold `runyard check` against what happens: `python scripts/check_agreement.py FOLDER [--sample 500] [--seed 1]`

FOLDER holds repositories that use azureml. A sample of the uses that `runyard check` finds in their Python files and
notebooks is run for real, one by one, on a private server in a temporary home: the import, the attribute of a real
object, the call with the literal arguments of the line and with objects of ours in place of its variables. A use *runs*
unless it ends in our refusal, an unknown name or an unknown argument; an error about a value counts as running, since
the stand-ins are not the user's own. Each disagreement is printed; nothing of the folder is stored.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import io
import json
import logging
import os
import random
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
WORKS, DIFFERS, MISSING = "works", "differs", "missing"
PATIENCE_S = 10
UNUSED = object()


class Found(NamedTuple):
    place: str
    use: Any  # runyard.sdk.migration.uses.Use
    call: ast.Call | None


def iter_uses(folder: Path) -> Iterator[Found]:
    """Yield the uses in Python files and notebooks, each with its call."""
    from runyard.sdk.migration.uses import Reader, parsed, without_magic

    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.ipynb")]):
        reader, seen = Reader(), set()
        for number, text in enumerate(_units(path, without_magic)):
            tree = parsed(text)
            if tree is None:
                continue
            start = len(reader.uses)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reader.visit(tree)
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            for use, line in zip(reader.uses[start:], reader.lines[start:]):
                if (use, number, line) not in seen:
                    seen.add((use, number, line))
                    found = _call_of(use, line, calls)
                    yield Found(f"{path.relative_to(folder)}[{number}]:{line}", use, found)


def _units(path: Path, clean: Any) -> list[str]:
    text = path.read_text(errors="replace")
    if path.suffix == ".py":
        return [text]
    try:
        cells = json.loads(text).get("cells", [])
    except (ValueError, AttributeError):
        return []
    return [clean("".join(cell.get("source", ""))) for cell in cells if cell.get("cell_type") == "code"]


def _call_of(use: Any, line: int, calls: list[ast.Call]) -> ast.Call | None:
    """Return the call of a use, by its line, its last name and its keywords."""
    if not use.call:
        return None
    name = use.ref.member or use.ref.name
    for call in calls:
        words = tuple(one.arg for one in call.keywords if one.arg)
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        is_name = isinstance(call.func, ast.Name)
        is_its = last == name or (
            not use.ref.member and is_name and last not in dir(builtins)
        )  # a name may be another's
        if is_its and words == use.keywords and call.lineno <= line <= (call.end_lineno or line):
            return call
    return None


class Reality:
    """Runs uses against the installed packages, on one private server."""

    def __init__(self, folder: Path) -> None:
        from tests.sdk.parameters.world import World

        self.world = World(folder)
        self.said: list[str] = []
        listener = logging.Handler()
        listener.emit = lambda record: self.said.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("runyard.sdk").addHandler(listener)
        logging.getLogger("runyard.sdk").propagate = False

    def happens(self, found: Found) -> tuple[str, str]:
        """Return what became of the use, and the words that it ended with; "" when there was nothing to run it on."""
        from runyard.sdk.config import texts

        self.said.clear()
        texts._SAID.clear()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always")
                    signal.alarm(PATIENCE_S)
                    try:
                        is_run = self._run(found)
                    finally:
                        signal.alarm(0)
        except BaseException as error:
            return self._ended(found, error)
        if not is_run:
            return "", ""
        notes = [*self.said, *(str(one.message) for one in warned)]
        idle = [note for note in notes if "no effect" in note or "without effect" in note]
        return (DIFFERS, idle[0]) if idle else (WORKS, "")

    def _run(self, found: Found) -> bool:
        ref, use = found.use.ref, found.use
        if not ref.name or ref.name == "*":
            import_module(ref.module)
            return True
        from runyard.sdk.migration.surface import PLACEHOLDER

        space: dict[str, Any] = {}
        exec(f"from {ref.module} import {ref.name} as found", space)  # as the user's line does
        target = space["found"]
        if not ref.member:
            if use.call:
                self._call(target, found.call, use.keywords)
            elif isinstance(target, PLACEHOLDER):
                target.anything  # noqa: B018  # a name that stands for nothing refuses its first use
            return True
        owner = self._instance(target, ref)
        if owner is None:
            return False
        value = getattr(owner, ref.member, UNUSED)
        if value is UNUSED:
            value = getattr(owner, ref.member)
        if use.call:
            self._call(value, found.call, use.keywords)
        return True

    def _instance(self, target: Any, ref: Any) -> Any:
        """Return a real object of the class, or the class where the member belongs to it."""
        import inspect

        static = inspect.getattr_static(target, ref.member, None)
        if not inspect.isclass(target) or isinstance(static, (staticmethod, classmethod)) or inspect.isclass(static):
            return target
        makers: dict[str, Callable[[], Any]] = {
            "Workspace": lambda: self.world.workspace,
            "Experiment": lambda: self.world.experiment_of_runs,
            "Run": lambda: self.world.live,
            "ScriptRun": lambda: self.world.experiment.submit(self.world.script_run_config()),
            "Environment": lambda: self.world.environment,
            "Datastore": lambda: self.world.datastore,
            "Dataset": lambda: self.world.table,
            "TabularDataset": lambda: self.world.table,
            "FileDataset": lambda: self.world.files,
            "Model": lambda: self.world.model,
            "ScriptRunConfig": self.world.script_run_config,
            "ComputeTarget": lambda: self.world.pool,
            "AmlCompute": lambda: self.world.pool,
            "ComputeInstance": self.world.instance,
        }
        if target.__name__ in makers:
            return makers[target.__name__]()
        for kind, maker in makers.items():
            made_kind = type(maker()) if kind in ("Datastore", "Dataset", "ComputeTarget") else None
            if made_kind is not None and issubclass(made_kind, target):
                return maker()
        with contextlib.suppress(Exception):
            return target()
        with contextlib.suppress(Exception):
            return target(*[self._stand_in(one.name) for one in self._required(target)])
        return None

    def _required(self, function: Any) -> list[Any]:
        import inspect

        parameters = inspect.signature(function).parameters.values()
        return [one for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]

    def _call(self, function: Any, call: ast.Call | None, keywords: tuple[str, ...]) -> None:
        if call is None:
            names = [one.name for one in self._required(function)]
            given = {name: self._stand_in(name) for name in (*names, *keywords)}
            function(**given)
            return
        import inspect

        try:
            names = [one for one in inspect.signature(function).parameters if one != "self"]
        except (TypeError, ValueError):
            names = []
        many = [*names, *[""] * len(call.args)]
        arguments = [self._value(one, name) for one, name in zip(call.args, many) if not isinstance(one, ast.Starred)]
        named = {one.arg: self._value(one.value, one.arg) for one in call.keywords if one.arg}
        if any(one.arg is None for one in call.keywords) or len(arguments) < len(call.args):  # *args and **kwargs
            for one in self._required(function)[len(arguments) :]:
                named.setdefault(one.name, self._stand_in(one.name))
        function(*arguments, **named)

    def _value(self, node: ast.expr, name: str) -> Any:
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return self._stand_in(name)

    def _stand_in(self, name: str) -> Any:
        from azureml.core import RunConfiguration

        made: dict[str, Callable[[], Any]] = {
            "workspace": lambda: self.world.workspace,
            "ws": lambda: self.world.workspace,
            "experiment": lambda: self.world.experiment,
            "environment": lambda: self.world.environment,
            "datastore": lambda: self.world.datastore,
            "dataset": lambda: self.world.table,
            "model": lambda: self.world.model,
            "models": lambda: [self.world.model],
            "run": lambda: self.world.run,
            "run_config": RunConfiguration,
            "config": self.world.script_run_config,
            "source_directory": lambda: str(self.world.project),
            "compute_target": lambda: "local",
            "arguments": list,
            "tags": dict,
            "hyperparameter_sampling": lambda: self.world.sampling,
            "provisioning_configuration": lambda: type(self.world.pool).provisioning_configuration(max_nodes=1),
        }
        return made[name]() if name in made else "text"

    def _ended(self, found: Found, error: BaseException) -> tuple[str, str]:
        from runyard.core.errors import NotYetSupported

        text = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        if isinstance(error, (NotYetSupported, NotImplementedError, ImportError)):
            return MISSING, text
        if isinstance(error, TypeError) and ("unexpected keyword" in text or "positional argument" in text):
            return (MISSING, text) if "missing" not in text else (WORKS, text)
        if isinstance(error, AttributeError) and (found.use.ref.member or found.use.ref.name) in text:
            return MISSING, text
        return WORKS, text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ry", ignore_cleanup_errors=True) as place:
        os.environ.update(RUNYARD_HOME=f"{place}/home", RUNYARD_IDLE_STOP="60")
        folder = Path(place) / "work"
        folder.mkdir()
        uses = list(iter_uses(wanted.folder.resolve()))
        os.chdir(folder)
        signal.signal(signal.SIGALRM, _too_long)
        report(uses, Reality(folder), sample=wanted.sample, seed=wanted.seed)
        os.chdir("/")
        from tests.conftest import stop_server

        stop_server(Path(place) / "home")


def _too_long(*_: object) -> None:
    raise TimeoutError("it still works at it")


def report(uses: list[Found], reality: Reality, *, sample: int, seed: int) -> None:
    from runyard.sdk.migration.verdicts import judge

    random.Random(seed).shuffle(uses)
    table: Counter[tuple[str, str]] = Counter()
    skipped = clean = 0
    for found in uses:
        if sum(table.values()) == sample:
            break
        verdict = judge(found.use).word
        happened, words = reality.happens(found)
        if not happened:
            skipped += 1
            continue
        table[verdict, happened] += 1
        clean += happened != MISSING and not words.partition(":")[0].endswith(
            ("Error", "Exception", "Found", "Argument")
        )
        if verdict != happened:
            print(f"{found.place}: {found.use} {found.use.keywords}: check says {verdict}, it {happened}  {words}")
    count = sum(table.values())
    alike = sum(number for (said, was), number in table.items() if (said == MISSING) == (was == MISSING))
    same = sum(number for (said, was), number in table.items() if said == was)
    places = len({found.place.partition(os.sep)[0] for found in uses})
    print(f"{len(uses)} uses in {places} folders; {count} run, {skipped} had nothing to run on: {dict(table)}")
    print(f"{clean} ended well; {count - clean} in an error, about a value or a refusal")
    print(f"agreement on runs or raises: {100 * alike / count:.1f} %; on all three words: {100 * same / count:.1f} %")


if __name__ == "__main__":
    main()
