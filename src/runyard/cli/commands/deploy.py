"""`runyard deploy`: a model and a script that answers requests with it become a web service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runyard import cli
from runyard.cli.commands.service_report import finish
from runyard.cli.lookup import compute_names, model_names
from runyard.cli.output import Bytes, Seconds, chosen_options, pairs
from runyard.cli.text import plain
from runyard.core.errors import Conflict
from runyard.core.webservices import NewService, ServiceSettings, check_service_name
from runyard.sdk.workspaces.workspace import Workspace

_OPTIONS = (
    cli.option(
        "--entry", type=cli.Path(), metavar="SCRIPT", help="The script with init() and run(data), or a serving.Scorer."
    ),
    cli.option("--source", type=cli.Path(), help="The folder to store with the script. [default: this one]"),
    cli.option(
        "--environment",
        type=cli.Path(),
        metavar="NAME_OR_FILE",
        help="As for `runyard submit`. [default: the script's header, else that of the run that made the model]",
    ),
    chosen_options,
    cli.option("--python", type=cli.Path(), help="The Python to use, instead of an environment."),
    cli.option("--image", metavar="NAME", help="Run in a container of this image."),
    cli.option("--env-var", "-e", "variables", callback=pairs, metavar="K=V", multiple=True, help="Set a variable."),
    cli.option("--target", shell_complete=compute_names, help="Where replicas run. [default: local]"),
    cli.option("--gpus", type=cli.IntRange(0), metavar="N", help="GPUs for each replica."),
    cli.option(
        "--resource",
        "-r",
        "resources",
        callback=pairs,
        metavar="K=V",
        multiple=True,
        help="What each replica requests on clusters: cpus=8, memory=16GB, partition=gpu.",
    ),
    cli.option("--workers", type=cli.IntRange(1, 256), metavar="N", help="Processes of each replica. [default: 1]"),
    cli.option("--threads", type=cli.IntRange(1), metavar="N", help="Requests at once in each worker. [default: 1]"),
    cli.option("--replicas", type=cli.IntRange(1), metavar="N", help="That many, always. [default: 1]"),
    cli.option(
        "--min-replicas", type=cli.IntRange(0), metavar="N", help="Scale by load from N; 0: none while nobody asks."
    ),
    cli.option("--max-replicas", type=cli.IntRange(1), metavar="N", help="Scale by load up to N. [default: 10]"),
    cli.option("--memory-limit", type=Bytes(), metavar="SIZE", help="Replace a worker that uses more: 500MB, 2GB."),
    cli.option("--timeout", type=Seconds(), metavar="TIME", help="The longest that run() may take. [default: 60]"),
    cli.option(
        "--batching", type=cli.Choice(("auto",)), help="auto: join the rows of requests, if that changes no answer."
    ),
)


def deploy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what a revision serves, and how."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def say(text: str) -> None:
    cli.echo(plain(text), err=True)


@cli.command()
@cli.argument("models", nargs=-1, metavar="[MODEL[:VERSION]...]", shell_complete=model_names)
@cli.option("--name", metavar="NAME", help="The service's name. [default: the model's]")
@deploy_options
@cli.option("--auth/--no-auth", default=None, help="Ask for a key, or not. [default: on a team's server]")
@cli.option("--port", type=cli.IntRange(1, 65535), metavar="PORT", help="Listen on a port of its own too.")
@cli.option("--description", metavar="TEXT", help="Shown with the service.")
@cli.option("--tag", "-t", "tags", callback=pairs, metavar="K=V", multiple=True, help="Tag the service.")
@cli.option("--overwrite", is_flag=True, help="Deploy over a service of that name; it answers until this one does.")
@cli.option("--no-wait", is_flag=True, help="Return at once; `runyard services show` follows it.")
@cli.pass_context
def deploy(
    ctx: cli.Context,
    models: tuple[str, ...],
    name: str | None,
    auth: bool | None,
    port: int | None,
    description: str | None,
    tags: dict[str, str],
    overwrite: bool,
    no_wait: bool,
    **options: Any,
) -> None:
    """Serve MODEL over HTTP, with a script that loads it and answers requests. Prints the service's address.

    A model is named as `runyard models list` shows it; a file or folder is registered first. Models of scikit-learn,
    ONNX, TensorFlow and MLflow need no script. AZUREML_MODEL_DIR is where the script finds its model.

    \b
      runyard deploy digits --entry score.py
      runyard deploy ./model.onnx --entry score.py --environment requirements.txt
      runyard deploy digits:3 --name digits-svc --overwrite
    """
    # `runyard services` takes the options from this module, and most of its commands plan nothing.
    from runyard.sdk.serving.deployment import new_service
    from runyard.sdk.serving.options import DeployOptions, plan_deployment, service_name

    wanted = DeployOptions(models=models, **options)
    name = check_service_name(name or service_name(wanted))
    workspace = Workspace.from_config()
    calls = workspace._client.webservices
    if not overwrite and any(one.name == name for one in calls.list(workspace.name)):
        raise Conflict(
            f"There is a web service `{name}` in workspace `{workspace.name}` already.",
            hint=f"`runyard services update {name} …` changes it; --overwrite deploys over it; --name: another one.",
        )
    revision = plan_deployment(workspace, wanted, say)
    settings = ServiceSettings(
        description=description or "",
        tags=tags,
        auth=auth,
        port=port or 0,
    )
    request: NewService = new_service(settings, revision, overwrite=overwrite)
    finish(ctx, workspace, calls.deploy(workspace.name, name, request), no_wait=no_wait)
