"""The command that runs, the commands above it, and the ways to leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, NoReturn, Optional

if TYPE_CHECKING:
    from runyard.cli.parsing.commands import CliCommand
    from runyard.cli.parsing.parameters import Parameter


class Context:
    """A command of the command line, below the one that stands before it. Entered while the command runs."""

    def __init__(self, command: CliCommand, name: str, parent: Optional[Context] = None) -> None:
        self.command = command
        self.parent = parent
        self.is_behind_dashes = False  # `--` stands before the first argument
        self.command_path: str = f"{parent.command_path} {name}" if parent else name

    def exit(self, code: int = 0) -> NoReturn:
        """Leave the command line with this exit code."""
        raise ExitWith(code)

    def __enter__(self) -> Context:
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _entered.pop()


_entered: List[Context] = []


class ExitWith(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Abort(Exception):
    """The user refused to go on, or nobody is there to answer."""


class UsageError(Exception):
    """The command line is wrong; `ctx` is the command whose help says what is right, the running one by default."""

    def __init__(self, message: str, ctx: Optional[Context] = None) -> None:
        super().__init__(message)
        self.message = message
        self.ctx = ctx or (_entered[-1] if _entered else None)

    def format_message(self) -> str:
        return self.message


class BadParameter(UsageError):
    """A value that an option or argument cannot have. The parser adds the parameter where a type does not know it."""

    def __init__(self, message: str, ctx: Optional[Context] = None, param: Optional[Parameter] = None) -> None:
        super().__init__(message, ctx)
        self.param = param

    def format_message(self) -> str:
        return f"Invalid value for `{self.param.title}`: {self.message}" if self.param else self.message
