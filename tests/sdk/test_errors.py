"""Errors of the SDK: Azure's classes and texts, and ours at once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from runyard.core import errors
from runyard.sdk import exceptions as azure
from runyard.sdk.errors import azure_error, raises_azure_errors


def test_the_text_is_class_message_inner_exception_and_response() -> None:
    error = azure.UserErrorException("The name is wrong.", inner_exception=ValueError("inside"))
    lines = str(error).split("\n")

    assert error.message == "The name is wrong."
    assert error.inner_exception is not None and error.error_code == "UserError"
    assert lines[:4] == [
        "UserErrorException:",
        "\tMessage: The name is wrong.",
        "\tInnerException inside",
        "\tErrorResponse ",
    ]
    assert json.loads("\n".join(lines[4:])) == {"error": {"code": "UserError", "message": "The name is wrong."}}


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
    assert made.message == "No such run.\nLooked everywhere.\n\nhint: List them."
    assert "\tMessage: No such run." in str(made)


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
    assert isinstance(caught.value.__cause__, errors.NotFound)


def test_a_failed_activity_holds_its_details() -> None:
    error = azure.ActivityFailedException(error_details='{"error": {}}')

    assert error.error_details == '{"error": {}}'
    assert '{"error": {}}' in error.message
