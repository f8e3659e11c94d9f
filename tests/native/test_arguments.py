"""Keywords of `runyard.run` become arguments as the script declares its options; slips are told."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy
import pytest

import runyard
from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.native import submitting
from runyard.native.arguments import argument_words
from runyard.native.script_options import ScriptOptions, read_options

ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("positional", nargs="*")
parser.add_argument("-l", "--learning-rate", type=float)
parser.add_argument("--batch_size", type=int)
parser.add_argument("--layers", nargs="+", type=int)
parser.add_argument("--tag", action="append")
parser.add_argument("--fast", action="store_true")
parser.add_argument("-v", action="count")
parser.add_argument("--cache", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--shuffle", type=bool, default=True)
parser.add_argument("--text")
parser.add_argument("--name")
print(vars(parser.parse_args()))
"""


class Color(Enum):
    RED = "red"


def words_of(tmp_path: Path, script: str, **parameters: Any) -> tuple[list[str], list[str]]:
    """Return the words, and what was told."""
    (tmp_path / "train.py").write_text(script)
    notes: list[str] = []
    return argument_words(parameters, read_options(str(tmp_path / "train.py")), notes.append), notes


def parsed(tmp_path: Path, script: str, **parameters: Any) -> dict[str, Any]:
    """Return what the script itself reads from the words."""
    words, _ = words_of(tmp_path, script, **parameters)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "train.py"), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = eval(done.stdout)
    return {key: value for key, value in found.items() if value is not None}


def test_a_script_with_argparse_reads_what_was_given(tmp_path: Path) -> None:
    found = parsed(
        tmp_path,
        ARGPARSE,
        learning_rate=-1e-3,
        batch_size=numpy.int64(8),
        layers=[64, 32],
        tag=["a", "b"],
        fast=True,
        v=2,
        cache=False,
        shuffle=False,
        text="-x $HOME 'y'",
    )

    assert found == {
        "positional": [],
        "learning_rate": -1e-3,
        "batch_size": 8,
        "layers": [64, 32],
        "tag": ["a", "b"],
        "fast": True,
        "v": 2,
        "cache": False,
        "shuffle": False,
        "text": "-x $HOME 'y'",
    }


def test_the_long_form_of_an_option_is_used(tmp_path: Path) -> None:
    assert words_of(tmp_path, ARGPARSE, l=0.1)[0] == ["--learning-rate", "0.1"]


def test_a_flag_takes_no_value(tmp_path: Path) -> None:
    assert words_of(tmp_path, ARGPARSE, fast=False) == ([], [])
    with pytest.raises(InvalidArgument, match="is a flag, which takes no value"):
        words_of(tmp_path, ARGPARSE, fast="yes")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.1, ["--x", "0.1"]),
        ("a b", ["--x", "a b"]),
        (True, ["--x"]),
        (None, []),
        ((1, 2), ["--x", "1", "2"]),
        (numpy.array([1, 2]), ["--x", "1", "2"]),
        (numpy.float64(0.5), ["--x", "0.5"]),
        (numpy.bool_(True), ["--x"]),
        ({"b", "a"}, ["--x", "a", "b"]),
        ({"a": [1, None]}, ["--x", '{"a": [1, null]}']),
        (Path("data/x.csv"), ["--x", "data/x.csv"]),
        (-2, ["--x=-2"]),
        (Decimal("1.50"), ["--x", "1.50"]),
        (date(2026, 1, 2), ["--x", "2026-01-02"]),
        (Color.RED, ["--x", "red"]),
    ],
    ids=lambda found: type(found).__name__,
)
def test_options_that_the_script_does_not_name(value: Any, words: list[str]) -> None:
    notes: list[str] = []

    assert argument_words({"x": value}, ScriptOptions({}), notes.append) == words
    assert notes == []


def test_a_false_that_adds_nothing_is_told() -> None:
    notes: list[str] = []

    assert argument_words({"x": False}, ScriptOptions({}), notes.append) == []
    assert notes == ["`x=False` adds no argument. parameters={'x': 'False'} passes `--x False`."]


