"""Errors of the SDK: Azure's classes and texts, and ours at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core import errors
from runyard.sdk import exceptions as azure
from runyard.sdk.errors import azure_error, raises_azure_errors


def test_the_text_is_the_message_and_the_inner_exception() -> None:
    error = azure.UserErrorException("The name is wrong.", inner_exception=ValueError("inside"))

    assert error.message == "The name is wrong." and error.error_code == "UserError"
    assert str(error) == "The name is wrong.\nValueError: inside"


MISTAKES = {
    "missing script": "Experiment(ws, 'e').submit(ScriptRunConfig('.', script='nope.py'))",
    "unknown target": "Experiment(ws, 'e').submit(ScriptRunConfig('.', script='mistake.py', compute_target='gpu'))",
    "unknown model": "Model(ws, 'nope')",
    "unknown run": "ws.get_run('nope')",
    "unknown dataset": "Dataset.get_by_name(ws, 'nope')",
    "wrong name": "Experiment(ws, '')",
    "wrong type": "Experiment(ws, 'e').submit(5)",
    "misspelt keyword": "ScriptRunConfig('.', scirpt='mistake.py')",
}


@pytest.mark.parametrize("call", [pytest.param(call, id=name) for name, call in MISTAKES.items()])
def test_a_wrong_call_is_told_once_in_few_lines(home: Path, tmp_path: Path, call: str) -> None:
    (tmp_path / "mistake.py").write_text(
        "from azureml.core import Dataset, Experiment, Model, ScriptRunConfig, Workspace\n"
        f"ws = Workspace.from_config()\n{call}\n"
    )
    result = subprocess.run(
        [sys.executable, "mistake.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    lines = result.stderr[result.stderr.index("Traceback") :].splitlines()

    assert result.returncode == 1 and len(lines) <= 8, result.stderr
    assert sum("Traceback" in line for line in lines) == 1 and "mistake.py" in lines[1]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (errors.InvalidArgument("x"), azure.UserErrorException),
        (errors.NotFound("x"), azure.UserErrorException),
        (errors.Conflict("x"), azure.UserErrorException),
        (errors.NotYetSupported("x"), azure.UserErrorException),
        (errors.NotAuthenticated("x"), azure.AuthenticationException),
        (errors.SubmitRejected("x"), azure.ExperimentExecutionException),
        (errors.SnapshotRejected("x"), azure.SnapshotException),
        (errors.ServerUnreachable("x"), azure.ServiceException),
        (errors.StoreUnavailable("x"), azure.ServiceException),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_an_error_of_ours_is_caught_as_azures_and_as_ours(
    ours: errors.RunyardError, theirs: type[azure.AzureMLException]
) -> None:
    made = azure_error(ours)

    assert isinstance(made, theirs) and isinstance(made, type(ours)) and isinstance(made, azure.AzureMLException)
    assert type(made).__name__ == theirs.__name__


def test_what_why_and_hint_travel() -> None:
    made = azure_error(errors.NotFound("No such run.", why="Looked everywhere.", hint="List them.", details={"a": 1}))

    assert isinstance(made, errors.NotFound) and isinstance(made, LookupError)
    assert (made.what, made.why, made.hint, made.details) == (
        "No such run.",
        "Looked everywhere.",
        "List them.",
        {"a": 1},
    )
    assert made.message == str(made) == "No such run. Looked everywhere.\nhint: List them."


def test_translation_happens_once() -> None:
    made = azure_error(errors.NotFound("x"))

    assert azure_error(made) is made  # type: ignore[arg-type]  # it is a RunyardError as well


@raises_azure_errors
class Door:
    @property
    def attribute(self) -> str:
        raise errors.NotFound("attribute")

    def method(self) -> str:
        raise errors.NotFound("method")

    @staticmethod
    def static() -> str:
        raise errors.NotFound("static")

    @classmethod
    def of_class(cls) -> str:
        raise errors.NotFound("class")

    def generator(self) -> Iterator[int]:
        yield 1
        raise errors.NotFound("generator")


@pytest.mark.parametrize("name", ["attribute", "method", "static", "of_class", "generator"])
def test_every_kind_of_member_translates(name: str) -> None:
    with pytest.raises(azure.UserErrorException) as caught:
        found = getattr(Door(), name)
        value = found()
        list(value)

    assert isinstance(caught.value, errors.NotFound)
    assert isinstance(caught.value.__context__, errors.NotFound) and caught.value.__suppress_context__


def test_a_failed_activity_holds_its_details() -> None:
    error = azure.ActivityFailedException(error_details='{"error": {}}')

    assert error.error_details == '{"error": {}}'
    assert '{"error": {}}' in error.message
