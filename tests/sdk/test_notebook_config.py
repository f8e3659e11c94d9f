"""azureml.contrib.notebook: a notebook as the script, with parameters, an output path and a time limit for cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from azureml.contrib.notebook import AzureMLNotebookHandler, NotebookRunConfig, PapermillExecutionHandler
from azureml.core import ScriptRunConfig
from azureml.core.runconfig import RunConfiguration
from runyard.launchers.processes import process_argv
from runyard.runtime.notebook import read_parameters
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.submit.submission import plan_submission


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "nb.ipynb").write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": []}))
    return str(tmp_path)


def test_a_notebook_with_parameters_becomes_a_run(source: str) -> None:
    mine = RunConfiguration()
    values = {"alpha": 0.5, "name": "0.5", "layers": [1, 2], "none": None}
    config = NotebookRunConfig(
        source_directory=source,
        notebook="nb.ipynb",
        output_notebook="outputs/out.ipynb",
        parameters=values,
        handler=AzureMLNotebookHandler(timeout=600, cwd="inputs"),
        run_config=mine,
    )
    spec = plan_submission(config).spec

    assert process_argv(spec, "PY", {})[:4] == ["PY", "-m", "runyard.runtime.notebook", "nb.ipynb"]
    assert read_parameters(spec.arguments) == values
    assert {name: value for name, value in spec.variables.items() if name.startswith("RUNYARD_NOTEBOOK")} == {
        "RUNYARD_NOTEBOOK_OUTPUT": "outputs/out.ipynb",
        "RUNYARD_NOTEBOOK_TIMEOUT": "600",
        "RUNYARD_NOTEBOOK_FOLDER": "inputs",
    }
    assert (spec.keep, "RUNYARD_NOTEBOOK_OUTPUT" in mine.environment_variables) == ([], False)


def test_the_output_is_kept_wherever_it_goes(source: str) -> None:
    plain = plan_submission(NotebookRunConfig(source, "nb.ipynb", handler=PapermillExecutionHandler())).spec
    other = plan_submission(NotebookRunConfig(source, "nb.ipynb", output_notebook="done/nb.ipynb")).spec

    assert plain.variables["RUNYARD_NOTEBOOK_OUTPUT"] == "outputs/nb.output.ipynb"
    assert (plain.keep, other.keep) == ([], ["done/nb.ipynb"])


def test_a_notebook_is_a_script(source: str) -> None:
    assert plan_submission(ScriptRunConfig(source_directory=source, script="nb.ipynb")).spec.script == "nb.ipynb"


def test_mistakes_are_told(source: str) -> None:
    with pytest.raises(UserErrorException, match="path of a notebook"):
        NotebookRunConfig(source, "train.py")
    with pytest.raises(UserErrorException, match="no name of a variable"):
        NotebookRunConfig(source, "nb.ipynb", parameters={"a b": 1})
    with pytest.raises(UserErrorException, match="must be an AzureMLNotebookHandler"):
        NotebookRunConfig(source, "nb.ipynb", handler="papermill")  # type: ignore[arg-type]  # as a user might
    with pytest.raises(TypeError, match="timeout"):
        AzureMLNotebookHandler(timout=5)  # type: ignore[call-arg]  # as a user might
