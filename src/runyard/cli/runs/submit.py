"""`runyard submit`: run a script, a notebook, a module or a command, whatever is in it, and stream its output.

`runyard sweep` runs a job file many times with other parameters; it shares what happens after the submit.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Mapping

from runyard import cli
from runyard.cli.exit_codes import INTERRUPTED, exit_code_of
from runyard.cli.lookup import compute_names, experiment_names
from runyard.cli.output import Seconds, chosen_options, number, pairs, print_json
from runyard.cli.plan_report import print_plan
from runyard.cli.runs.run_report import follow, print_end
from runyard.cli.text import plain
from runyard.core.errors import InvalidArgument
from runyard.core.formats.documents import SweepReport
from runyard.core.names import check_experiment_name
from runyard.core.statuses import RunStatus
from runyard.sdk.runs.details import PollInterval, page_url
from runyard.sdk.runs.run import Run
from runyard.sdk.submit.dry_run import plan_run
from runyard.sdk.submit.job import FRAMEWORKS, JobSettings, PlannedJob, plan_job
from runyard.sdk.submit.submission import submit as submit_config
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.server import Client, find
from runyard.sdk.workspaces.workspace import Workspace

PROGRESS_EVERY_S = 2.0
JOB_FILES = (".yml", ".yaml")


@cli.command(interspersed=False)
@cli.option(
    "--experiment",
    "--name",
    "experiment",
    metavar="EXPERIMENT",
    shell_complete=experiment_names,
    help="The experiment. [default: the script's name]",
)
@cli.option("--display-name", metavar="NAME", help="A name for this run, shown next to its id.")
@cli.option("--source", type=cli.Path(), help="The folder to store and run in. [default: this one]")
@cli.option("--module", "-m", metavar="MODULE", help="Run a module as `python -m` does, instead of a script.")
@cli.option("--env-var", "-e", "variables", callback=pairs, metavar="K=V", multiple=True, help="Set a variable.")
@cli.option("--env-file", type=cli.Path(), multiple=True, help="Set the variables of a `.env` file.")
@cli.option("--tag", "-t", "tags", callback=pairs, metavar="K=V", multiple=True, help="Tag the run.")
@cli.option("--time-limit", type=Seconds(), metavar="TIME", help="Cancel the run after this long: 90, 10m, 2h, 1d.")
@cli.option(
    "--max-attempts",
    type=cli.IntRange(1, 100),
    metavar="N",
    help="Retry up to N times in all if the machine is lost or the job is preempted. [default: 1]",
)
@cli.option(
    "--keep",
    type=cli.Path(),
    multiple=True,
    help="Also store this file, folder or glob of the working folder (./outputs and ./logs are always stored).",
)
@cli.option("--target", shell_complete=compute_names, help="The compute target. [default: local]")
@cli.option("--nodes", type=cli.IntRange(1), metavar="N", help="Run it on N nodes. [default: 1]")
@cli.option("--processes", type=cli.IntRange(1), metavar="N", help="Start N processes on each node. [default: 1]")
@cli.option(
    "--framework",
    type=cli.Choice(FRAMEWORKS),
    help="How processes find each other. [default: pytorch for more than one]",
)
@cli.option("--workers", type=cli.IntRange(1), metavar="N", help="TensorFlow's workers. [default: one on each node]")
@cli.option("--parameter-servers", type=cli.IntRange(0), metavar="N", help="TensorFlow's parameter servers.")
@cli.option("--gpus", type=cli.IntRange(0), metavar="N", help="GPUs per node.")
@cli.option(
    "--resource",
    "-r",
    "resources",
    callback=pairs,
    metavar="K=V",
    multiple=True,
    help="Resources to request for each node (clusters only): cpus=8, memory=16GB, gpus=2, partition=gpu.",
)
@cli.option("--python", type=cli.Path(), help="The Python to use. [default: the active virtual environment's]")
@cli.option(
    "--environment",
    type=cli.Path(),
    metavar="NAME_OR_FILE",
    help="The environment: a registered or curated one, requirements.txt, conda file, uv.lock, pyproject.toml, "
    "poetry.lock, pixi.lock, Dockerfile, saved folder.",
)
@chosen_options
@cli.option("--image", metavar="NAME", help="Run in a container of this image.")
@cli.option(
    "--debug",
    type=cli.IntRange(1, 65535),
    metavar="PORT",
    help="Wait at PORT for a debugger before the first line (the environment needs debugpy).",
)
@cli.option("--detach", "-d", is_flag=True, help="Print the run's id and return; the run continues.")
@cli.option(
    "--dry-run", is_flag=True, help="Show what would run, with secrets hidden, without storing or starting anything."
)
@cli.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the run as JSON and its log to stderr; with --dry-run, print the plan.",
)
@cli.argument("script", type=cli.Path(), required=False, metavar="[SCRIPT]")
@cli.argument("arguments", nargs=-1, type=cli.UNPROCESSED, metavar="[-- ARGUMENTS...]")
@cli.pass_context
def submit(
    ctx: cli.Context,
    script: str | None,
    arguments: tuple[str, ...],
    env_file: tuple[str, ...],
    keep: tuple[str, ...],
    detach: bool,
    dry_run: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Run SCRIPT and stream its output. Your script does not need to import Runyard.

    SCRIPT is a Python script, a notebook (.ipynb, kept with its outputs), a shell script (.sh), a program, or a job
    file (.yml) whose settings the options override. Write a command after `--`.

    The folder's files are stored, and the run works in a copy of them. Ctrl-C stops watching; the run continues.

    \b
      runyard submit train.py -- --alpha 0.5
      runyard submit --environment uv.lock --gpus 1 src/train.py -- --epochs 50
      runyard submit --processes 2 -m package.train
      runyard submit -- torchrun --nproc-per-node 2 train.py
      runyard submit job.yml
    """
    if settings["python"] and settings["environment"]:
        raise cli.UsageError("--python and --environment exclude each other.", ctx)
    what = _what(ctx, script, arguments, settings["module"])
    given = JobSettings(**settings, env_file=list(env_file), keep=list(keep), **what)
    if given.script is not None and given.script.endswith(JOB_FILES):
        from runyard.sdk.submit.job_file import read_job  # few submits have one

        given = read_job(given.script).overridden(replace(given, script=None))
    _submit(ctx, plan_job(given), detach=detach, dry_run=dry_run, as_json=as_json)


