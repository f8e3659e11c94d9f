"""The reader of TOML, and ranges of Python versions."""

from __future__ import annotations

import sys

import pytest

from runyard.core.formats.python_range import fits, is_range, lowest, plain_range
from runyard.core.formats.toml import TomlError, read_toml

DOCUMENT = r'''
title = "a \"b\" \u00e9" # comment
'quoted key' = 'C:\raw'
dotted.key."x.y" = 1_000
numbers = [0x1F, -1.5e3, +0, 0b11,
  # a comment in a list
  inf]
when = 2024-05-01T10:00:00Z
flag = true
long = """
first \
   second "quoted"
"""
literal = \'\'\'
no \escape\'\'\'
[table.inner]
inline = { a = 1, b.c = [ { d = "e" } ] }
[[list]]
name = "one"
[list.below]
x = 1
[[list]]
name = "two"
'''.replace("\\'", "'")


def test_a_document_is_read() -> None:
    assert read_toml(DOCUMENT) == {
        "title": 'a "b" é',
        "quoted key": "C:\\raw",
        "dotted": {"key": {"x.y": 1000}},
        "numbers": [31, -1500.0, 0, 3, float("inf")],
        "when": "2024-05-01T10:00:00Z",
        "flag": True,
        "long": 'first second "quoted"\n',
        "literal": "no \\escape",
        "table": {"inner": {"inline": {"a": 1, "b": {"c": [{"d": "e"}]}}}},
        "list": [{"name": "one", "below": {"x": 1}}, {"name": "two"}],
    }


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the library's reader came with 3.11")
def test_it_reads_what_the_library_reads() -> None:
    import tomllib

    text = "\n".join(line for line in DOCUMENT.splitlines() if not line.startswith("when"))
    assert read_toml(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\na = 2", 2),
        ("[t]\nx = 1\n[t]\n", 3),
        ("a = [1, 2", 1),
        ("a = word", 1),
        ("\n\na 1", 3),
        ('a = "open\n"', 1),
        ("a = 1 b = 2", 1),
        (r'a = "\q"', 1),
        ("a = {b = 1}\n[a.c]\n", 2),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int) -> None:
    with pytest.raises(TomlError, match=f"^Line {line}: "):
        read_toml(text)


@pytest.mark.parametrize(
    ("written", "plain", "inside", "outside"),
    [
        (">=3.9, <3.13", ">=3.9,<3.13", "3.12.4", "3.13.0"),
        ("^3.9", ">=3.9,<4", "3.13.1", "3.8.18"),
        ("~3.10", ">=3.10,<3.11", "3.10.13", "3.11.0"),
        ("~=3.10", "~=3.10", "3.13.1", "3.9.1"),
        ("~=3.10.2", "~=3.10.2", "3.10.9", "3.11.0"),
        ("==3.11.*", "==3.11.*", "3.11.7", "3.12.0"),
        ("3.11", "==3.11.*", "3.11.7", "3.10.0"),
        (">=3.8,!=3.9.*", ">=3.8,!=3.9.*", "3.10.0", "3.9.18"),
        (">3.8", ">3.8", "3.8.18", "3.7.9"),
        ("<=3.11", "<=3.11", "3.10.1", "3.11.1"),
        ("<3.8 || >=3.10", ">=3.10", "3.10.0", "3.7.1"),
    ],
)
def test_ranges_of_versions(written: str, plain: str, inside: str, outside: str) -> None:
    assert plain_range(written) == plain
    assert (fits(inside, plain), fits(outside, plain)) == (True, False)


def test_what_is_no_range_is_refused() -> None:
    assert (is_range("3.11"), is_range("3.11.4"), is_range(">=3.8")) == (False, False, True)
    assert (lowest(">=3.9,<3.13"), lowest("<3.9")) == ("3.9", "")
    with pytest.raises(ValueError, match="no range"):
        plain_range("newest")
