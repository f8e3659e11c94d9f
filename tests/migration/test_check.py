"""`runyard check` on a folder of samples, and whether its verdicts agree with what happens when the lines run."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from runyard.cli import main
from runyard.sdk.migration.folder import CheckedUse, check_folder

SUBMIT = """\
from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute
from azureml.core.authentication import InteractiveLoginAuthentication
from azureml.pipeline.core import Pipeline
ws = Workspace.from_config()
auth = InteractiveLoginAuthentication(tenant_id="x")
config = AmlCompute.provisioning_configuration(vm_size="Standard_D2_v2", max_nodes=4)
run = Experiment(ws, "train").submit(ScriptRunConfig(source_directory=".", script="train.py"))
run.get_hyperparameters()
Run(ws, "x", outputs="o")
run.wait_for_completion(show_output=True)
run.no_such_method()
steps = Pipeline(ws, steps=[])
"""
OLD = "import azureml.core\nprint 'no Python 3'\n"
RUN_CONFIGURATION = """\
script: train.py
arguments: []
target: cpu-cluster
framework: PySpark
communicator: None
"""
AZURE_ONLY = """\
script: train.py
framework: Python
priority: 3
"""
CONDA = """\
name: project
dependencies:
- python=3.8
- scikit-learn
- pip:
  - azureml-defaults
  - azureml-train-automl-client==1.40
  - numpy
