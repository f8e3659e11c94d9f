"""`runyard datasets`: what is registered, and where its data lies."""

from __future__ import annotations

from typing import Any

import click

from runyard.cli.output import moment, print_fields, print_json, print_table, size
from runyard.core.datasets import KIND
from runyard.core.formats.plain import to_plain
from runyard.sdk.data.dataset import AnyDataset, Dataset, of_asset
from runyard.sdk.workspaces.workspace import Workspace


@click.group()
def datasets() -> None:
    """List and show datasets of the workspace."""


@datasets.command("list")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_datasets(name: str | None, as_json: bool) -> None:
    """List datasets, the latest version of each; of one NAME all versions."""
    workspace = Workspace.from_config()
    found = [
        (asset, of_asset(workspace, asset)) for asset in workspace._client.assets.list(workspace.name, KIND, name=name)
    ]
    if as_json:
        return print_json([_plain(dataset) for _, dataset in found])
    if not found:
        click.echo("There is none. dataset.register(workspace, name) keeps one.", err=True)
        return None
    rows = [
        (one.name, one.version, one._spec.kind, moment(asset.created_at), _sources(one), _tags(one))
        for asset, one in found
    ]
    return print_table(("DATASET", "VERSION", "KIND", "REGISTERED", "DATA", "TAGS"), rows)


@datasets.command()
@click.argument("name")
@click.option("--version", metavar="N", type=int, help="The version. [default: the latest]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, version: int | None, as_json: bool) -> None:
    """Show a dataset, and how many files and bytes it has now."""
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
            ("tags", _tags(found)),
            ("data", _sources(found)),
            ("size", f"{size(amount['bytes'])} in {amount['files']} files"),
            ("fingerprint", amount["fingerprint"]),
        ]
    )


def _plain(dataset: AnyDataset) -> dict[str, Any]:
    about = {"name": dataset.name, "version": dataset.version, "description": dataset.description or ""}
    return {**about, "tags": dataset.tags, **to_plain(dataset._spec)}


def _sources(dataset: AnyDataset) -> str:
    return ", ".join(source.url or f"{source.datastore}/{source.path}" for source in dataset._spec.sources)


def _tags(dataset: AnyDataset) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(dataset.tags.items()))