@cli.command()
@cli.option("--experiment", shell_complete=experiment_names, help="The experiment. [default: the job file's]")
@cli.option("--target", shell_complete=compute_names, help="The compute target. [default: the job file's]")
@cli.option("--sampling", type=cli.Choice(("random", "grid", "bayesian")), help="How values are sampled.")
@cli.option("--max-runs", type=cli.IntRange(1), metavar="N", help="Run at most N trials.")
@cli.option("--concurrency", type=cli.IntRange(1), metavar="N", help="Run N trials at a time.")
@cli.option("--detach", "-d", is_flag=True, help="Print the sweep's id and return; the sweep continues.")
@cli.option("--dry-run", is_flag=True, help="Show what one trial would run, without storing or starting anything.")
@cli.option("--json", "as_json", is_flag=True, help="Print the sweep as JSON at its end, or with --detach its run.")
@cli.argument("job", type=cli.Path(), metavar="JOB.yml")
@cli.pass_context
def sweep(
    ctx: cli.Context,
    job: str,
    experiment: str | None,
    target: str | None,
    detach: bool,
    dry_run: bool,
    as_json: bool,
    **section: Any,
) -> None:
    """Run a job file with many parameter values and show the best at the end.

    The file's section `sweep:` says what is tried. Ctrl-C stops watching; the sweep continues.

    \b
      runyard sweep job.yml --max-runs 20 --concurrency 4
    """
    from runyard.sdk.submit.job_file import read_job  # few commands need it

    settings = read_job(job)
    if settings.sweep is None:
        raise InvalidArgument(
            f"{job} has no section `sweep:`.",
            hint="sweep: {sampling: random, parameters: {lr: 'uniform(0.01, 0.1)'}, metric: loss, goal: minimize}",
        )
    own = {key: value for key, value in section.items() if value is not None}
    given = JobSettings(experiment=experiment, target=target, sweep=own)
    _submit(ctx, plan_job(settings.overridden(given)), detach=detach, dry_run=dry_run, as_json=as_json)


def _what(ctx: cli.Context, script: str | None, arguments: tuple[str, ...], module: str | None) -> Mapping[str, Any]:
    """Return what is run, by the words that are no options."""
    words = [*([script] if script is not None else []), *arguments]
    if not words and module is None:
        raise cli.UsageError(
            "There is nothing to run: give a SCRIPT, a module (`-m package.train`), or a command behind `--` "
            "(`runyard submit -- torchrun train.py`).",
            ctx,
        )
    if module is not None:
        return {"arguments": words if ctx.is_behind_dashes else _script_arguments(ctx, tuple(words))}
    if ctx.is_behind_dashes:
        return {"command": words}
    return {"script": script, "arguments": _script_arguments(ctx, arguments)}