"""


def notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]})


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    folder = tmp_path / "samples"
    for name, text in {
        "submit.py": SUBMIT,
        "old.py": OLD,
        "plain.py": "print('nothing of Azure here')\n",
        "study.ipynb": notebook(
            "%matplotlib inline\nfrom azureml.core import Workspace", "Workspace.from_config().nothing"
        ),
        ".azureml/spark.runconfig": RUN_CONFIGURATION,
        "azure.runconfig": AZURE_ONLY,
        "environment.yml": CONDA,
        "other.yml": "a: 1\n",
        "requirements.txt": "# all\nazureml-core==1.47\nazureml-explain-model\npandas\n",
        ".venv/pyvenv.cfg": "",
        ".venv/lib/x.py": "import azureml.pipeline",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def found_in(folder: Path, name: str) -> list[CheckedUse]:
    return [finding for finding in check_folder(str(folder)) if finding.path == str(folder / name)]


def test_each_use_of_code_has_its_line_and_verdict(samples: Path) -> None:
    found = found_in(samples, "submit.py")

    not_working = [(one.line, one.name, one.verdict) for one in found if one.verdict != "works"]
    assert not_working == [
        (3, "InteractiveLoginAuthentication", "differs"),
        (4, "Pipeline", "missing"),
        (6, "InteractiveLoginAuthentication()", "differs"),
        (10, "Run()", "differs"),
        (12, "Run.no_such_method()", "missing"),
        (13, "Pipeline()", "missing"),
    ]
    assert {(one.line, one.name) for one in found if one.verdict == "works"} >= {
        (5, "Workspace.from_config()"),
        (7, "AmlCompute.provisioning_configuration()"),
        (8, "Experiment.submit()"),
        (9, "Run.get_hyperparameters()"),
        (11, "Run.wait_for_completion()"),
    }
    by_line = {one.line: one.text for one in found if one.verdict != "works"}
    assert by_line[10] == "Accepted without effect: outputs."
    assert "It is part of Azure's pipelines of steps." in by_line[4]
    assert by_line[12] == "Neither Runyard nor azureml-core 1.61 has it."


def test_notebooks_name_the_cell(samples: Path) -> None:
    last = found_in(samples, "study.ipynb")[-1]

    assert (last.cell, last.line, last.name, last.verdict) == (2, 1, "Workspace.nothing", "missing")


def test_configurations_and_packages_are_checked(samples: Path) -> None:
    [spark] = found_in(samples, ".azureml/spark.runconfig")
    assert (spark.line, spark.verdict) == (4, "missing") and "Spark jobs are not run" in spark.text
    [azure] = found_in(samples, "azure.runconfig")
    assert (azure.line, azure.verdict) == (3, "differs") and "run_config.priority" in azure.text
    conda = [(one.line, one.name, one.verdict) for one in found_in(samples, "environment.yml")]
    assert conda == [
        (3, "python=3.8", "works"),
        (4, "scikit-learn", "works"),
        (6, "azureml-defaults", "works"),
        (7, "azureml-train-automl-client==1.40", "missing"),
        (8, "numpy", "works"),
    ]
    assert [(one.line, one.verdict) for one in found_in(samples, "requirements.txt")] == [
        (2, "works"),
        (3, "differs"),
        (4, "works"),
    ]


def test_what_cannot_be_read_is_told_and_environments_are_left_out(samples: Path) -> None:
    [old] = found_in(samples, "old.py")

    assert (old.line, old.verdict) == (2, "unread") and old.text.startswith("It is no Python 3")
    assert not [one for one in check_folder(str(samples)) if ".venv" in one.path]
    assert found_in(samples, "plain.py") == found_in(samples, "other.yml") == []


def test_the_command_prints_lines_and_exits_with_what_is_missing(
    samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["check", str(samples)])
    said = capsys.readouterr().out.splitlines()

    assert left.value.code == 1
    assert "submit.py:10: differs  Run()  Accepted without effect: outputs." in said
    assert any(line.startswith("study.ipynb cell 2:1: missing  Workspace.nothing  ") for line in said)
    assert not any(": works" in line for line in said)
    assert said[-1].endswith(", 1 not read.")

    with pytest.raises(SystemExit) as left:
        main(["check", "--json", str(samples / "plain.py")])
    assert (left.value.code, json.loads(capsys.readouterr().out)) == (0, [])
    with pytest.raises(SystemExit) as left:
        main(["check", str(samples / "nowhere")])
    assert left.value.code == 1 and "There is no folder" in capsys.readouterr().err


LINES = """\
from azureml.core import Workspace
from azureml.core.runconfig import RunConfiguration
from azureml.train.hyperdrive import HyperDriveConfig
from azureml.train.dnn import PyTorch
from azureml.pipeline.steps import PythonScriptStep
from azureml.train.automl import AutoMLConfig
from azureml.interpret import ExplanationClient
from azureml.core.nothing import Nothing
from azureml.core import Environment; Environment("x").no_such_member
from azureml.core import Environment; Environment("x").python.conda_dependencies.add_pip_package("six")
from azureml.core import Environment; Environment.from_pip_requirements(name="x", no_such_argument=1)
from azureml.core import ScriptRunConfig; ScriptRunConfig(".", "train.py", resume_from=None)
from azureml.core.compute import AmlCompute; AmlCompute.provisioning_configuration(min_nodes=0, max_nodes=2)
from azureml.core.compute import DatabricksCompute; DatabricksCompute.attach_configuration("a", "b", "c")
from azureml.core.authentication import MsiAuthentication; MsiAuthentication()
from azureml.data import OutputFileDatasetConfig; OutputFileDatasetConfig(name="x").as_upload()
from azureml.core.conda_dependencies import CondaDependencies; CondaDependencies.create(pip_packages=["six"])
from azureml.train.hyperdrive import uniform, RandomParameterSampling; RandomParameterSampling({"lr": uniform(0, 1)})
from azureml.core.runconfig import MpiConfiguration; MpiConfiguration(process_count_per_node=2, wrong=1)
"""


@pytest.mark.parametrize("line", LINES.splitlines())
def test_a_verdict_is_what_happens_when_the_line_runs(tmp_path: Path, line: str) -> None:
    (tmp_path / "line.py").write_text(textwrap.dedent(line))
    verdicts = {finding.verdict for finding in check_folder(str(tmp_path))}

    try:
        exec(line, {})
        works = True
    except Exception:
        works = False

    assert verdicts
    assert ("missing" not in verdicts) == works
