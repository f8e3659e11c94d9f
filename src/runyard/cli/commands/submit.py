"""`runyard submit`: run a script, whatever is in it, and stream its output."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from runyard import cli
from runyard.cli.commands.run_report import follow, print_end
from runyard.cli.exit_codes import INTERRUPTED, exit_code_of
from runyard.cli.lookup import compute_names, experiment_names
from runyard.cli.output import Seconds, print_json
from runyard.cli.plan_report import print_plan
from runyard.cli.text import plain
from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.core.specs import DEFAULT_TIME_LIMIT_S
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.projects import environment_of_file
from runyard.sdk.run_config.resources import read_resources
from runyard.sdk.run_config.run_configuration import PyTorchConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.runs.details import page_url
from runyard.sdk.submit.dry_run import plan_run
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.server import find
from runyard.sdk.workspaces.workspace import Workspace


def _pairs(ctx: cli.Context, param: cli.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    for value in values:
        if "=" not in value[1:]:
            raise cli.BadParameter(f"{value!r} has no name and value. Write NAME=VALUE.", ctx, param)
    return dict(value.split("=", 1) for value in values)


@cli.command(interspersed=False)
@cli.option(
    "--name",
    "-n",
    metavar="EXPERIMENT",
    shell_complete=experiment_names,
    help="The experiment. [default: the script's name]",
)
@cli.option("--source", type=cli.Path(), help="The folder to store and run in. [default: this one]")
@cli.option("--env-var", "-e", "variables", callback=_pairs, metavar="K=V", multiple=True, help="Set a variable.")
@cli.option("--tag", "-t", "tags", callback=_pairs, metavar="K=V", multiple=True, help="Tag the run.")
@cli.option("--time-limit", type=Seconds(), metavar="TIME", help="Cancel the run after this long: 90, 10m, 2h, 1d.")
@cli.option(
    "--max-attempts",
    type=cli.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Start it again, so often at most, when its machine is lost or it is preempted.",
)
@cli.option(
    "--keep",
    metavar="PATH",
    multiple=True,
    help="Store this file, folder or glob of the work folder too, beside ./outputs and ./logs.",
)
@cli.option("--target", default="local", show_default=True, shell_complete=compute_names, help="The compute target.")
@cli.option("--nodes", type=cli.IntRange(1), metavar="N", default=1, help="Run it on N nodes, once on each.")
@cli.option(
    "--resource",
    "-r",
    "resources",
    callback=_pairs,
    metavar="K=V",
    multiple=True,
    help="What a node shall have, on clusters: cpus=8, memory=16GB, gpus=2, partition=gpu.",
)
@cli.option("--python", metavar="PATH", help="The Python to use. [default: the active virtual environment's]")
@cli.option(
    "--environment",
    "named",
    metavar="NAME_OR_FILE",
    help="The environment: a registered or curated one, requirements.txt, conda file, saved folder.",
)
@cli.option("--detach", "-d", is_flag=True, help="Print the run's id and return; the run goes on.")
@cli.option("--dry-run", is_flag=True, help="Show what would be started, secrets hidden; store and start nothing.")
@cli.option("--json", "as_json", is_flag=True, help="With --detach: print the run as JSON; with --dry-run the plan.")
@cli.argument("script", type=cli.Path())
@cli.argument("arguments", nargs=-1, type=cli.UNPROCESSED, metavar="[-- ARGUMENTS...]")
@cli.pass_context
def submit(
    ctx: cli.Context,
    name: str | None,
    source: str | None,
    variables: dict[str, str],
    tags: dict[str, str],
    time_limit: int | None,
    max_attempts: int,
    keep: tuple[str, ...],
    target: str,
    nodes: int,
    resources: dict[str, str],
    python: str | None,
    named: str | None,
    detach: bool,
    dry_run: bool,
    as_json: bool,
    script: str,
    arguments: tuple[str, ...],
) -> None:
    """Run SCRIPT and stream its output. The script needs nothing of ours in it.

    The folder's files are stored, and a copy of them is the run's working folder. Ctrl-C ends the watching, not the
    run.

    \b
      runyard submit train.py -- --alpha 0.5
      runyard submit --name sweep-3 --time-limit 2h src/train.py -- --epochs 50
    """
    folder, inner_script = _locate(script, source)
    config = ScriptRunConfig(
        source_directory=str(folder),
        script=inner_script,
        arguments=_script_arguments(ctx, arguments),
        compute_target=target,
        environment=_environment(python, named),
        max_run_duration_seconds=time_limit or DEFAULT_TIME_LIMIT_S,
        distributed_job_config=PyTorchConfiguration(node_count=nodes) if nodes > 1 else None,
        max_attempts=max_attempts,
        keep=keep,
        resources=read_resources(resources),
    )
    config.run_config.environment_variables.update(variables)
    experiment_name = name or _experiment_name(inner_script)
    if dry_run:
        planned_in = Workspace.from_config() if find() is not None else None  # a look starts no server
        plan = plan_run(planned_in, experiment_name, config, tags=tags or None)
        return print_json(plan) if as_json else print_plan(plan)
    workspace = Workspace.from_config()
    experiment = Experiment(workspace, experiment_name)
    run = experiment.submit(config, tags=tags or None)
    client = workspace._client
    page = plain(page_url(client, run._page))  # a link that signs in would stay in the logs of builds
    cli.echo(f"Run {plain(run.id)}\nPage {page}\n", err=True)
    if detach:
        if as_json:
            print_json(client.runs.get(run.id))
        else:
            cli.echo(run.id)
        return
    try:
        ended = follow(client, run.id)
    except KeyboardInterrupt:
        cli.echo(
            f"\nThe run goes on. Watch it: `runyard runs logs -f {run.id}`. Stop it: `runyard runs cancel {run.id}`.",
            err=True,
        )
        ctx.exit(INTERRUPTED)
    print_end(ended, client.runs.metrics(run.id), client.runs.files(run.id))
    ctx.exit(exit_code_of(ended.status))


def _locate(script: str, source: str | None) -> tuple[Path, str]:
    """Return the source folder and the script's path in it."""
    given = Path(script)
    if source is not None:
        folder = Path(source)
        if given.exists() and _is_inside(given, folder):
            return folder, os.path.relpath(given.resolve(), folder.resolve())
        return folder, script
    if given.is_dir():
        raise SubmitRejected(
            f"`{script}` is a folder.",
            why="A run needs a script to start.",
            hint=f"Name the script in it: `runyard submit --source {script} train.py`.",
        )
    if not given.exists():
        raise SubmitRejected(
            f"There is no script `{script}`.", why=f"Looked in {Path.cwd()}.", hint=_scripts_here(given)
        )
    if _is_inside(given, Path.cwd()):
        return Path("."), os.path.relpath(given.resolve(), Path.cwd().resolve())
    return given.resolve().parent, given.name


