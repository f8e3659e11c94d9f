"""`runyard completion`: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "fish", "zsh")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell: commands, options, ids of runs, names of experiments and workspaces.

    \b
      bash: add to ~/.bashrc   eval "$(runyard completion bash)"
      zsh:  add to ~/.zshrc    eval "$(runyard completion zsh)"
      fish: runyard completion fish > ~/.config/fish/completions/runyard.fish
    """
    root = ctx.find_root()
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(root.command, {}, "runyard", "_RUNYARD_COMPLETE").source())