def _submit(ctx: cli.Context, job: PlannedJob, *, detach: bool, dry_run: bool, as_json: bool) -> None:
    for note in job.notes:
        cli.echo(f"note: {plain(note)}", err=True)
    if dry_run:
        planned_in = Workspace.from_config() if find() is not None else None  # a look starts no server
        plan = plan_run(planned_in, job.experiment, job.config, tags=job.tags)
        return print_json(plan) if as_json else print_plan(plan)
    workspace = Workspace.from_config()
    # The run makes the experiment: a submit that is refused leaves none behind.
    experiment = Experiment._known(workspace, check_experiment_name(job.experiment))
    run = submit_config(experiment, job.config, tags=job.tags, display_name=job.display_name)
    client = workspace._client
    page = plain(page_url(client, run._page))  # a link that signs in would stay in the logs of builds
    cli.echo(f"Run {plain(run.id)}\nPage {page}\n", err=True)
    if detach:
        return print_json(client.runs.get(run.id)) if as_json else cli.echo(run.id)
    try:
        _watch(ctx, client, run, as_json=as_json)
    except KeyboardInterrupt:
        cli.echo(
            f"\nThe run continues. Watch it: `runyard runs logs -f {run.id}`. Stop it: `runyard runs cancel {run.id}`.",
            err=True,
        )
        ctx.exit(INTERRUPTED)


def _watch(ctx: cli.Context, client: Client, run: Run, *, as_json: bool) -> None:
    if client.runs.get(run.id).spec.sweep is not None:
        return _watch_sweep(ctx, client, run.id, as_json=as_json)
    ended = follow(client, run.id, is_talk=as_json)
    metrics, files = client.runs.metrics(run.id), client.runs.files(run.id)
    print_end(ended, metrics, files)
    if as_json:
        print_json({"run": ended, "metrics": metrics, "files": files})
    ctx.exit(exit_code_of(ended.status))


def _watch_sweep(ctx: cli.Context, client: Client, run_id: str, *, as_json: bool) -> None:
    """Say on stderr how far the sweep is and what is best, whenever that changes; its table at the end."""
    pace, said, said_at = PollInterval(), "", 0.0
    while True:
        ended = client.runs.get(run_id)
        report = client.runs.sweep(run_id)
        text = _progress(report)
        if text != said and (ended.status.is_terminal or time.monotonic() - said_at >= PROGRESS_EVERY_S):
            cli.echo(text, err=True)
            said, said_at = text, time.monotonic()
        if ended.status.is_terminal:
            break
        time.sleep(pace.next())
    if as_json:
        print_json({"run": ended, "sweep": report})
    else:
        from runyard.cli.runs.sweeps import print_sweep  # a plain run needs none of it

        print_sweep(report, ended.status)
    cli.echo(f"\nmore: runyard sweeps show {plain(run_id)}", err=True)
    ctx.exit(exit_code_of(ended.status))


def _progress(report: SweepReport) -> str:
    children, spec = report["children"], report["spec"]
    ended = sum(RunStatus(child["status"]).is_terminal for child in children)
    total = len(children) if report["closed"] is not None else max(len(children), spec["max_total_runs"])
    best = report["best"]
    if best is None:
        return f"{ended} of {total} ended."
    child = next((one for one in children if one["run_id"] == best["run_id"]), None)
    values = ", ".join(f"{plain(name)} {number(value)}" for name, value in child["parameters"].items()) if child else ""
    value = number(child["best"]) if child else ""
    return f"{ended} of {total} ended. Best {plain(spec['primary_metric'])}: {value} ({values})."


def _script_arguments(ctx: cli.Context, arguments: tuple[str, ...]) -> list[str]:
    """Return what follows the script. One of our own options there is a slip, unless `--` says otherwise."""
    if arguments[:1] == ("--",):
        return list(arguments[1:])
    ours = {name for option in ctx.command.options if option.action is None for name in option.opts}
    before_dashes = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for argument in before_dashes:
        if argument.startswith("--") and argument.partition("=")[0] in ours:
            raise cli.UsageError(
                f"`{argument}` stands after the script, where the script's arguments are. Put it before the script, "
                f"or, if the script takes it, write `--` after the script.",
                ctx,
            )
    return list(arguments)
