"""Help texts, laid out for the width of the terminal. Loads when a help text is asked for."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import Iterator, List, Sequence, Tuple

from runyard.cli.parsing.commands import CommandGroup
from runyard.cli.parsing.context import Context
from runyard.cli.parsing.parameters import Option
from runyard.cli.parsing.types import Choice

NARROWEST, WIDEST = 40, 100
WIDEST_TERM = 30  # a longer one has its explanation in the next line
UNBROKEN = "\xa0"  # a space that no line ends at
VERBATIM = "\b"  # a line of its own before a paragraph whose line breaks are meant


def terminal_width() -> int:
    return max(min(shutil.get_terminal_size().columns - 1, WIDEST), NARROWEST)


def format_help(ctx: Context, width: int) -> str:
    """Return usage, explanation, options and commands, no line longer than `width` where words allow it."""
    command = ctx.command
    parts = [_usage(f"Usage: {ctx.command_path} ", command.usage(), width)]
    parts += list(_paragraphs(command.help, width))
    parts.append("Options:\n" + _table([(_spelled(one), _explained(one)) for one in command.options], width))
    if isinstance(command, CommandGroup):
        rows = [(name, command.short_help_of(name)) for name in command.list_commands()]
        parts.append("Commands:\n" + _table(rows, width))
        also = ", ".join(f"{alias} ({name})" for alias, name in command.aliases.items())
        if also:
            parts.append("\n".join(_wrapped(f"Other names: {also}.", width, indent=0)))
    return "\n\n".join(parts).replace(UNBROKEN, " ")


def _usage(start: str, rest: str, width: int) -> str:
    return textwrap.fill(
        rest,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _paragraphs(text: str, width: int) -> Iterator[str]:
    first, _, rest = text.strip("\n").partition("\n")
    for paragraph in re.split(r"\n\s*\n", f"{first.strip()}\n{textwrap.dedent(rest)}".strip()):
        start, _, lines = paragraph.partition("\n")
        if start.strip(" ") == VERBATIM:
            yield textwrap.indent(lines.rstrip(), "  ")
        elif paragraph:
            yield "\n".join(_wrapped(" ".join(paragraph.split()), width, indent=2))


def _table(rows: Sequence[Tuple[str, str]], width: int) -> str:
    """Return terms and their explanations in two columns."""
    column = max((len(term) for term, _ in rows if len(term) <= WIDEST_TERM), default=WIDEST_TERM) + 4
    lines: List[str] = []
    for term, text in rows:
        explained = _wrapped(text, width, indent=column)
        if len(term) + 4 <= column and explained:
            explained[0] = f"  {term}".ljust(column) + explained[0].lstrip()
        else:
            lines.append(f"  {term}")
        lines += explained
    return "\n".join(lines)


def _wrapped(text: str, width: int, *, indent: int) -> List[str]:
    space = " " * indent
    return textwrap.wrap(
        text,
        max(width, indent + 20),
        initial_indent=space,
        subsequent_indent=space,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _spelled(option: Option) -> str:
    """Return the spellings, short ones first, and the value: `-n, --limit N`, `--desc / --asc`."""
    on, off = (", ".join(sorted(names, key=_dashes)) for names in (option.opts, option.secondary_opts))
    if not option.takes_value:
        return f"{on} / {off}" if off else on
    value = f"[{option.type.name}]" if isinstance(option.type, Choice) else option.type.name.upper()
    return f"{on} {option.metavar or value}"


def _dashes(name: str) -> int:
    return len(name) - len(name.lstrip("-"))


def _explained(option: Option) -> str:
    facts = [f"default: {option.default}"] if option.show_default else []
    facts += [option.type.limits()] if option.type.limits() else []
    facts += ["required"] if option.required else []
    together = f"[{'; '.join(facts)}]".replace(" ", UNBROKEN) if facts else ""
    return "  ".join(filter(None, [option.help, together]))
