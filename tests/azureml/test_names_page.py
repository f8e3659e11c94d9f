"""The generated page of names says of each what is true. That it is up to date, tests/test_docs.py checks."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runyard.core.errors import AbsentName, NotYetSupported

PAGE = Path(__file__).parent.parent.parent / "docs/reference/azureml-names.md"
REFUSED = "refused"


class Row(NamedTuple):
    module: str
    name: str
    parameters: list[str]
    state: str


@cache
def rows() -> list[Row]:
    found = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[2:]:
        module, _, body = section.partition("\n")
        for names, parameters, state in re.findall(r"^\| (`.*?) \| (.*?) \| (.*) \|$", body, re.MULTILINE):
            told = state.split(",")[0].split(":")[0]
            taken = re.findall(r"`(\w+)`", parameters)
            found += [Row(module, name, taken, told) for name in re.findall(r"`(.+?)`", names)]
    return found


def resolved(row: Row) -> Any:
    """Return the object as a script gets it; True for an attribute that the code of its class sets on objects."""
    owner, _, member = row.name.partition(".")
    found = getattr(importlib.import_module(row.module), owner)
    if not member:
        return found
    if hasattr(found, member) or member not in attributes_of(found):
        return getattr(found, member)
    return True


@cache
def attributes_of(cls: Any) -> set[str]:
    found = set(getattr(cls, "_unused", ()))
    for base in cls.__mro__[:-1]:
        found.update(getattr(base, "__annotations__", {}))
        if base.__module__.startswith(("runyard", "azureml")):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
            found.update(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_set(node))
    return found


def is_set(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)


def refuses(target: Any, parameter: str) -> bool:
    try:
        signature = inspect.signature(target)
        known = [one.name for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        signature.bind_partial(**{parameter: None})
    except TypeError:
        return True
    return parameter not in known


def test_the_page_has_the_names_of_microsofts_packages() -> None:
    words = ("supported", "partly", "without effect", REFUSED)
    counts = {word: sum(row.state == word for row in rows()) for word in words}
    told = re.search(r"In all: (.*)\.", PAGE.read_text())

    assert told is not None and told.group(1) == ", ".join(f"{count} {word}" for word, count in counts.items())
    assert counts["supported"] > 600 and counts[REFUSED] > 300


def test_everything_that_the_page_calls_supported_resolves() -> None:
    missing = []
    for row in rows():
        try:
            if row.state != REFUSED and "not in this version" in repr(resolved(row)):
                missing.append(row)
        except AttributeError:
            missing.append(row)

    assert not missing


def test_every_parameter_that_the_page_names_is_taken() -> None:
    wrong = []
    for row in rows():
        if row.state != REFUSED and row.parameters:
            target = resolved(row)
            is_read = target is True or isinstance(target, (property, dict, str))
            wrong += [f"{row.name}({name}=)" for name in row.parameters if not is_read and refuses(target, name)]

    assert not wrong


def test_everything_that_the_page_calls_refused_says_why() -> None:
    silent = []
    for row in rows():
        owner, _, member = row.name.partition(".")
        if row.state == REFUSED:
            found = getattr(importlib.import_module(row.module), owner)
            try:
                if not member:
                    found()
                elif not hasattr(found, member) and member not in attributes_of(found):
                    getattr(found, member)
                continue
            except NotYetSupported as error:
                is_told = (isinstance(error, AbsentName) if member else True) and bool(error.why and error.hint)
            if not is_told:
                silent.append(row.name)

    assert not silent


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Run.log", "supported"),
        ("Run.start", "without effect"),
        ("Experiment.submit", "supported"),
        ("RunConfiguration.target", "supported"),
        ("RunConfiguration.data", "supported"),
        ("RunConfiguration.datacaches", REFUSED),
        ("MsiAuthentication", "without effect"),
        ("AbstractAuthentication.get_authentication_header", "without effect"),
        ("TensorFlow", "supported"),
        ("Datastore.register_azure_blob_container", "supported"),
        ("HyperDriveRun.get_diagnostics", REFUSED),
        ("Model.deploy", "supported"),
        ("InferenceConfig.build_create_payload", REFUSED),
        ("AmlCompute.list_usages", "without effect"),
        ("DatabricksCompute", "partly"),
        ("DatabricksCompute.attach_configuration", REFUSED),
        ("NoaaIsdWeather", "supported"),
    ],
)
def test_a_name_has_the_state_that_it_has(name: str, expected: str) -> None:
    assert {row.state for row in rows() if row.name == name} == {expected}
