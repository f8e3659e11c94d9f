"""The command-line layer itself: what a command gets for what was typed, and what a wrong line is told."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard import cli
from runyard.cli.app import root
from runyard.cli.parsing.help import format_help


@cli.command(interspersed=False)
@cli.option("--before", is_flag=True)
@cli.argument("script")
@cli.argument("arguments", nargs=-1, type=cli.UNPROCESSED, metavar="[-- ARGUMENTS...]")
def launch(before: bool, script: str, arguments: tuple[str, ...]) -> object:
    """Launch a script."""
    return before, script, arguments


@cli.group("tool")
@cli.version_option("tool 1.2")
def tool() -> None:
    """Do things.

    One more paragraph.
    """


def even(ctx: cli.Context, param: cli.Parameter, value: int | None) -> int | None:
    if value is not None and value % 2:
        raise cli.BadParameter(f"{value} is odd.", ctx, param)
    return value


def near_words(ctx: cli.Context, param: cli.Parameter, incomplete: str) -> list[cli.CompletionItem]:
    return [
        cli.CompletionItem(word, "a word") for word in ("apple:1", "apricot", "plum") if word.startswith(incomplete)
    ]


@tool.command("do", short_help="Do it.")
@cli.argument("what", shell_complete=near_words)
@cli.argument("more", nargs=-1)
@cli.option("--count", "-n", type=cli.IntRange(1, 9), default=2, show_default=True, help="How often.")
@cli.option("--even", callback=even, type=int, help="An even number.")
@cli.option("--ratio", type=float, required=False)
@cli.option("--colour", type=cli.Choice(["red", "green"]), default="red", help="Its colour.")
@cli.option("--tag", "-t", "tags", multiple=True, metavar="K=V", shell_complete=near_words)
@cli.option("--loud", "-l", is_flag=True)
@cli.option("--quick", "-q", is_flag=True)
@cli.option("--up/--down", default=None)
@cli.option("--all", "view", flag_value="All")
@cli.option("--old", "view", flag_value="Old")
@cli.option("--file", type=cli.Path(exists=True, dir_okay=False, path_type=Path))
@cli.option("--port", default=80)
def do(**values: object) -> object:
    """Do WHAT. Then more."""
    return values


@tool.command()
@cli.option("--name", required=True)
@cli.pass_context
def leave(ctx: cli.Context, name: str) -> None:
    """Leave."""
    if name == "wrong":
        raise cli.UsageError("No such name.")
    ctx.exit(7)


DEFAULTS = {
    "what": "x", "more": (), "count": 2, "even": None, "ratio": None, "colour": "red", "tags": (), "loud": False,
    "quick": False, "up": None, "view": None, "file": None, "port": 80,
}  # fmt: skip


def run(*tokens: str) -> object:
    return tool.run(cli.Context(tool, tool.name), tokens)


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x", {}),
        ("x y z", {"more": ("y", "z")}),
        ("--count 3 x", {"count": 3}),
        ("x --count=3", {"count": 3}),
        ("x -n3", {"count": 3}),
        ("x -n=3", {"count": 3}),
        ("x -n 3 -n 4", {"count": 4}),
        ("x -lqn 3", {"loud": True, "quick": True, "count": 3}),
        ("x -lqn3", {"loud": True, "quick": True, "count": 3}),
        ("x -t a=b --tag=c=d --tag=", {"tags": ("a=b", "c=d", "")}),
        ("x --even -4 --ratio -.5", {"even": -4, "ratio": -0.5}),
        ("x --up", {"up": True}),
        ("x --up --down", {"up": False}),
        ("x --old", {"view": "Old"}),
        ("x --all", {"view": "All"}),
        ("x --colour green", {"colour": "green"}),
        ("x --port 8080", {"port": 8080}),
        ("--loud -- x --loud -- -n", {"loud": True, "more": ("--loud", "--", "-n")}),
        ("x -", {"more": ("-",)}),
        ("x -t --loud", {"tags": ("--loud",)}),
    ],
)
def test_a_command_gets_the_values_of_its_line(line: str, changed: dict[str, object]) -> None:
    assert run("do", *line.split()) == {**DEFAULTS, **changed}


def test_an_empty_word_is_an_argument_and_a_value() -> None:
    assert run("do", "", "-t", "") == {**DEFAULTS, "what": "", "tags": ("",)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("do", "The argument `WHAT` is missing."),
        ("do x --count", "The option `--count` needs a value."),
        ("do x -n", "The option `-n` needs a value."),
        ("do x --count 0", "Invalid value for `--count`: 0 is not in the range 1<=x<=9."),
        ("do x --count=10", "Invalid value for `--count`: 10 is not in the range 1<=x<=9."),
        ("do x --count many", "Invalid value for `--count`: 'many' is no whole number."),
        ("do x --ratio many", "Invalid value for `--ratio`: 'many' is no number."),
        ("do x --port many", "Invalid value for `--port`: 'many' is no whole number."),
        ("do x --even 3", "Invalid value for `--even`: 3 is odd."),
        ("do x --colour blue", "Invalid value for `--colour`: 'blue' is none of red, green."),
        ("do x --file /nowhere", "Invalid value for `--file`: There is no file '/nowhere'."),
        ("do x --file /", "Invalid value for `--file`: '/' is a folder."),
        ("do x --loud=yes", "The option `--loud` takes no value."),
        ("do x -l=yes", "The option `-l` takes no value."),
        ("do x --cuont 3", "There is no option `--cuont`. Did you mean `--count`?"),
        ("do x --co 3", "There is no option `--co`. Did you mean `--count` or `--colour`?"),
        ("do x --zzzzzz", "There is no option `--zzzzzz`."),
        ("do x -lx", "There is no option `-x`."),
        ("leave", "The option `--name` is missing."),
        ("leave --name a b", "Unexpected argument: `b`."),
        ("leave --name a b c", "Unexpected arguments: `b` `c`."),
        ("leave --name wrong", "No such name."),
    ],
)
def test_a_wrong_line_is_told_what_is_wrong_and_whose_help_to_read(line: str, message: str) -> None:
    with pytest.raises(cli.UsageError) as caught:
        run(*line.split())

    assert caught.value.format_message() == message
    assert caught.value.ctx is not None
    assert caught.value.ctx.command_path == f"tool {line.split()[0]}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("laeve", "There is no command `tool laeve`. Did you mean `tool leave`?"),
        ("zzz", "There is no command `tool zzz`. There are: do, leave."),
        ("--verison", "There is no option `--verison`. Did you mean `--version`?"),
    ],
)
def test_a_wrong_command_is_told_the_right_ones(line: str, message: str) -> None:
    with pytest.raises(cli.UsageError) as caught:
        run(*line.split())

    assert caught.value.format_message() == message
    assert caught.value.ctx is not None and caught.value.ctx.command_path == "tool"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a.py", (False, "a.py", ())),
        ("--before a.py", (True, "a.py", ())),
        ("a.py --before -x", (False, "a.py", ("--before", "-x"))),
        ("a.py -- --before", (False, "a.py", ("--", "--before"))),
        ("-- --a.py x", (False, "--a.py", ("x",))),
        ("a.py --help", (False, "a.py", ("--help",))),
    ],
)
def test_all_behind_the_first_argument_is_untouched_where_a_command_says_so(line: str, expected: object) -> None:
    assert launch.run(cli.Context(launch, "launch"), line.split()) == expected


def test_a_command_leaves_with_its_own_code() -> None:
    with pytest.raises(cli.ExitWith) as caught:
        run("leave", "--name", "a")

    assert caught.value.code == 7


@pytest.mark.parametrize(
    ("line", "code", "out"),
    [
        ("--version", 0, "tool 1.2"),
        ("do --help", 0, "Usage: tool do [OPTIONS] WHAT [MORE...]"),
        ("do x --cuont 3 -h", 0, "Usage: tool do [OPTIONS] WHAT [MORE...]"),
        ("leave --help --name", 0, "Usage: tool leave [OPTIONS]"),
    ],
)
def test_help_and_version_come_before_any_fault(
    capsys: pytest.CaptureFixture[str], line: str, code: int, out: str
) -> None:
    with pytest.raises(cli.ExitWith) as caught:
        run(*line.split())

    assert (caught.value.code, capsys.readouterr().out.splitlines()[0]) == (code, out)


def test_a_group_alone_shows_its_help_as_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(cli.ExitWith) as caught:
        run()

    said = capsys.readouterr()
    assert (caught.value.code, said.out) == (2, "")
    assert said.err.startswith("Usage: tool [OPTIONS] COMMAND [ARGS]...\n")


def test_a_group_lists_its_commands_and_loads_none(capsys: pytest.CaptureFixture[str]) -> None:
    @cli.group("top", lazy={"far": ("no.such.module:far", "Far away.")})
    def top() -> None:
        """At the top."""

    top.command("near")(lambda: None)

    assert format_help(cli.Context(top, "top"), 60) == (
        "Usage: top [OPTIONS] COMMAND [ARGS]...\n\n  At the top.\n\nOptions:\n  -h, --help  Show this message and exit."
        "\n\nCommands:\n  far   Far away.\n  near"
    )
    with pytest.raises(ModuleNotFoundError):
        top.run(cli.Context(top, "top"), ["far"])


HELP = """\
Usage: tool do [OPTIONS] WHAT [MORE...]

  Do WHAT. Then more.

