"""Commands and groups of commands, and the decorators that make them of functions."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar

from runyard.cli.exit_codes import USAGE
from runyard.cli.parsing.context import Context, UsageError
from runyard.cli.parsing.parameters import Argument, Option, Parameter
from runyard.cli.parsing.terminal import echo
from runyard.cli.parsing.tokens import sort_tokens

Function = TypeVar("Function", bound=Callable[..., Any])
Lazy = Mapping[str, Tuple[str, str]]
LINES_AS_JSON = "lines_as_json"


class CliCommand:
    """A function that is called with the values of its options and arguments; its docstring is the help text.

    Args:
        short_help: the line in the list of commands; by default the first sentence of the help text.
        interspersed: options may follow arguments. Otherwise all after the first argument is arguments.
        plain: why the command has no `--json`. A command without a `--json` of its own gets one that prints its lines.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        short_help: str = "",
        interspersed: bool = True,
        plain: str = "",
    ) -> None:
        self.name = name
        self.help = function.__doc__ or ""
        self.interspersed = interspersed
        self._function = function
        self._short_help = short_help
        self.plain = plain
        own: List[Parameter] = [*reversed(getattr(function, "cli_parameters", ()))]
        has_json = any(isinstance(param, Option) and "--json" in param.opts for param in own)
        self.params: List[Parameter] = [*own, *([] if has_json or plain else [_json_option()]), _help_option()]

    @property
    def options(self) -> List[Option]:
        return [param for param in self.params if isinstance(param, Option)]

    @property
    def arguments(self) -> List[Argument]:
        return [param for param in self.params if isinstance(param, Argument)]

    @property
    def short_help(self) -> str:
        first = " ".join(self.help.strip().partition("\n\n")[0].split())
        sentence, end, _ = first.partition(". ")
        return self._short_help or sentence + end.strip()

    def usage(self) -> str:
        """Return what follows the command's name in its usage line."""
        return " ".join(["[OPTIONS]", *(argument.title for argument in self.arguments)])

    def run(self, ctx: Context, tokens: Sequence[str]) -> Any:
        """Parse the tokens, call the function and return its answer.

        Raises:
            UsageError: the tokens are wrong.
            ExitWith: the command ends with a code of its own.
        """
        with ctx:
            arguments, values = self._parse(ctx, tokens)
            return self._call(ctx, arguments, values)

    def _parse(self, ctx: Context, tokens: Sequence[str]) -> Tuple[List[str], Dict[Option, List[Any]]]:
        found = sort_tokens(self.options, tokens, interspersed=self.interspersed)
        for option, _ in found.given:
            if option.action is not None:
                option.action(ctx)
                ctx.exit()
        if found.fault:
            raise UsageError(found.fault, ctx)
        ctx.is_behind_dashes = found.is_behind_dashes
        values: Dict[Option, List[Any]] = {}
        for option, value in found.given:
            values.setdefault(option, []).append(value)
        return found.arguments, values

    def _call(self, ctx: Context, arguments: List[str], given: Dict[Option, List[Any]]) -> Any:
        values: Dict[str, Any] = {}
        left = list(arguments)
        for param in self.params:
            if isinstance(param, Option):
                if param.action is None and (param in given or param.name not in values):
                    values[param.name] = param.value(ctx, given.get(param, ()))
            else:
                count = len(left) if param.many else 1
                values[param.name] = param.value(ctx, left[:count])
                del left[:count]
        if left:
            many = "s" if len(left) > 1 else ""
            raise UsageError(f"Unexpected argument{many}: {' '.join(f'`{one}`' for one in left)}.", ctx)
        context = [ctx] if getattr(self._function, "cli_wants_context", False) else []
        if values.pop(LINES_AS_JSON, False):
            from runyard.cli.parsing.kept_lines import with_lines_as_json  # few calls want it

            return with_lines_as_json(lambda: self._function(*context, **values))
        return self._function(*context, **values)


