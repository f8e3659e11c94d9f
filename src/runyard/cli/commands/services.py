"""`runyard services`: the web services of a workspace: look at them, call them, change them, roll back, delete."""

from __future__ import annotations

import sys
from typing import Any

from runyard import cli
from runyard.cli.commands.deploy import deploy_options, say
from runyard.cli.commands.experiments import YES, ask
from runyard.cli.commands.service_report import finish, last_replica, print_service, sample_text
from runyard.cli.exit_codes import FAILED as FAILED_CODE
from runyard.cli.lookup import get_service, model_names, service_names
from runyard.cli.output import moment, pairs, print_fields, print_json, print_table
from runyard.cli.runs.run_report import find_main_log, follow, print_log
from runyard.cli.text import plain, plain_block
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.webservices import (
    FAILED,
    PRIMARY,
    RUNNING,
    SECONDARY,
    ServiceChange,
    ServiceRevision,
    Webservice,
)
from runyard.sdk.webservices.waiting import wait_for_logs
from runyard.sdk.workspaces.server import Client
from runyard.sdk.workspaces.workspace import Workspace

NAME = cli.argument("name", shell_complete=service_names)
AS_JSON = cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
NO_WAIT = cli.option("--no-wait", is_flag=True, help="Return at once; `runyard services show` tells how it is going.")
_KEYS = {"primary": PRIMARY, "secondary": SECONDARY}


@cli.group(aliases={"ls": "list", "rm": "delete"})
def services() -> None:
    """List, show, call, change, roll back and delete web services. `runyard deploy` makes one.

    \b
      runyard services test digits --data @request.json
      runyard services update digits --model digits:2
      runyard services rollback digits
    """


@services.command("list")
@cli.option("--model", metavar="NAME", shell_complete=model_names, help="Only those that serve this model.")
@cli.option("--tag", "tags", metavar="KEY[=VALUE]", multiple=True, help="Only those that have the tag.")
@AS_JSON
def list_services(model: str | None, tags: tuple[str, ...], as_json: bool) -> None:
    """List the workspace's services: state, model and address."""
    workspace = Workspace.from_config()
    found = [one for one in workspace._client.webservices.list(workspace.name) if _fits(one, model, tags)]
    if as_json:
        return print_json(found)
    if not found:
        cli.echo("There is none. Make one: runyard deploy MODEL --entry score.py", err=True)
        return None
    rows = [
        (
            one.name,
            one.state,
            one.serving.number if one.serving else "",
            ", ".join(one.serving.spec.models) if one.serving else "",
            moment(one.updated_at),
            one.scoring_uri,
        )
        for one in found
    ]
    return print_table(("SERVICE", "STATE", "REVISION", "MODELS", "CHANGED", "URL"), rows)


def _fits(service: Webservice, model: str | None, tags: tuple[str, ...]) -> bool:
    spec = service.serving.spec if service.serving else None
    names = [name for one in (spec.models if spec else []) for name in (one, one.rpartition(":")[0])]
    if model is not None and model not in names:
        return False
    own = service.settings.tags
    wanted = [tag.partition("=") for tag in tags]
    return all(key in own and (not equals or own[key] == value) for key, equals, value in wanted)


@services.command()
@NAME
@AS_JSON
def show(name: str, as_json: bool) -> None:
    """Show a service: its address, revisions and replicas."""
    service = get_service(Workspace.from_config(), name)
    if as_json:
        print_json(service)
    else:
        print_service(service)


@services.command(plain="a log is printed as it was written")
@NAME
@cli.option("--requests", is_flag=True, help="Print one line per request instead of the script's output.")
@cli.option(
    "--revision",
    metavar="N",
    type=cli.IntRange(1),
    help="Only this revision. [default: the one that serves, or a newer one that does not]",
)
@cli.option("--follow", "-f", "follow_on", is_flag=True, help="Follow until the replica ends.")
@cli.option("--tail", "-n", "tail", type=cli.IntRange(1), metavar="N", help="Only the last N lines.")
def logs(name: str, requests: bool, revision: int | None, follow_on: bool, tail: int | None) -> None:
    """Print the output of a service's script, replica by replica."""
    workspace = Workspace.from_config()
    client = workspace._client
    service = get_service(workspace, name)
    if requests:
        for line in client.webservices.access_log(workspace.name, name, tail or 1000):
            cli.echo(plain(line))
        return
    replicas = _replicas(client, service, revision, is_one=follow_on)
    if not follow_on:
        wait_for_logs(client, service, replicas)
    for run_id in replicas:
        if follow_on:
            follow(client, run_id, last_lines=tail)
            continue
        found = find_main_log(client, run_id)
        if found is None:
            cli.echo(f"Replica {plain(run_id)} has written nothing yet.", err=True)
            continue
        cli.echo(f"Replica {plain(run_id)}:", err=True)
        print_log(client, run_id, found, last_lines=tail)


