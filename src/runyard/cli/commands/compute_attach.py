"""`runyard compute attach`: machines that somebody else runs become a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from runyard.cli.output import print_json
from runyard.cli.text import plain
from runyard.core.compute import KIND_OF_TYPE, ComputeSpec, check_compute, check_compute_name
from runyard.core.compute_options import AUTO, RAY, SLURM, SSH, SSH_PORT, read_hosts
from runyard.sdk.workspaces.workspace import Workspace

Command = TypeVar("Command", bound=Callable[..., Any])
TYPE_OF_KIND = {kind: name for name, kind in KIND_OF_TYPE.items()}
_FILES = {"private_key": "key", "known_hosts": "known_hosts"}  # options whose text is in a file of this machine


def _variables(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    for value in values:
        if "=" not in value[1:]:
            raise click.BadParameter(f"{value!r} has no name and value. Write NAME=VALUE.", ctx, param)
    return dict(value.split("=", 1) for value in values) or None


_OPTIONS = (
    click.option("--address", metavar="ADDRESS", help="ray: auto, host:6379, ray://host:10001. ssh: hostA,hostB:2222."),
    click.option("--partition", metavar="NAME", help="slurm: the partition."),
    click.option("--account", metavar="NAME", help="slurm: the account."),
    click.option("--qos", metavar="NAME", help="slurm: the quality of service."),
    click.option("--constraint", metavar="TEXT", help="slurm: features of the nodes."),
    click.option(
        "--extra", metavar="OPTION", multiple=True, help="slurm: one more option of sbatch, as --extra=--x=y."
    ),
    click.option("--mpi", metavar="NAME", help="slurm: mpirun; starts by srun come later."),
    click.option("--user", "username", metavar="NAME", help="ssh: the user there."),
    click.option(
        "--key", type=click.Path(exists=True, dir_okay=False), help="ssh: a private key; the server keeps it."
    ),
    click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="ssh: the port. [default: 22]"),
    click.option("--slots", type=click.IntRange(1), metavar="N", help="ssh: runs at once on a host. [default: 1]"),
    click.option(
        "--known-hosts", type=click.Path(exists=True, dir_okay=False), help="ssh: a file with the hosts' keys."
    ),
    click.option(
        "--env", callback=_variables, metavar="K=V", multiple=True, help="ray: a variable of the client there."
    ),
    click.option("--cpus", type=float, metavar="N", help="ray: what each node of a run takes."),
    click.option("--node-python", metavar="PATH", help="ray: the nodes' Python for our code."),
    click.option("--python", metavar="PATH", help="The nodes' Python for our code; ray: one of the server's with Ray."),
    click.option("--node-home", metavar="PATH", help="The nodes' folder for work folders and environments."),
    click.option("--shared-folder", metavar="PATH", help="A folder that all nodes see."),
)


def engine_options(command: Command) -> Command:
    """Add the options of all engines; which of them a target has is checked where it is made."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def target_options(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return what was given, by the names of core.compute_options, with the text of files."""
    found = {name: value for name, value in given.items() if value not in (None, ()) and name not in _FILES.values()}
    for name, option in _FILES.items():
        if given.get(option):
            found[name] = Path(given[option]).read_text(encoding="utf-8")
    if "extra" in found:
        found["extra"] = list(found["extra"])
    if kind == SSH and "address" in found:
        port, slots = found.pop("port", SSH_PORT), found.pop("slots", 1)
        found["hosts"] = read_hosts(found.pop("address"), port=port, slots=slots)
    return found


@click.command()
@click.argument("name")
@click.argument("kind", type=click.Choice((RAY, SLURM, SSH)))
@engine_options
@click.option("--description", metavar="TEXT", default="", help="What it is for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def attach(name: str, kind: str, description: str, as_json: bool, **given: Any) -> None:
    """Let runs go to machines that somebody else runs, under a name.

    The server looks whether it finds them, and refuses when they could not reach it.

    \b
      runyard compute attach ray-pool ray --address auto
      runyard compute attach gpu-cluster slurm --partition gpu --extra=--qos=high
      runyard compute attach boxes ssh --address hostA,hostB --user me --key ~/.ssh/id_ed25519
    """
    check_compute_name(name)
    options = target_options(given, kind)
    if kind == RAY:
        options.setdefault("address", AUTO)
    spec = check_compute(ComputeSpec(type=TYPE_OF_KIND[kind], options=options, description=description))
    workspace = Workspace.from_config()
    click.echo("Looking for its machines …", err=True)
    made = workspace._client.compute.create(workspace.name, name, spec)
    if as_json:
        print_json(made)
    count = len(made.nodes)
    click.echo(
        f"Compute target `{plain(made.name)}` is attached: {count} node{'' if count == 1 else 's'}. "
        f"`runyard compute test {plain(made.name)}` looks at each.",
        err=True,
    )
