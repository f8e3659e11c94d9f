"""Options and arguments: how they are written, what they mean, and the value that a command gets."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from runyard.cli.parsing.context import BadParameter, Context, UsageError
from runyard.cli.parsing.types import Choice, ParamType, type_of


class CompletionItem(NamedTuple):
    value: str
    help: str = ""
    kind: str = "plain"  # "file" and "dir": the shell completes paths itself


Callback = Callable[[Context, "Parameter", Any], Any]
Complete = Callable[[Context, "Parameter", str], List[CompletionItem]]


class Parameter:
    """What options and arguments have in common.

    Args:
        name: of the command's Python parameter.
        title: what messages call it.
        many: the value is a tuple.
        callback: gets the value, or the default, and returns what the command gets.
        shell_complete: returns what completes a value.
    """

    def __init__(
        self,
        name: str,
        title: str,
        *,
        type: Any,
        default: Any,
        required: bool,
        many: bool,
        callback: Optional[Callback],
        shell_complete: Optional[Complete],
    ) -> None:
        self.name, self.title, self.default, self.required, self.many = name, title, default, required, many
        self.type: ParamType = type_of(type, default)
        self.callback, self.shell_complete = callback, shell_complete

    def value(self, ctx: Context, given: Sequence[Any]) -> Any:
        """Return the value of what was given: texts, and of flags their values; nothing stands for the default."""
        try:
            value = self._convert(given)
            return self.callback(ctx, self, value) if self.callback else value
        except BadParameter as error:
            error.ctx, error.param = ctx, error.param or self
            raise

    def _convert(self, given: Sequence[Any]) -> Any:
        if not given and self.required:
            listed = self.type.choices()
            there_are = f" There are: {', '.join(listed)}." if listed else ""
            raise UsageError(f"The {self.kind} `{self.title}` is missing.{there_are}")
        if self.many:
            return tuple(self._converted(value) for value in given)
        return self._converted(given[-1] if given else self.default)

    def _converted(self, value: Any) -> Any:
        return self.type.convert(value) if isinstance(value, str) else value

    @property
    def kind(self) -> str:
        return "option" if isinstance(self, Option) else "argument"


class Option(Parameter):
    """An option as `("--name", "-n")`, perhaps with the parameter's name, or a pair of flags as `("--on/--off",)`.

    Args:
        flag_value: an option without a value, which has this one; several options may set one parameter this way.
        action: what is done instead of the command, as for `--help`.
    """

    def __init__(
        self,
        *names: str,
        type: Any = None,
        default: Any = None,
        required: bool = False,
        multiple: bool = False,
        is_flag: bool = False,
        flag_value: Optional[str] = None,
        callback: Optional[Callback] = None,
        shell_complete: Optional[Complete] = None,
        metavar: str = "",
        help: str = "",
        show_default: bool = False,
        action: Optional[Callable[[Context], None]] = None,
    ) -> None:
        pairs = [name.partition("/")[::2] for name in names if name.startswith("-")]
        self.opts: Tuple[str, ...] = tuple(on for on, _ in pairs)
        self.secondary_opts: Tuple[str, ...] = tuple(off for _, off in pairs if off)
        self.flag_value: Any = True if is_flag or self.secondary_opts else flag_value
        first_long = next((name for name in self.opts if name.startswith("--")), self.opts[0])
        own = next((name for name in names if not name.startswith("-")), "")
        if is_flag and default is None:
            default = False
        super().__init__(
            own or first_long.lstrip("-").replace("-", "_"),
            first_long,
            type=type,
            default=default,
            required=required,
            many=multiple,
            callback=callback,
            shell_complete=shell_complete,
        )
        self.metavar, self.help, self.show_default, self.action = metavar, help, show_default, action

    @property
    def takes_value(self) -> bool:
        return self.flag_value is None


class Argument(Parameter):
    """An argument; with `nargs=-1` all that are left. `metavar` is its name in help texts, with brackets and dots."""

    def __init__(
        self,
        name: str,
        *,
        nargs: int = 1,
        type: Any = None,
        default: Any = None,
        required: Optional[bool] = None,
        metavar: str = "",
        callback: Optional[Callback] = None,
        shell_complete: Optional[Complete] = None,
    ) -> None:
        assert nargs in (1, -1)
        super().__init__(
            name,
            metavar,
            type=type,
            default=default,
            required=nargs == 1 and default is None if required is None else required,
            many=nargs == -1,
            callback=callback,
            shell_complete=shell_complete,
        )
        if not metavar:
            shown = f"{{{self.type.name}}}" if isinstance(self.type, Choice) else name.upper()
            shown += "..." if self.many else ""
            self.title = shown if self.required else f"[{shown}]"