def _replicas(client: Client, service: Webservice, number: int | None, *, is_one: bool) -> list[str]:
    """Return the runs of a revision's replicas; of one that has none any more, the last that it had."""
    revision = _revision(service, number)
    wanted = [ref.run_id for ref in revision.replicas if ref.is_wanted] if revision is not None else []
    if revision is not None and (is_one or not wanted):
        last = last_replica(client, service, revision)
        wanted = [last] if last is not None else []
    if not wanted:
        raise NotFound(
            f"Web service `{service.name}` has no replica whose log could be shown.",
            hint=f"`runyard services show {service.name}` says what it waits for; `--requests` prints the requests.",
        )
    return wanted


def _revision(service: Webservice, number: int | None) -> ServiceRevision | None:
    """Return the revision of a number; else the one that serves, unless a newer one starts or has just failed."""
    if number is not None:
        found = service.revision(number)
        if found is None:
            known = ", ".join(str(one.number) for one in service.revisions)
            raise NotFound(f"Web service `{service.name}` has no revision {number}.", why=f"It has: {known}.")
        return found
    operation = service.operation
    if operation is not None and operation.state in (RUNNING, FAILED):
        return service.revision(operation.revision)
    return service.serving or (service.revisions[-1] if service.revisions else None)


@services.command()
@NAME
@cli.option("--data", "data", metavar="TEXT|@FILE", help="The body; @FILE reads a file, @- stdin. [default: a sample]")
@cli.option(
    "--path", metavar="PATH", default="score", help="A path below the service's address, such as v2/models/NAME/infer."
)
@cli.option("--type", "kind", metavar="TYPE", help="The Content-Type. [default: application/json]")
@cli.option("--json", "as_json", is_flag=True, help="Print status, times and body as JSON.")
@cli.pass_context
def test(ctx: cli.Context, name: str, data: str | None, path: str, kind: str | None, as_json: bool) -> None:
    """Send one request to a service and print its answer; the server adds the key.

    \b
      runyard services test digits --data '{"data": [[5.1, 3.5, 1.4, 0.2]]}'
      runyard services test digits --data @request.json
    """
    workspace = Workspace.from_config()
    calls = workspace._client.webservices
    get_service(workspace, name)
    body = _body(data) if data is not None else _sample(workspace, name)
    answer = calls.ask(workspace.name, name, body, path=path, kind=kind or "")
    if as_json:
        print_json(answer)
    elif answer.text is None:
        cli.echo(f"The answer is {answer.size_bytes} bytes of {answer.content_type or 'no type'}.", err=True)
    else:
        cli.echo(plain_block(answer.text))
        cut = ", cut here" if answer.is_cut else ""
        in_script = f", {answer.run_ms} ms in the script" if answer.run_ms else ""
        cli.echo(f"{answer.status} in {answer.took_ms:.1f} ms{in_script}{cut}", err=True)
    if answer.status >= 400:
        if answer.status >= 500:
            cli.echo(f"hint: `runyard services logs {plain(name)}` has the traceback.", err=True)
        ctx.exit(FAILED_CODE)


def _body(data: str) -> bytes:
    if not data.startswith("@"):
        return data.encode("utf-8", "surrogateescape")
    if data == "@-":
        return sys.stdin.buffer.read()
    try:
        with open(data[1:], "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidArgument(
            f"The body cannot be read: {data[1:]!r}.", why=f"{error.strerror}.", hint="-d @request.json"
        ) from error