def test_what_no_command_line_carries_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="`x` is a object, which no command line can carry"):
        argument_words({"x": object()}, ScriptOptions({}), print)


CLICK = """
import click
@click.command()
@click.option("--learning-rate", type=float)
@click.option("--cache/--no-cache", default=True)
@click.option("--verbose", is_flag=True)
@click.option("--tag", multiple=True)
def main(**_): ...
"""


@pytest.mark.parametrize(
    ("script", "parameters", "words"),
    [
        (CLICK, {"learning_rate": 0.1}, ["--learning-rate", "0.1"]),
        (CLICK, {"cache": False}, ["--no-cache"]),
        (CLICK, {"cache": True, "verbose": True}, ["--cache", "--verbose"]),
        (CLICK, {"tag": ["a", "b"]}, ["--tag", "a", "--tag", "b"]),
        ("import typer", {"batch_size": 8, "cache": False}, ["--batch-size", "8", "--no-cache"]),
        ("from absl import flags\nflags.DEFINE_bool('cache', True, '')", {"cache": False}, ["--nocache"]),
        ("import hydra", {"lr": 0.1, "x": None, "on": True}, ["lr=0.1", "x=null", "on=true"]),
        ("import hydra", {"l": [1, 2], "s": "a b"}, ["l=[1,2]", "s='a b'"]),
        ("this is no Python", {"batch_size": 8}, ["--batch_size", "8"]),
    ],
)
def test_other_ways_to_read_arguments(tmp_path: Path, script: str, parameters: Any, words: list[str]) -> None:
    assert words_of(tmp_path, script, **parameters)[0] == words


@pytest.mark.parametrize(
    ("keyword", "meant"),
    [
        ("enviroment", "environment"),
        ("expirement", "experiment"),
        ("gpu", "gpus"),
        ("node", "nodes"),
        ("traget", "target"),
        ("tag", "tags"),
        ("compute_target", "target"),
        ("env_vars", "variables"),
        ("timeout", "time_limit"),
    ],
)
def test_a_misspelt_setting_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyword: str, meant: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("pass")

    with pytest.raises(InvalidArgument, match=f"no setting `{keyword}`. Did you mean `{meant}`") as raised:
        runyard.run("train.py", **{keyword: 1})
    assert f"parameters={{'{keyword}': …}}" in raised.value.hint


def test_a_word_of_the_script_is_no_slip_and_common_words_are_none() -> None:
    known = read_options(__file__).known
    assert "tag" not in known
    submitting._check_slips({"gpu": 1}, ScriptOptions({"gpu": read_options.__class__}))  # type: ignore[dict-item]
    for word in ("model", "epochs", "lr", "mode", "num_workers", "workers", "seed", "data", "batch_size", "keep_prob"):
        submitting._check_slips({word: 1}, ScriptOptions({}))


def test_mistakes_of_a_call_are_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("pass")

    with pytest.raises(SubmitRejected, match=r"There is no script `trian\.py`"):
        runyard.run("trian.py")
    with pytest.raises(InvalidArgument, match=r"There is no script `python train\.py`") as raised:
        runyard.run("python train.py")
    assert "run(['python', 'train.py'])" in raised.value.hint
    with pytest.raises(InvalidArgument, match="not the function `print`"):
        runyard.run(print)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="Both script and command"):
        runyard.run(["ls"], command="ls")
    with pytest.raises(InvalidArgument, match="given twice"):
        runyard.run("train.py", lr=1, parameters={"lr": 2})
    with pytest.raises(InvalidArgument, match="are the same setting"):
        runyard.run("train.py", name="a", display_name="b")
    with pytest.raises(InvalidArgument, match="`time_limit` is 'soon'"):
        runyard.run("train.py", time_limit="soon")
    with pytest.raises(SubmitRejected, match="nothing to run"):
        runyard.run()


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, None), (90, 90), (0.5, 1), ("10m", 600), ("2h", 7200), (timedelta(days=1), 86400)]
)
def test_time_limits(given: Any, seconds: int | None) -> None:
    assert submitting._seconds(given) == seconds
