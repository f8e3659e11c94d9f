"""The command `runyard`: parse, call, print. One module per noun, loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code (docs/reference/cli.md lists them)."""
    try:
        from runyard.cli.app import run  # click costs 20 ms that `import runyard.cli` need not
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        raise SystemExit(
            "error: The command line needs the package `click`.\n"
            "This Python holds only the client part of Runyard.\n\n"
            "hint: `pip install runyard` here, without --no-deps."
        ) from None
    raise SystemExit(run(arguments))
