"""`runyard help` and `runyard version`, for fingers that try them."""

from __future__ import annotations

from runyard import __version__, cli


@cli.command("help", plain="it is for people")
@cli.argument("words", metavar="[COMMAND...]", nargs=-1)
def show_help(words: tuple[str, ...]) -> None:
    """Explain COMMAND, such as `runs list`; without one, list all commands."""
    from runyard.cli.app import root  # which has this command

    root.run(cli.Context(root, root.name), [*words, "--help"])


@cli.command(plain="it prints one line")
def version() -> None:
    """Show the version."""
    cli.echo(f"runyard {__version__}")
