import os
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument
from runyard.core.names import (
    check_asset_name,
    check_experiment_name,
    check_metric_name,
    check_plain_name,
    check_run_id,
    check_workspace_name,
    clean_file_name,
    make_run_id,
    make_uuid,
    stored_file_name,
    true_file_name,
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
        "C:/x",
        "a\0b",
        "a" * 1025,
        "\n" * 400,
        "\ud800",
        "\udc2f",
        "\uf02e\uf02e/x",
        "a/\uf02e\uf02e/\uf02e\uf02e/etc/passwd",
        "a/.\uf02e",
        "\uf02e",
    ],
)
def test_a_name_that_leaves_its_root_or_confuses_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        clean_file_name(name)


ODD = {
    "a\\b": "a\uf05cb",
    "..\\..\\x": "..\uf05c..\uf05cx",
    "a\nb\x1b[2J": "a\uf00ab\uf01b[2J",
    "outputs/ x /y": "outputs/\uf020x\uf020/y",
    "x.": "x\uf02e",
    "outputs/.../x": "outputs/..\uf02e/x",
    "caf\udce9": "caf\uf0e9",
    "\udcc0\udcaf": "\uf0c0\uf0af",  # an overlong `/` is no `/`
    "x\u00a0": "x\uf0c2\uf0a0",
    "nerd\uf05c": "nerd\uf0ef\uf081\uf09c",
    "%2e%2e%2f%2e%2e%2fetc": "%2e%2e%2f%2e%2e%2fetc",
    "100%25": "100%25",
    "a;b?c#d": "a;b?c#d",
}


@pytest.mark.parametrize(("found", "stored"), ODD.items())
def test_an_odd_name_is_stored_in_a_safe_form_and_comes_back_as_it_was(found: str, stored: str) -> None:
    assert stored_file_name(found) == stored
    assert true_file_name(stored) == found
    assert clean_file_name(stored) == stored
    assert clean_file_name(found) == (stored if found != "nerd\uf05c" else "nerd\uf05c")


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4))
def test_any_name_of_a_disk_comes_back(parts: list[bytes]) -> None:
    """Unicode forms aside: a name has one."""
    raw = b"outputs/" + b"/".join(part.replace(b"/", b"_").replace(b"\0", b"_") for part in parts)
    found = unicodedata.normalize("NFC", os.fsdecode(raw))
    if {".", ".."} & set(found.split("/")):
        return
    stored = stored_file_name(found)

    assert true_file_name(stored) == found
    assert stored == clean_file_name(stored) and stored.encode("utf-8")
    assert not re.search(r"[\x00-\x1f\x7f\\]|(^|/)\s|[\s.](/|\Z)", stored)


@given(st.text(alphabet="./\\ \n\x1ba%2fe\uf02e\uf02f\uf05c\uf000\uf0c0\uf0af\udcc0"))
def test_no_name_from_a_server_leaves_the_folder_it_is_written_to(name: str) -> None:
    try:
        found = true_file_name(name)
    except InvalidArgument:
        return

    assert os.path.normpath(os.path.join("/top", found)).startswith("/top/")
    assert "\0" not in found and not {"", ".", ".."} & set(found.split("/"))


@given(st.text())
def test_a_cleaned_name_stays_below_its_root(name: str) -> None:
    try:
        cleaned = clean_file_name(name)
    except InvalidArgument:
        return

    assert cleaned == clean_file_name(cleaned) == unicodedata.normalize("NFC", cleaned)
    assert not cleaned.startswith("/")
    assert not {"", ".", ".."} & set(cleaned.split("/"))


@pytest.mark.parametrize("check", [check_run_id, check_plain_name, check_workspace_name])
@pytest.mark.parametrize("value", ["", "../x", "a/b", "a b", "-a", "é" * 3, "a\n", "x" * 300, "a%2fb"])
def test_ids_hold_only_safe_characters(check, value: str) -> None:
    with pytest.raises(InvalidArgument, match="not a valid"):
        check(value)


@pytest.mark.parametrize("value", ["a b", "a_b", "a/b", "..", "-a", "Größe %2f 😀", "a.b", 'say "x"', "x" * 255])
def test_assets_and_experiments_have_any_printable_name(value: str) -> None:
    assert check_asset_name(value) == check_experiment_name(value) == value
    assert check_run_id(make_run_id(value))


@pytest.mark.parametrize("value", ["", "  ", 3, None, "a\nb", "a\tb", "a\0b", "x" * 256, "\udc80", "a\u2028b"])
def test_a_name_of_no_text_or_of_several_lines_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="any printable text on one line"):
        check_asset_name(value)


@pytest.mark.parametrize("value", ["", "  ", 3, None, "a\nb", "x" * 256, "\udc80"])
def test_what_cannot_name_a_metric(value: object) -> None:
    with pytest.raises(InvalidArgument):
        check_metric_name(value)


def test_a_metric_name_may_hold_any_writing() -> None:
    assert check_metric_name("дoля/😀 loss") == "дoля/😀 loss"
