"""`runyard models`, `runyard datasets` and `runyard secrets`: the assets and secrets of a workspace."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

from runyard import cli
from runyard.cli.commands.experiments import YES, ask
from runyard.cli.lookup import get_run, run_ids
from runyard.cli.output import moment, print_fields, print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import InvalidArgument
from runyard.core.formats.plain import to_plain
from runyard.core.machine.progress import shown_size
from runyard.core.specs import KIND
from runyard.sdk.data.dataset import AnyDataset, Dataset, of_asset
from runyard.sdk.models.model import Model
from runyard.sdk.workspaces.workspace import Workspace


@cli.group(aliases={"ls": "list", "rm": "delete"})
def models() -> None:
    """List, show, register, download and delete models of the workspace. MODEL is a name, or NAME:VERSION."""


@models.command("list")
@cli.argument("name", required=False)
@cli.option("--tag", "tags", metavar="NAME[=VALUE]", multiple=True, help="Only those that have the tag.")
@cli.option("--all", "show_all", is_flag=True, help="All versions instead of the latest of each name.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_models(name: str | None, tags: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """List models, newest first; with NAME, all versions of that model."""
    wanted = [tag.split("=", 1) for tag in tags]
    latest = not show_all and name is None and not tags
    found = Model.list(Workspace.from_config(), name, tags=wanted, latest=latest)
    if as_json:
        return print_json([model.serialize() for model in found])
    if not found:
        cli.echo("There is none. In a script: run.register_model('name', 'outputs/model.pkl')", err=True)
        return None
    rows = [
        (
            model.name,
            model.version,
            model.model_framework,
            moment(model.created_time),
            model.run_id or "",
            _model_tags(model),
        )
        for model in found
    ]
    return print_table(("MODEL", "VERSION", "FRAMEWORK", "REGISTERED", "RUN", "TAGS"), rows)


@models.command("show")
@cli.argument("model")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_model(model: str, as_json: bool) -> None:
    """Show a model: its files, its tags, and where it came from."""
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
            ("tags", _model_tags(found)),
            ("properties", ", ".join(f"{key}={value}" for key, value in sorted(found.properties.items()))),
            ("datasets", ", ".join(f"{purpose}: {dataset}" for purpose, dataset in found._model.spec.datasets)),
            ("size", f"{shown_size(sum(file.size for file in files))} in {len(files)} files"),
        ]
    )
    print_table(("FILE", "SIZE"), [(file.name, shown_size(file.size)) for file in files])
    return None


@models.command()
@cli.argument("name")
@cli.argument("path", metavar="PATH", type=cli.Path())
@cli.option("--run", "run_name", metavar="RUN", shell_complete=run_ids, help="PATH is a file or folder of this run.")
@cli.option("--tag", "-t", "tags", metavar="KEY=VALUE", multiple=True, help="Tag it. May be repeated.")
@cli.option("--description", metavar="TEXT", help="Say what it is.")
@cli.option("--framework", metavar="NAME[:VERSION]", help="What it was trained with, such as ScikitLearn:1.5.")
def register(
    name: str,
    path: str,
    run_name: str | None,
    tags: tuple[str, ...],
    description: str | None,
    framework: str | None,
) -> None:
    """Register a file or folder as the next version of the model NAME. Prints NAME:VERSION.

    \b
      runyard models register digits outputs/model.pkl --run last
      runyard models register digits model.pkl --framework ScikitLearn:1.5
    """
    workspace = Workspace.from_config()
    kind, _, version = (framework or "").partition(":")
    facts: Any = {
        "tags": dict(tag.partition("=")[::2] for tag in tags),
        "description": description,
        "model_framework": kind or None,
        "model_framework_version": version or None,
    }
    with redirect_stdout(sys.stderr):  # the SDK says what it does, as Azure's
        if run_name is None:
            made = Model.register(workspace, path, name, **facts)
        else:
            made = workspace.get_run(get_run(workspace, run_name).id).register_model(name, path, **facts)
    cli.echo(plain(made.id))


@models.command()
@cli.argument("model")
@cli.option(
    "--to", "target", type=cli.Path(), metavar="FOLDER", default=".", show_default=True, help="Where to write it."
)
@cli.option("--overwrite", is_flag=True, help="Overwrite what is there.")
def download(model: str, target: str, overwrite: bool) -> None:
    """Write a model's file or folder here. Prints its path."""
    cli.echo(plain(find_model(model).download(target, exist_ok=overwrite)))


@models.command("delete")
@cli.argument("names", metavar="MODEL...", nargs=-1, required=True)
@YES
def delete_model(names: tuple[str, ...], yes: bool) -> None:
    """Delete model versions; a name alone means its latest version. Prints their ids."""
    found = [find_model(name) for name in names]
    ask(f"Delete {', '.join(model.id for model in found)} for good?", yes)
    for model in found:
        model.delete()
        cli.echo(plain(model.id))


