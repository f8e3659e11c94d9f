"""YAML files: written without a package, read within limits, the same values on both sides."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument
from runyard.sdk.config.files import read_yaml, yaml_text

_TRICKY = "on yes << = 1e5 0x1F 0o7 1_000 2020-01-01 .5 null ~ a:b >=1 !t - -- --- ... 1e-3 %a 0b1 [a 10:30 007 .nan"
_TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from([*_TRICKY.split(), "- a", "a: b", "a #b", "? x", " x", "x "])
    | st.from_regex(r"[-0-9.eE:_~ xo+]{0,8}", fullmatch=True)
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXTS.filter(lambda key: key != "<<"), inner),
    max_leaves=15,
)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(_VALUES)
def test_what_is_written_reads_back_here_and_in_other_readers(value: Any) -> None:
    text = yaml_text({"value": value})
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()

        assert read_yaml(file.name) == {"value": value}
    assert yaml.safe_load(text) == {"value": value}


def test_what_has_no_place_in_a_file_is_named() -> None:
    with pytest.raises(TypeError, match=r"<object .* is a object"):
        yaml_text({"a": [object()]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: on", "on"),
        ("a: 10:30", "10:30"),
        ("a: 007", "007"),
        ("a: 2020-01-01", "2020-01-01"),
        ("a: 1e-3", 0.001),
        ("a: None", "None"),
        ("a: ~", None),
        ("a:", None),
        ("a: True", True),
        ("x: &x {b: 1, c: 1}\na: {<<: *x, b: 2}", {"b": 2, "c": 1}),
    ],
)
def test_values_are_read_as_azures_sdk_reads_them(tmp_path: Path, text: str, expected: Any) -> None:
    (tmp_path / "file").write_text(text)

    found = read_yaml(str(tmp_path / "file"))["a"]
    assert found == expected and type(found) is type(expected)


_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (_BOMB, "Line 6, column 5: more than 100000 values"),
        ("[" * 500_000, "more than 40 levels deep"),
        ("? " * 100_000, "more than 40 levels deep"),
        ("a: &a [*a]", "a value that holds itself"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: !!int x", "invalid literal"),
        ("a: 1\nb: 2\na: 3", "Line 3, column 1: `a` is given twice"),
        ("a: \x07", "special characters"),
        ("a: [", "Line 1, column 5"),
        ("a: 1\n---\nb: 2", "another document"),
        ("- x", "should hold `key: value` lines, found a list"),
        ("#" * (1 << 20) + "\n", "longer than 1048576 bytes"),
        (b"a: \xff", "not UTF-8"),
    ],
    ids=range(13),
)
def test_a_hostile_or_broken_file_is_refused_soon_and_the_place_named(
    tmp_path: Path, text: str | bytes, why: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    started = time.monotonic()

    with pytest.raises(InvalidArgument) as caught:
        read_yaml(str(file))
    assert why in str(caught.value) and str(file) in str(caught.value)
    assert time.monotonic() - started < 5


def test_an_empty_file_holds_nothing_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("# nothing\n")

    assert read_yaml(str(tmp_path / "file")) == {}
    with pytest.raises(InvalidArgument, match="No such file"):
        read_yaml(str(tmp_path / "none"))


def test_pyyaml_is_loaded_only_to_read_and_its_lack_is_explained(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise ImportError('not here')")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from azureml.core.runconfig import RunConfiguration
RunConfiguration().save({str(tmp_path)!r}, "train")
assert "yaml" not in sys.modules
try:
    RunConfiguration.load({str(tmp_path)!r}, "train")
except ImportError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert "does not have the package pyyaml" in done.stdout and "pip install pyyaml" in done.stdout