Options:
  -n, --count INTEGER   How often.
                        [default: 2; 1<=x<=9]
  --even INTEGER        An even number.
  --ratio FLOAT
  --colour [red|green]  Its colour.
  -t, --tag K=V
  -l, --loud
  -q, --quick
  --up / --down
  --all
  --old
  --file FILE
  --port INTEGER
  --json                Print the output as
                        JSON.
  -h, --help            Show this message and
                        exit."""


def test_help_fits_the_width() -> None:
    assert format_help(cli.Context(do, "do", cli.Context(tool, "tool")), 46) == HELP


@pytest.mark.parametrize(
    ("columns", "widest"), [pytest.param("60", 59, id="narrow"), pytest.param("300", 100, id="wide")]
)
def test_help_of_the_program_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, widest: int
) -> None:
    from runyard.cli.app import root

    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(cli.ExitWith):
        root.run(cli.Context(root, root.name), ["compute", "update", "--help"])

    lines = capsys.readouterr().out.splitlines()
    assert widest - 15 < max(map(len, lines)) <= widest


def test_a_short_help_is_the_first_sentence() -> None:
    assert (launch.short_help, do.short_help, tool.short_help) == ("Launch a script.", "Do it.", "Do things.")


def asked(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


@pytest.mark.parametrize(("text", "expected"), [("y\n", True), ("YES\n", True), ("\n", False), ("maybe\nn\n", False)])
def test_confirm_asks_until_it_is_yes_or_no(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, expected: bool
) -> None:
    asked(monkeypatch, text)

    assert cli.confirm("Sure?", err=True) is expected
    assert capsys.readouterr().err.startswith("Sure? [y/N]: ")


@pytest.mark.parametrize("text", ["n\n", "\n", ""])
def test_confirm_aborts_without_a_yes(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    asked(monkeypatch, text)

    with pytest.raises(cli.Abort):
        cli.confirm("Sure?", abort=True)


def test_prompt_asks_until_both_answers_are_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(monkeypatch, "\none\ntwo\nthree\nthree\n")

    assert cli.prompt("Value", confirmation_prompt=True) == "three"
    assert capsys.readouterr().out == "Value: Value: Value, once more: The two are not the same. Try again.\n" + (
        "Value: Value, once more: "
    )


def test_echo_takes_anything_and_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    cli.echo(Path("a"))
    cli.echo()
    cli.echo("b", err=True)

    assert capsys.readouterr() == ("a\n\n", "b\n")


def every_command(ctx: cli.Context) -> Iterator[cli.Context]:
    if isinstance(ctx.command, cli.CommandGroup):
        for name in ctx.command.list_commands():
            yield from every_command(cli.Context(ctx.command.get_command(name), name, ctx))
    else:
        yield ctx


def test_a_short_option_means_the_same_in_every_command() -> None:
    meanings: dict[str, set[str]] = {}
    for ctx in every_command(cli.Context(root, root.name)):
        for option in ctx.command.options:
            long = next((one for one in option.opts if one.startswith("--")), "")
            for short in (one for one in option.opts if not one.startswith("--")):
                meanings.setdefault(short, set()).add(long)

    assert meanings.pop("-n") == {"--limit", "--tail"}  # both say how many
    assert {short: names for short, names in meanings.items() if len(names) > 1} == {}
    assert meanings["-e"] == {"--env-var"} and meanings["-d"] == {"--detach"}


def test_every_command_has_json_or_says_why_not() -> None:
    found = {
        ctx.command_path: (ctx.command.plain, any("--json" in option.opts for option in ctx.command.options))
        for ctx in every_command(cli.Context(root, root.name))
    }

    assert len(found) > 90
    assert {path for path, (reason, has_json) in found.items() if bool(reason) == has_json} == set()
    assert sorted({path for path, (reason, _) in found.items() if reason}) == [
        "runyard completion",
        "runyard help",
        "runyard logs",
        "runyard mcp",
        "runyard runs logs",
        "runyard runs open",
        "runyard runs watch",
        "runyard services logs",
        "runyard studio",
        "runyard tensorboard",
        "runyard version",
    ]


def test_a_command_without_json_of_its_own_prints_its_lines_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    @cli.command()
    @cli.option("--code", type=cli.IntRange(0), default=0)
    @cli.pass_context
    def speak(ctx: cli.Context, code: int) -> None:
        """Say two lines."""
        cli.echo("one")
        cli.echo("to people", err=True)
        cli.echo("two")
        if code:
            ctx.exit(code)

    speak.run(cli.Context(speak, "speak"), ["--json"])
    assert json.loads(capsys.readouterr().out) == {"output": ["one", "two"]}
    with pytest.raises(cli.ExitWith):
        speak.run(cli.Context(speak, "speak"), ["--json", "--code", "3"])
    assert json.loads(capsys.readouterr().out) == {"output": ["one", "two"]}
