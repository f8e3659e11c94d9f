"""Write the generated pages of docs, and the listings in others; `--check` only compares and fails when they differ."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import azureml_names
import azureml_uses
import http_api
import mlflow_conformance
import rights_table
import trust_page

from runyard import cli
from runyard.cli.app import root
from runyard.cli.parsing.help import format_help

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/reference"
LISTING = re.compile(r"^(<!-- (examples/\S+) -->\n```\w+\n).*?^```$", re.MULTILINE | re.DOTALL)

INTRODUCTION = """\
# Command line

Written by `make docs` from the commands' own help.

Results go to stdout, talk and errors to stderr; work that takes over a second says there how far it is. `--json` on a
reading command prints the records that the HTTP API gives; on others, the lines that they print. An error is then an
object `{"error": {"code", "message", "why", "hint"}}`. On a terminal, bytes in names and logs that would act on it
are written out (`\\x1b`); into a pipe or file, logs go byte for byte.

## Exit codes

| code | means |
|---|---|
| 0 | done; `submit` and `logs -f`: the run completed |
| 1 | the run failed, or the command did; `doctor`: something is wrong |
| 2 | the command line was wrong |
| 3 | the run was canceled, by someone or by its time limit; `server status`: it is not running |
| 130 | Ctrl-C; a run that was being watched continues |
"""


def commands(context: cli.Context) -> Iterator[tuple[str, str]]:
    """Yield (path, help) of every command that does something."""
    command = context.command
    if isinstance(command, cli.CommandGroup):
        for name in command.list_commands():
            yield from commands(cli.Context(command.get_command(name), name, context))
    else:
        yield context.command_path, format_help(context, width=100)


def page() -> str:
    parts = [INTRODUCTION]
    for path, text in commands(cli.Context(root, root.name)):
        parts.append(f"## {path}\n\n```\n{text}\n```\n")
    return "\n".join(parts)


def with_listings(text: str) -> str:
    """Return the page with the present text of each example file below the comment that names it."""
    return LISTING.sub(lambda found: f"{found[1]}{(ROOT / found[2]).read_text()}```", text)


if __name__ == "__main__":
    if not azureml_names.is_table_current():
        if "--check" in sys.argv:
            sys.exit(f"{azureml_names.TABLE.relative_to(ROOT)} is not what the code says: run `make docs`.")
        azureml_names.write_table()
        os.execv(sys.executable, [sys.executable, *sys.argv])  # the pages are about the packages with this table
    security = FOLDER.parent / "security.md"
    pages = {
        FOLDER / "cli.md": page(),
        FOLDER / "azureml-names.md": azureml_names.page(),
        FOLDER / "azureml-coverage.md": azureml_uses.page(),
        FOLDER / "mlflow-conformance.md": mlflow_conformance.page(),
        FOLDER / "http-api.md": http_api.page(),
        FOLDER / "rights.md": rights_table.page(),
        security: rights_table.in_page(security.read_text()),
        FOLDER.parent / "trust.md": trust_page.page(),
        **{
            path: with_listings(path.read_text())
            for folder in ("extending", "tutorials")
            for path in (ROOT / "docs" / folder).glob("*.md")
        },
    }
    for path, text in pages.items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is not what the code says: run `make docs`.")
