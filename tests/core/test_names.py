import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument
from runyard.core.names import (
    check_experiment_name,
    check_metric_name,
    check_run_id,
    check_workspace_name,
    clean_file_name,
    make_run_id,
    make_uuid,
)


def test_a_run_id_is_experiment_seconds_and_eight_hex() -> None:
    assert re.fullmatch(r"my_exp_1700000000_[0-9a-f]{8}", make_run_id("my_exp", now=1700000000.9))


def test_a_uuid_has_version_four() -> None:
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", make_uuid())


@pytest.mark.parametrize(
    ("given_name", "expected"),
    [
        ("outputs/model.pkl", "outputs/model.pkl"),
        ("./outputs/a", "outputs/a"),
        (".//outputs/a", "outputs/a"),
        ("e\u0301.txt", "\u00e9.txt"),
        (".hidden", ".hidden"),
    ],
)
def test_a_file_name_has_one_form(given_name: str, expected: str) -> None:
    assert clean_file_name(given_name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/x",
        "../x",
        "a/../b",
        "a//b",
        "a/.",
        "..",
        "a\\b",
        "C:/x",
        "a\0b",
        "a\nb",
        "x ",
        " x",
        "a/b.",
        "a" * 1025,
        "\ud800",
    ],
)
def test_a_name_that_leaves_its_root_or_confuses_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        clean_file_name(name)


@given(st.text())
def test_a_cleaned_name_stays_below_its_root(name: str) -> None:
    try:
        cleaned = clean_file_name(name)
    except InvalidArgument:
        return

    assert cleaned == clean_file_name(cleaned) == unicodedata.normalize("NFC", cleaned)
    assert not cleaned.startswith("/")
    assert not {"", ".", ".."} & set(cleaned.split("/"))


@pytest.mark.parametrize("check", [check_run_id, check_experiment_name, check_workspace_name])
@pytest.mark.parametrize("value", ["", "../x", "a/b", "a b", "-a", "é" * 3, "a\n", "x" * 300, "a%2fb"])
def test_ids_hold_only_safe_characters(check, value: str) -> None:
    with pytest.raises(InvalidArgument, match="not a valid"):
        check(value)


@pytest.mark.parametrize("value", ["", "  ", 3, None, "a\nb", "x" * 256, "\udc80"])
def test_what_cannot_name_a_metric(value: object) -> None:
    with pytest.raises(InvalidArgument):
        check_metric_name(value)


def test_a_metric_name_may_hold_any_writing() -> None:
    assert check_metric_name("дoля/😀 loss") == "дoля/😀 loss"
