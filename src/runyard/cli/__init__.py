"""The command `runyard`: parse, call, print. One module per noun, loaded when it is called.

Command modules get from here what makes a command: `from runyard import cli`, then `@cli.command()` and so on.
"""

from __future__ import annotations

from typing import NoReturn, Optional, Sequence

from runyard import PackageFolders
from runyard.cli.parsing.commands import (
    CliCommand,
    CommandGroup,
    argument,
    command,
    group,
    option,
    pass_context,
    version_option,
)
from runyard.cli.parsing.context import Abort, BadParameter, Context, ExitWith, UsageError
from runyard.cli.parsing.parameters import Argument, Callback, Complete, CompletionItem, Option, Parameter
from runyard.cli.parsing.terminal import confirm, echo, prompt
from runyard.cli.parsing.types import UNPROCESSED, Choice, IntRange, ParamType, Path

__all__ = [
    "UNPROCESSED",
    "Abort",
    "Argument",
    "BadParameter",
    "Callback",
    "Choice",
    "CliCommand",
    "CommandGroup",
    "Complete",
    "CompletionItem",
    "Context",
    "ExitWith",
    "IntRange",
    "Option",
    "ParamType",
    "Parameter",
    "Path",
    "UsageError",
    "argument",
    "command",
    "confirm",
    "echo",
    "group",
    "main",
    "option",
    "pass_context",
    "prompt",
    "version_option",
]

__path__ = PackageFolders(__path__, __name__)  # the commands are in a wheel's archive


def main(arguments: Optional[Sequence[str]] = None) -> NoReturn:
    """Run the command line and leave with its exit code (docs/reference/cli.md lists them)."""
    from runyard.cli.app import run  # the app is made of what stands above

    raise SystemExit(run(arguments))
