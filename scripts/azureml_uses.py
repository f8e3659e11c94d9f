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
import json
import re
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
from runyard.sdk.migration import surface
from runyard.sdk.migration.uses import RETURNED, Reader, Ref, Use, kinds_of, parsed, unknown_keywords, without_magic

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
    is_accepted = ref.name in surface.ACCEPTED_ONLY.get(ref.module, "").split()
    return (NO_EFFECT, "") if is_accepted else (WORKS, "")


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
    found = surface.member_of(owner, member)
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
    accepted = any(member in surface.ACCEPTED_ONLY.get(name, "").split() for name in names)
    refused = any(member in surface.REFUSED_AT_SUBMIT.get(name, "").split() for name in names)
    if refused or (surface.is_refusal(found) and not accepted):
        return REFUSED, f"{use.ref.name}.{member}"
    wrong = unknown_keywords(found, use.keywords)
    if wrong:
        return KEYWORD, f"{use.ref.name}.{member}({wrong}=)"
    return (NO_EFFECT if accepted or member in surface.unused_settings(owner) else WORKS), ""


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
    module = surface.homes_by_name().get(owner) or homes.get(owner) or microsofts_module(owner)
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