class CommandGroup(CliCommand):
    """Commands below a name. `lazy` ones are `name → (module:attribute, line of help)`, imported when they are called.

    `aliases` are other names for commands; help texts show them in one line. The group's function is never called: it
    has the name and the help text.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        short_help: str = "",
        lazy: Optional[Lazy] = None,
        aliases: Optional[Mapping[str, str]] = None,
    ) -> None:
        super().__init__(name, function, short_help=short_help, interspersed=False, plain="its commands have one")
        self._lazy = dict(lazy or {})
        self._commands: Dict[str, CliCommand] = {}
        self.aliases = dict(aliases or {})

    def command(self, name: str = "", **settings: Any) -> Callable[[Callable[..., Any]], CliCommand]:
        """Make a command of a function and add it to this group."""

        def add(function: Callable[..., Any]) -> CliCommand:
            made = command(name, **settings)(function)
            self._commands[made.name] = made
            return made

        return add

    def list_commands(self) -> List[str]:
        return [*self._lazy, *self._commands]

    def get_command(self, name: str) -> CliCommand:
        if name not in self._lazy:
            return self._commands[name]
        module, _, attribute = self._lazy[name][0].partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, CliCommand)
        return found

    def short_help_of(self, name: str) -> str:
        """Return a command's line of help; no module is loaded for it."""
        return self._lazy[name][1] if name in self._lazy else self._commands[name].short_help

    def usage(self) -> str:
        return "[OPTIONS] COMMAND [ARGS]..."

    def run(self, ctx: Context, tokens: Sequence[str]) -> Any:
        with ctx:
            rest, _ = self._parse(ctx, tokens)
            if not rest:
                _print_help(ctx, err=True)
                ctx.exit(USAGE)
            name = self.aliases.get(rest[0], rest[0])
            if name not in self.list_commands():
                raise UsageError(f"There is no command `{ctx.command_path} {name}`.{self._advice(ctx, name)}", ctx)
            found = self.get_command(name)
            return found.run(Context(found, name, ctx), rest[1:])

    def _advice(self, ctx: Context, name: str) -> str:
        import difflib  # only a mistake needs it

        names = self.list_commands()
        near = difflib.get_close_matches(name, [*names, *self.aliases], n=1)
        if near:
            return f" Did you mean `{ctx.command_path} {near[0]}`?"
        return f" There are: {', '.join(names)}."


def command(
    name: str = "", *, cls: Type[CliCommand] = CliCommand, **settings: Any
) -> Callable[[Callable[..., Any]], CliCommand]:
    """Make a command of a function, by the function's name unless another is given."""
    return lambda function: cls(name or function.__name__.replace("_", "-"), function, **settings)


def group(
    name: str = "", *, lazy: Optional[Lazy] = None, short_help: str = "", aliases: Optional[Mapping[str, str]] = None
) -> Callable[[Callable[..., Any]], CommandGroup]:
    return lambda function: CommandGroup(
        name or function.__name__.replace("_", "-"), function, lazy=lazy, short_help=short_help, aliases=aliases
    )


def option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Give a command an option; see `Option`. Help texts show options in the order of these lines."""
    return lambda function: _with_parameter(function, Option(*names, **settings))


def argument(name: str, **settings: Any) -> Callable[[Function], Function]:
    """Give a command an argument; see `Argument`. They are read in the order of these lines."""
    return lambda function: _with_parameter(function, Argument(name, **settings))


def version_option(text: str) -> Callable[[Function], Function]:
    """Give a command `--version`, which prints the text."""
    return option("--version", is_flag=True, help="Show the version and exit.", action=lambda _: echo(text))


def pass_context(function: Function) -> Function:
    """Have the command's function called with its `Context` first."""
    function.cli_wants_context = True  # type: ignore[attr-defined]  # functions take attributes
    return function


def _with_parameter(function: Function, param: Parameter) -> Function:
    found: List[Parameter] = getattr(function, "cli_parameters", [])
    function.cli_parameters = [*found, param]  # type: ignore[attr-defined]  # functions take attributes
    return function


def _help_option() -> Option:
    return Option("-h", "--help", is_flag=True, help="Show this message and exit.", action=_print_help)


def _json_option() -> Option:
    return Option("--json", LINES_AS_JSON, is_flag=True, help="Print the output as JSON.")


def _print_help(ctx: Context, *, err: bool = False) -> None:
    from runyard.cli.parsing.help import format_help, terminal_width  # most calls never need it

    echo(format_help(ctx, terminal_width()), err=err)