def _sample(workspace: Workspace, name: str) -> bytes:
    sample = workspace._client.webservices.openapi(workspace.name, name).sample
    if not sample:
        raise InvalidArgument(
            f"Web service `{name}` does not say what a request looks like.",
            hint=f"runyard services test {name} --data '{{\"data\": [[1, 2]]}}'",
        )
    text = sample_text(sample)
    cli.echo(f"The service's own sample: {plain(text)}", err=True)
    return text.encode()


@services.command()
@NAME
@cli.argument("revision", required=False, type=cli.IntRange(1), metavar="[REVISION]")
@NO_WAIT
@cli.pass_context
def rollback(ctx: cli.Context, name: str, revision: int | None, no_wait: bool) -> None:
    """Serve an earlier revision again: the one before, or REVISION. Prints the service's address."""
    workspace = Workspace.from_config()
    get_service(workspace, name)
    finish(ctx, workspace, workspace._client.webservices.rollback(workspace.name, name, revision), no_wait=no_wait)


@services.command()
@NAME
@cli.option(
    "--model",
    "models",
    metavar="MODEL[:VERSION]",
    multiple=True,
    shell_complete=model_names,
    help="Serve this model instead; once for each, all of them.",
)
@deploy_options
@cli.option("--auth/--no-auth", default=None, help="Ask for a key, or not.")
@cli.option("--description", metavar="TEXT", help="Shown with the service.")
@cli.option(
    "--tag", "-t", "tags", callback=pairs, metavar="K=V", multiple=True, help="Tag the service, or change a tag."
)
@NO_WAIT
@cli.pass_context
def update(
    ctx: cli.Context,
    name: str,
    auth: bool | None,
    description: str | None,
    tags: dict[str, str],
    no_wait: bool,
    **options: Any,
) -> None:
    """Change a service; what is not said stays. A new revision takes over once it answers; until then the old one does.

    \b
      runyard services update digits --model digits:4
      runyard services update digits --entry score.py
      runyard services update digits --max-replicas 8
    """
    from runyard.sdk.serving.options import DeployOptions, plan_change  # the other commands plan nothing

    wanted = DeployOptions(**options)
    scaling = wanted.scaling
    if not (wanted.makes_revision or scaling or tags) and auth is None and description is None:
        raise cli.UsageError("Name what to change, such as --model digits:4 or --entry score.py.")
    workspace = Workspace.from_config()
    service = get_service(workspace, name)
    change = ServiceChange(
        revision=plan_change(workspace, service, wanted, say) if wanted.makes_revision else None,
        description=description,
        tags={**service.settings.tags, **tags} if tags else None,
        auth=auth,
        scaling=scaling if not wanted.makes_revision else None,
    )
    finish(ctx, workspace, workspace._client.webservices.change(workspace.name, name, change), no_wait=no_wait)


@services.command("delete")
@cli.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=service_names)
@YES
def delete_services(names: tuple[str, ...], yes: bool) -> None:
    """Delete services: requests under way are answered, then their replicas end. Prints the names."""
    workspace = Workspace.from_config()
    for name in names:
        get_service(workspace, name)
    ask(f"Delete {', '.join(names)} with all revisions and keys?", yes)
    for name in names:
        workspace._client.webservices.delete(workspace.name, name)
        cli.echo(plain(name))


@services.command()
@NAME
@cli.argument("which", required=False, type=cli.Choice(tuple(_KEYS)), metavar="[primary|secondary]")
@cli.option("--regenerate", is_flag=True, help="Replace that key first; the other one stays valid.")
@AS_JSON
def keys(name: str, which: str | None, regenerate: bool, as_json: bool) -> None:
    """Print the keys of a service, or one of them. Requests send one: Authorization: Bearer KEY."""
    workspace = Workspace.from_config()
    service = get_service(workspace, name)
    calls = workspace._client.webservices
    if regenerate:
        if which is None:
            raise cli.UsageError(f"Say which key: runyard services keys {name} primary --regenerate")
        calls.set_key(workspace.name, name, _KEYS[which])
    found = dict(zip(_KEYS, calls.keys(workspace.name, name)))
    if as_json:
        return print_json(found if which is None else {which: found[which]})
    if which is not None:
        return cli.echo(found[which])
    print_fields(list(found.items()))
    if not service.settings.auth:
        cli.echo(
            f"The service does not ask for a key. `runyard services update {plain(name)} --auth` has it ask.", err=True
        )
    return None
