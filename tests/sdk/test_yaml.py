"""Configuration files in YAML: read within limits, refused with the place of the mistake."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.yaml.writer import dump
from runyard.sdk.config.files import read_yaml

SOURCE = str(Path(__file__).parents[2] / "src")


def test_what_has_no_place_in_a_file_is_named() -> None:
    with pytest.raises(TypeError, match=r"<object .* is a object"):
        dump({"a": [object()]})


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
        (_BOMB, "Line 6, column 10: more than 100000 values"),
        ("[" * 500_000, "more than 40 levels deep"),
        ("? " * 100_000, "more than 40 levels deep"),
        ("a: &a [*a]", "a value that holds itself"),
        ("a: !!python/object/apply:os.system ['true']", "the tag `!!python/object/apply:os.system` is not known"),
        ("a: !!int x", "`x` is not of the kind `!!int`"),
        ("a: 1\nb: 2\na: 3", "Line 3, column 1: `a` is given twice"),
        ("a: \x07", "is not allowed"),
        ("a: [", "Line 1, column 4: this `[` is never closed"),
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


def test_files_are_read_and_written_without_any_package(tmp_path: Path) -> None:
    code = f"""
from azureml.core.runconfig import RunConfiguration
RunConfiguration().save({str(tmp_path)!r}, "train")
print(RunConfiguration.load({str(tmp_path)!r}, "train").target)
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert done.stdout == "local\n"
