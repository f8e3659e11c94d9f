"""A web service as text: how its start goes on, its report, and how to call it."""

from __future__ import annotations

import json
import shlex
import time
from datetime import datetime, timezone
from typing import Any, Optional

from runyard import cli
from runyard.cli.exit_codes import FAILED as FAILED_CODE
from runyard.cli.exit_codes import INTERRUPTED
from runyard.cli.output import moment, print_fields, print_table, seconds
from runyard.cli.text import plain, plain_block
from runyard.core.webservices import FAILED, HEALTHY, REVISION_PROPERTY, RUNNING, ServiceRevision, Webservice
from runyard.sdk.runs.details import PollInterval
from runyard.sdk.webservices.waiting import progress_text
from runyard.sdk.workspaces.server import Client
from runyard.sdk.workspaces.workspace import Workspace


def finish(ctx: cli.Context, workspace: Workspace, service: Webservice, *, no_wait: bool) -> None:
    """Wait for the operation under way and say how it ended; leaves with 1 when it failed. `service` is the answer of
    the server to what was asked.
    """
    client: Client = workspace._client
    has_begun = service.operation is not None and service.operation.state == RUNNING
    if no_wait:
        cli.echo(plain(service.scoring_uri))
        return
    try:
        service = wait_for(client, service)
    except KeyboardInterrupt:
        name = plain(service.name)
        cli.echo(
            f"\nIt continues. Look: `runyard services show {name}`. End: `runyard services delete {name}`.", err=True
        )
        ctx.exit(INTERRUPTED)
    if has_begun and service.operation is not None and service.operation.state == FAILED:
        print_failure(client, service)
        ctx.exit(FAILED_CODE)
    print_end(service, key=key_words(service), sample=_sample_for_curl(client, service))
    if has_begun and service.state != HEALTHY:
        ctx.exit(FAILED_CODE)


def _sample_for_curl(client: Client, service: Webservice) -> str:
    sample: Any = None
    if service.serving is not None:
        sample = client.webservices.openapi(service.workspace, service.name).sample
    return sample_text(sample)


def wait_for(client: Client, service: Webservice) -> Webservice:
    """Say what the service waits for until its operation has ended; return it as it is then."""
    pace, said = PollInterval(), ""
    began = time.monotonic()
    while service.operation is not None and service.operation.state == RUNNING:
        text = progress_text(client, service)
        if text != said:
            cli.echo(f"{seconds(time.monotonic() - began):>8}  {plain(text)}", err=True)
            said = text
        time.sleep(pace.next())
        service = client.webservices.get(service.workspace, service.name)
    return service


def print_end(service: Webservice, *, key: Optional[str], sample: str) -> None:
    """Say what serves now and how to call it. The address goes to stdout."""
    serving = service.serving
    number = f", revision {serving.number}" if serving else ""
    cli.echo(f"Web service `{plain(service.name)}` is {service.state}{number}.", err=True)
    cli.echo(plain(service.scoring_uri))
    about = "" if sample[:1] != "@" else f" ({sample[1:]}: a body as your script takes it)"
    cli.echo(f"\nCall it{about}:\n  {curl_line(service, key=key, sample=sample)}", err=True)
    cli.echo(f"or  runyard services test {plain(service.name)} --data {shlex.quote(sample)}", err=True)


def print_failure(client: Client, service: Webservice) -> None:
    """Say why the last revision does not start, with the end of its log, and what still serves."""
    operation = service.operation
    number = operation.revision if operation else 0
    revision = service.revision(number)
    error = (operation.error if operation else None) or (revision.error if revision else None) or service.error or {}
    cli.echo(f"error: Revision {number} of web service `{plain(service.name)}` did not start.", err=True)
    message = str(error.get("message") or "It left no message.")
    cli.echo(plain_block(message), err=True)
    name = plain(service.name)
    run_id = last_replica(client, service, revision) if revision else None
    hints = [f"runyard services logs {name} --revision {number}"] if run_id else []
    serving = service.serving
    if serving is not None and serving.number != number:
        cli.echo(f"\nRevision {serving.number} goes on to answer.", err=True)
        hints.append("correct it and type the same command again")
    else:
        hints.append(f"correct it and deploy again with --overwrite, or `runyard services delete {name}`")
    cli.echo(f"\nhint: {'; '.join(hints)}.", err=True)


def curl_line(service: Webservice, *, key: Optional[str], sample: str) -> str:
    """Return a command that calls the service. `key`: how to get one, as `$(…)`; None: it needs none."""
    words = ["curl", "-H 'Content-Type: application/json'"]
    if key is not None:
        words.append(f'-H "Authorization: Bearer {key}"')
    words += ["-d", shlex.quote(sample), shlex.quote(service.scoring_uri)]
    return " ".join(words)


def key_words(service: Webservice) -> Optional[str]:
    """Return how a shell gets the service's key; None when it needs none."""
    return f"$(runyard services keys {service.name} primary)" if service.settings.auth else None


def sample_text(sample: object) -> str:
    """Return a body as one line of JSON; of a script that does not describe it, the file that the user writes."""
    return json.dumps(sample) if sample else "@request.json"


def last_replica(client: Client, service: Webservice, revision: ServiceRevision) -> Optional[str]:
    """Return the run of the newest replica that a revision had; its record keeps none that has ended."""
    if revision.replicas:
        return revision.replicas[-1].run_id
    runs = client.runs.iter(service.workspace, parent=service.run_id, view="all")  # newest first
    return next((one.id for one in runs if one.properties.get(REVISION_PROPERTY) == str(revision.number)), None)


def print_service(service: Webservice) -> None:
    """Print everything of a service for people."""
    serving, settings = service.serving, service.settings
    print_fields(
        [
            ("service", service.name),
            ("state", service.state),
            ("url", service.scoring_uri),
            ("revision", serving.number if serving else "none serves"),
            ("models", ", ".join(serving.spec.models) if serving else ""),
            ("key needed", "yes" if settings.auth else "a token" if settings.token_auth else "no"),
            ("description", settings.description),
            ("tags", ", ".join(f"{name}={value}" for name, value in sorted(settings.tags.items()))),
            ("created", f"{moment(service.created_at)} by {service.created_by or 'the owner'}"),
            ("changed", moment(service.updated_at)),
            ("run", service.run_id),
            ("under way", _operation_text(service)),
        ]
    )
    if service.error:
        cli.echo(f"\nerror: {plain_block(str(service.error.get('message', '')))}")
    cli.echo()
    rows = [
        (
            f"{one.number} *" if one.number in service.current.values() else str(one.number),
            one.state,
            one.spec.entry or f"({one.spec.no_code})",
            ", ".join(one.spec.models),
            len([ref for ref in one.replicas if ref.is_wanted]),
            f"{one.busy} of {one.workers} busy" if one.workers else "",
            moment(one.created_at),
        )
        for one in reversed(service.revisions)
    ]
    print_table(("REVISION", "STATE", "SCRIPT", "MODELS", "REPLICAS", "WORKERS", "MADE"), rows)
    live = [ref.run_id for one in service.revisions for ref in one.replicas if ref.is_wanted]
    if live:
        cli.echo(f"\n* serves. Replicas are runs: {', '.join(plain(run_id) for run_id in live)}.", err=True)


def _operation_text(service: Webservice) -> str:
    operation = service.operation
    if operation is None or operation.state != RUNNING:
        return ""
    since = (datetime.now(timezone.utc) - operation.started_at).total_seconds() if operation.started_at else 0.0
    return f"{operation.kind} of revision {operation.revision}, for {seconds(since)}"
