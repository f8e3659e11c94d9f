"""Talk with the person at the terminal."""

from __future__ import annotations

import sys

from runyard.cli.parsing.context import Abort


def echo(message: object = "", *, err: bool = False) -> None:
    """Print a line at once: results to stdout, talk to stderr."""
    print(message, file=sys.stderr if err else sys.stdout, flush=True)


def confirm(question: str, *, abort: bool = False, err: bool = False) -> bool:
    """Ask until the answer is yes or no; no answer is no.

    Raises:
        Abort: the answer is no and `abort` is set, or nobody can answer.
    """
    while True:
        answer = _read_line(f"{question} [y/N]: ", err=err).strip().lower()
        if answer in ("y", "yes"):
            return True
        if answer in ("", "n", "no"):
            if abort:
                raise Abort
            return False
        echo("Please answer y or n.", err=err)


def prompt(what: str, *, hide_input: bool = False, confirmation_prompt: bool = False, err: bool = False) -> str:
    """Ask until there is an answer, with `confirmation_prompt` the same one twice; `hide_input` does not show it.

    Raises:
        Abort: nobody can answer.
    """
    read = _read_hidden if hide_input else _read_line
    while True:
        answer = read(f"{what}: ", err=err)
        if answer and (not confirmation_prompt or answer == read(f"{what}, once more: ", err=err)):
            return answer
        if answer:
            echo("The two are not the same. Try again.", err=err)


def _read_line(question: str, *, err: bool) -> str:
    stream = sys.stderr if err or getattr(sys.stdout, "is_kept", False) else sys.stdout
    stream.write(question)
    stream.flush()
    try:
        line = sys.stdin.readline() if sys.stdin else ""
    except KeyboardInterrupt:
        line = ""
    if not line:
        echo(err=err)  # what comes next begins a line
        raise Abort
    return line.rstrip("\r\n")


def _read_hidden(question: str, *, err: bool) -> str:
    from getpass import getpass  # only secrets need it

    try:
        return getpass(question, stream=sys.stderr if err else sys.stdout)
    except (EOFError, KeyboardInterrupt):
        echo(err=err)
        raise Abort from None
