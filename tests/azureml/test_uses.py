"""The counter of real use: what it finds in code, and what the stored counts of public repositories come to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"

SCRIPT = """
import azureml.core
from azureml.core import Dataset, Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget, DatabricksCompute
from azureml.pipeline.core import Pipeline

print(azureml.core.VERSION)
ws = Workspace.from_config()
print(ws.name)
store = ws.datastores["x"]
store.download(target_path=".", threads=1)
env = Environment("a")
env.python.conda_dependencies.add_pip_package("x")
env.python.no_such_setting
source = ScriptRunConfig(source_directory=".", script="a.py", environment=env)
run = Experiment(ws, "x").submit(source, tags={})
run.get_hyperparameters()
DatabricksCompute.attach_configuration()
Pipeline(ws, steps=[]).submit("x")


def log(run: azureml.core.Run, workspace: "Workspace"):
    run.log("a", 1)
    with run.child_run() as child:
        child.log("b", 2)
    return [other.id for other in workspace.get_default_datastore().nothing]
"""


@pytest.fixture
def uses(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import azureml_uses

    yield azureml_uses
    for name in ("azureml_uses", "azureml_names", "azureml_reasons"):
        sys.modules.pop(name, None)


def test_uses_are_found_through_types_and_judged(uses: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "old.py").write_text("print 'no Python 3'\n")
    report = uses.count([tmp_path])

    blocked = {name: (area, state) for (area, name, state, _) in report.blocked}
    assert blocked == {
        "azureml.core.compute:DatabricksCompute.attach_configuration": ("training", "refused"),
        "azureml.pipeline.core:Pipeline": ("pipelines", "refused"),
        "azureml.pipeline.core:Pipeline()": ("pipelines", "refused"),
        "azureml.pipeline.core:Pipeline.submit": ("pipelines", "refused"),
        "azureml.core:Datastore.download": ("training", "keyword"),
        "azureml.core.environment:PythonSection.no_such_setting": ("training", "not in azureml-core 1.61 either"),
        "azureml.core:Datastore.nothing": ("training", "not in azureml-core 1.61 either"),
    }
    assert report.by_area["training"]["works"] == 27
    assert (report.files, report.free_files) == (1, 0)


def test_notebooks_are_read_without_their_magic(uses: Any, tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "from azureml.core import Nothing"},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install x\n", "from azureml.core import Run\n"]},
        {"cell_type": "code", "source": "%%writefile train.py\nrun = Run.get_context()\nrun.log('a', 1)"},
        {"cell_type": "code", "source": "%%bash\nfrom azureml.core import Nothing"},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    report = uses.count([tmp_path])

    assert {area: dict(states) for area, states in report.by_area.items()} == {"training": {"works": 3}}
    assert (report.files, report.free_files) == (1, 1)


def test_of_real_code_most_works_and_nothing_ends_in_a_bare_error(uses: Any) -> None:
    report = uses.count_stored()
    training = [states for area, states in report.by_area.items() if area not in uses.OUTSIDE.values()]
    total = sum(sum(states.values()) for states in training)
    works = sum(states["works"] + states["no effect"] for states in training)

    assert total == 23960
    assert works / total >= 0.987
    assert sum(states["bare error"] + states["keyword"] for states in report.by_area.values()) == 0
