"""Run notebooks cell by cell, each against a fresh private server: `python scripts/run_notebooks.py FOLDER...`

Start it with the Python that shall run the notebooks; Runyard, nbclient and ipykernel must be installed there. Each
notebook gets a copy of its folder and a home of its own. A cell that fails does not stop the notebook: a later cell
that fails only because of it is counted as "follows". After the last cell another process reads what is in the
workspace: runs by status, metrics, models, datasets. The table says how many cells ran, which failed first, and why;
`--json` keeps all of it, with each cell's error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

SKIPPED = ("!az ", "!pip", "%pip", "!conda", "%conda")  # lines of the shell that change the machine or call Azure
CENSUS = """
import json
from collections import Counter
from azureml.core import Workspace

result = {"runs": Counter(), "metrics": 0, "files": 0, "failures": [], "models": [], "datasets": []}
for workspace in Workspace.list(None).values():
    for one in workspace if isinstance(workspace, list) else [workspace]:
        for experiment in one.experiments.values():
            for run in experiment.get_runs(include_children=True):
                result["runs"][run.get_status()] += 1
                if run.get_status() == "Failed":
                    result["failures"].append(run.get_details()["error"]["error"]["message"][-600:])
                result["metrics"] += len(run.get_metrics())
                names = run.get_file_names()
                result["files"] += sum(not name.startswith(("user_logs", "system_logs")) for name in names)
        result["models"] += sorted(one.models)
        result["datasets"] += sorted(one.datasets)
print(json.dumps(result))
"""
# What a failed cell's error means, by the first pattern that its name and message match.
CLASSES = [
    ("follows", r"^NameError"),
    ("download", r"URLError|HTTPError|ConnectionError|gaierror|Name or service not known|Max retries|resolve host"),
    ("not here", r"^(AbsentModule|AbsentName|NotYetSupported)|is not part of Runyard|not there yet"),
    ("package", r"^(ModuleNotFoundError|ImportError)"),
    ("file", r"^(FileNotFoundError|IsADirectoryError)|No such file"),
    ("run failed", r"^(ActivityFailedException|ExperimentExecutionException|RunFailed)"),
    ("azureml", r"Exception: *\n?.*Message:|runyard"),
    ("input", r"^StdinNotImplementedError"),
    ("timeout", r"^(CellTimeoutError|DeadKernelError)"),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="notebooks, or folders of them")
    parser.add_argument(
        "--prelude", type=Path, help="code to run in each kernel first, such as one that serves downloads"
    )
    parser.add_argument("--timeout", type=int, default=300, help="seconds that one cell may take (300)")
    parser.add_argument("--json", type=Path, help="also write all results to this file")
    given = parser.parse_args()
    prelude = given.prelude.read_text() if given.prelude else ""
    results = []
    for notebook in list(_notebooks(given.folders)):  # one that is not there is told before the first runs
        result = _run(notebook, prelude, given.timeout)
        results.append(result)
        print(_row(result), flush=True)
        if given.json:
            given.json.write_text(json.dumps(results, indent=1))
    clean = sum(not result["errors"] for result in results)
    causes = Counter(result["errors"][0]["class"] for result in results if result["errors"])
    print(f"\n{clean} of {len(results)} notebooks ran without an error; first causes: {dict(causes)}")
    return 0 if clean == len(results) else 1


def _notebooks(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted(one for one in path.rglob("*.ipynb") if ".ipynb_checkpoints" not in one.parts)
        else:
            sys.exit(f"error: {path} is not there")


def _run(path: Path, prelude: str, timeout_s: int) -> dict[str, Any]:
    """Run one notebook in a copy of its folder; return its counts, its errors and what it left in the workspace."""
    with tempfile.TemporaryDirectory(prefix="nb-") as folder:
        work = Path(folder) / "work"
        shutil.copytree(path.parent, work, symlinks=True)
        os.environ["RUNYARD_HOME"] = str(Path(folder) / "home")
        notebook = nbformat.read(path, as_version=4)
        notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
        for cell in notebook.cells:
            cell.source = _without_shell(cell.source)
        try:
            errors = _execute(notebook, work, prelude, timeout_s)
            ask = [sys.executable, "-c", CENSUS]
            census = subprocess.run(ask, check=False, capture_output=True, text=True, cwd=folder)
            seen = json.loads(census.stdout) if census.returncode == 0 else {"error": census.stderr[-500:]}
        finally:
            subprocess.run([sys.executable, "-m", "runyard", "server", "stop"], check=False, capture_output=True)
    return {"notebook": str(path), "cells": len(notebook.cells) - 1, "errors": errors, "workspace": seen}


def _without_shell(source: str) -> str:
    lines = [re.sub(r"^!(more|less) ", "!cat ", line) for line in source.splitlines()]  # pagers wait for a key
    return "\n".join("pass" if line.lstrip().startswith(SKIPPED) else line for line in lines)


def _execute(notebook: Any, work: Path, prelude: str, timeout_s: int) -> list[dict[str, Any]]:
    client = NotebookClient(
        notebook,
        timeout=timeout_s,
        allow_errors=True,
        interrupt_on_timeout=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(work)}},
    )
    errors: list[dict[str, Any]] = []
    notebook.cells.insert(0, nbformat.v4.new_code_cell(prelude or "pass"))
    with client.setup_kernel(cwd=str(work)):
        for number, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, number)
            except (CellTimeoutError, DeadKernelError) as error:
                errors.append({"cell": number, "class": "timeout", "error": f"{type(error).__name__}: {error}"[:500]})
                if isinstance(error, DeadKernelError):
                    break
            errors += _errors_of(cell, number)
    return errors


def _errors_of(cell: Any, number: int) -> list[dict[str, Any]]:
    found = []
    for output in cell.get("outputs", []):
        if output.output_type == "error" and output.ename != "KeyboardInterrupt":
            text = f"{output.ename}: {output.evalue}"
            cause = next((name for name, pattern in CLASSES if re.search(pattern, text)), "other")
            found.append({"cell": number, "class": cause, "error": text[:1500], "source": cell.source[:1500]})
    return found


def _row(result: dict[str, Any]) -> str:
    errors = result["errors"]
    first = (
        f"cell {errors[0]['cell']}: {errors[0]['class']}: {' '.join(errors[0]['error'].split())[:150]}"
        if errors
        else "ok"
    )
    seen = result["workspace"]
    left = " ".join(f"{count} {status}" for status, count in seen.get("runs", {}).items()) or seen.get(
        "error", "no run"
    )
    rest = ", ".join(f"{len(seen.get(kind, []))} {kind}" for kind in ("models", "datasets"))
    return f"{result['notebook']} | {result['cells'] - len(errors)}/{result['cells']} | {left}, {rest} | {first}"


if __name__ == "__main__":
    raise SystemExit(main())
