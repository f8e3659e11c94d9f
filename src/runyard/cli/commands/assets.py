"""`runyard models`: what is registered, where it came from, and its files."""

from __future__ import annotations

import click

from runyard.cli.commands.deleting import YES, ask
from runyard.cli.output import moment, print_fields, print_json, print_table, size
from runyard.cli.text import plain
from runyard.sdk.models.model import Model
from runyard.sdk.workspaces.workspace import Workspace


@click.group()
def models() -> None:
    """List, show, download and delete models of the workspace. MODEL is a name, or NAME:VERSION."""


@models.command("list")
@click.argument("name", required=False)
@click.option("--tag", "tags", metavar="NAME[=VALUE]", multiple=True, help="Only those that have the tag.")
@click.option("--all", "show_all", is_flag=True, help="All versions, not the latest of each name.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_models(name: str | None, tags: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """List models, the newest first; of one NAME all versions."""
    wanted = [tag.split("=", 1) for tag in tags]
    latest = not show_all and name is None and not tags
    found = Model.list(Workspace.from_config(), name, tags=wanted, latest=latest)
    if as_json:
        return print_json([model.serialize() for model in found])
    if not found:
        click.echo("There is none. In a script: run.register_model('name', 'outputs/model.pkl')", err=True)
        return None
    rows = [
        (model.name, model.version, model.model_framework, moment(model.created_time), model.run_id or "", _tags(model))
        for model in found
    ]
    return print_table(("MODEL", "VERSION", "FRAMEWORK", "REGISTERED", "RUN", "TAGS"), rows)


@models.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(model: str, as_json: bool) -> None:
    """Show a model: its files, tags, and where it came from."""
    found = find_model(model)
    files = found._model.spec.files
    if as_json:
        listed = [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in files]
        return print_json({**found.serialize(), "files": listed, "datasets": found._model.spec.datasets})
    print_fields(
        [
            ("model", found.id),
            ("description", found.description or ""),
            ("framework", f"{found.model_framework} {found.model_framework_version or ''}".strip()),
            ("registered", f"{moment(found.created_time)} by {found.created_by}"),
            ("run", found.run_id or ""),
            ("experiment", found.experiment_name or ""),
            ("tags", _tags(found)),
            ("properties", ", ".join(f"{key}={value}" for key, value in sorted(found.properties.items()))),
            ("datasets", ", ".join(f"{purpose}: {dataset}" for purpose, dataset in found._model.spec.datasets)),
            ("size", f"{size(sum(file.size for file in files))} in {len(files)} files"),
        ]
    )
    print_table(("FILE", "SIZE"), [(file.name, size(file.size)) for file in files])
    return None


@models.command()
@click.argument("model")
@click.option("--to", "target", metavar="FOLDER", default=".", show_default=True, help="Where to write it.")
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
def download(model: str, target: str, overwrite: bool) -> None:
    """Write a model's file or folder here. Prints its path."""
    click.echo(plain(find_model(model).download(target, exist_ok=overwrite)))


@models.command()
@click.argument("names", metavar="MODEL...", nargs=-1, required=True)
@YES
def delete(names: tuple[str, ...], yes: bool) -> None:
    """Delete versions of models; a name alone is its latest version. Prints their ids."""
    found = [find_model(name) for name in names]
    ask(f"Delete {', '.join(model.id for model in found)} for good?", yes)
    for model in found:
        model.delete()
        click.echo(plain(model.id))


def find_model(text: str) -> Model:
    """Raises WebserviceException: there is none."""
    name, colon, version = text.rpartition(":")
    workspace = Workspace.from_config()
    return Model(workspace, name, version=int(version)) if colon and version.isdigit() else Model(workspace, text)


def _tags(model: Model) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(model.tags.items()))