def find_model(text: str) -> Model:
    """Raises WebserviceException: there is none."""
    name, colon, version = text.rpartition(":")
    workspace = Workspace.from_config()
    return Model(workspace, name, version=int(version)) if colon and version.isdigit() else Model(workspace, text)


def _model_tags(model: Model) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(model.tags.items()))


@cli.group()
def datasets() -> None:
    """List and show datasets of the workspace."""


@datasets.command("list")
@cli.argument("name", required=False)
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_datasets(name: str | None, as_json: bool) -> None:
    """List the latest version of each dataset; with NAME, all versions of that dataset."""
    workspace = Workspace.from_config()
    found = [
        (asset, of_asset(workspace, asset)) for asset in workspace._client.assets.list(workspace.name, KIND, name=name)
    ]
    if as_json:
        return print_json([_plain(dataset) for _, dataset in found])
    if not found:
        cli.echo("There is none. dataset.register(workspace, name) keeps one.", err=True)
        return None
    rows = [
        (one.name, one.version, one._spec.kind, moment(asset.created_at), _sources(one), _dataset_tags(one))
        for asset, one in found
    ]
    return print_table(("DATASET", "VERSION", "KIND", "REGISTERED", "DATA", "TAGS"), rows)


@datasets.command("show")
@cli.argument("name")
@cli.option("--version", metavar="N", type=int, help="The version. [default: the latest]")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_dataset(name: str, version: int | None, as_json: bool) -> None:
    """Show a dataset and how many files and bytes it has now."""
    found = Dataset.get_by_name(Workspace.from_config(), name, version=version)
    amount = found._amount()
    if as_json:
        return print_json({**_plain(found), **amount})
    return print_fields(
        [
            ("dataset", found.name),
            ("version", found.version),
            ("id", found.id),
            ("kind", found._spec.kind),
            ("description", found.description or ""),
            ("tags", _dataset_tags(found)),
            ("data", _sources(found)),
            ("size", f"{shown_size(amount['bytes'])} in {amount['files']} files"),
            ("fingerprint", amount["fingerprint"]),
        ]
    )


def _plain(dataset: AnyDataset) -> dict[str, Any]:
    about = {"name": dataset.name, "version": dataset.version, "description": dataset.description or ""}
    return {**about, "tags": dataset.tags, **to_plain(dataset._spec)}


def _sources(dataset: AnyDataset) -> str:
    return ", ".join(source.url or f"{source.datastore}/{source.path}" for source in dataset._spec.sources)


def _dataset_tags(dataset: AnyDataset) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(dataset.tags.items()))


@cli.group()
def secrets() -> None:
    """Set, list and delete secrets of the workspace; scripts read them with run.get_secret(name)."""


@secrets.command("set")
@cli.argument("name")
def set_secret(name: str) -> None:
    """Store a secret. You are asked for its value, or it is read from stdin: `runyard secrets set NAME < file`."""
    if sys.stdin.isatty():
        value = cli.prompt("Value", hide_input=True, confirmation_prompt=True)
    else:
        value = sys.stdin.read().rstrip("\n")
    if not value:
        raise InvalidArgument("The value is empty.", hint=f"printf %s VALUE | runyard secrets set {name}")
    Workspace.from_config().get_default_keyvault().set_secret(name, value)
    cli.echo(f"Secret `{name}` is set. In a script: run.get_secret('{name}')", err=True)


@secrets.command()
@cli.argument("name")
@cli.argument("users", nargs=-1)
@cli.option("--everyone", is_flag=True, help="All users of the team, and their runs.")
def share(name: str, users: tuple[str, ...], everyone: bool) -> None:
    """Set who may read a secret besides its owner and admins: these users and no others.

    Without users and --everyone, only its owner and admins can read it.
    """
    readers = ["*"] if everyone else [*users]
    Workspace.from_config().get_default_keyvault().share_secret(name, readers)
    who = "all users" if everyone else ", ".join(f"`{user}`" for user in users) or "nobody else"
    cli.echo(f"Secret `{name}` is read by its owner, by admins and by {who}.", err=True)


@secrets.command("list")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_secrets(as_json: bool) -> None:
    """List the names of the secrets."""
    names = [one["name"] for one in Workspace.from_config().get_default_keyvault().list_secrets()]
    if as_json:
        return print_json(names)
    if not names:
        cli.echo("There is none yet. `runyard secrets set NAME` keeps one.", err=True)
        return None
    return print_table(("SECRET",), [(name,) for name in names])


@secrets.command("show")
@cli.argument("name")
def show_secret(name: str) -> None:
    """Print a secret's value."""
    cli.echo(Workspace.from_config().get_default_keyvault().get_secret(name))


@secrets.command("delete")
@cli.argument("names", nargs=-1, required=True)
def delete_secret(names: tuple[str, ...]) -> None:
    """Delete secrets. Deleting one that does not exist is not an error."""
    Workspace.from_config().get_default_keyvault().delete_secrets(names)