def _is_inside(script: Path, folder: Path) -> bool:
    return folder.resolve() in script.resolve().parents


def _scripts_here(script: Path) -> str:
    folder = script.parent if script.parent.is_dir() else Path(".")
    found = sorted(str(path) for path in folder.glob("*.py"))[:8]
    return f"Scripts there: {', '.join(found)}." if found else "Go to the script's folder, or give its path."


def _script_arguments(ctx: cli.Context, arguments: tuple[str, ...]) -> list[str]:
    """Return what follows the script. One of our own options there is a slip, unless `--` says otherwise."""
    if arguments[:1] == ("--",):
        return list(arguments[1:])
    ours = {name for param in ctx.command.params if isinstance(param, cli.Option) for name in param.opts}
    before_dashes = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for argument in before_dashes:
        if argument.startswith("--") and argument.partition("=")[0] in ours:
            raise cli.UsageError(
                f"`{argument}` stands after the script, where the script's arguments are. Put it before the script, "
                f"or, if the script takes it, write `--` after the script.",
                ctx,
            )
    return list(arguments)


def _environment(python: str | None, named: str | None) -> Environment | None:
    """Return the named environment, else that of the Python that `python SCRIPT` would use; None: the one we run in."""
    if python is not None and named is not None:
        raise cli.UsageError("--python and --environment exclude each other.")
    if named is not None:
        return environment_of_file(named) or Environment.get(Workspace.from_config(), named)
    active = os.environ.get("VIRTUAL_ENV")
    if python is None and active and os.path.realpath(active) != os.path.realpath(sys.prefix):
        candidate = os.path.join(active, "bin", "python")
        python = candidate if os.access(candidate, os.X_OK) else None
    if python is None:
        return None
    environment = Environment("user-managed-env")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = os.path.abspath(python) if os.sep in python else python
    return environment


def _experiment_name(script: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9_-]+", "-", Path(script).stem).strip("-_")[:255]
    if not name:
        raise InvalidArgument(
            f"No experiment name can be made of `{script}`.",
            hint="Choose one: `runyard submit --name my-experiment …`.",
        )
    return name
