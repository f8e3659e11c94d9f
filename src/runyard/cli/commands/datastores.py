"""`runyard datastores`: where data is kept, and files that go there and come back."""

from __future__ import annotations

import os

from runyard import cli
from runyard.cli.commands.experiments import YES, ask
from runyard.cli.output import print_fields, print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import NotFound
from runyard.sdk.data.datastore import Datastore
from runyard.sdk.workspaces.workspace import Workspace


@cli.group(aliases={"ls": "list", "rm": "delete"})
def datastores() -> None:
    """List datastores, add folders as datastores, and copy files to and from them."""


@datastores.command("list")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_datastores(as_json: bool) -> None:
    """List the datastores of the workspace; a star marks the default one."""
    workspace = Workspace.from_config()
    found = list(workspace.datastores.values())
    default = workspace.get_default_datastore().name
    if as_json:
        return print_json([{**_described(store), "default": store.name == default} for store in found])
    rows = [("*" if store.name == default else "", store.name, store.datastore_type, _place(store)) for store in found]
    return print_table(("", "DATASTORE", "TYPE", "PLACE"), rows)


@datastores.command()
@cli.argument("name")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, as_json: bool) -> None:
    """Show a datastore. Keys and other secrets are not shown."""
    store = Datastore.get(Workspace.from_config(), name)
    if as_json:
        print_json(_described(store))
    else:
        print_fields(list(_described(store).items()))


@datastores.command()
@cli.argument("name")
@cli.argument("folder", type=cli.Path(file_okay=False))
@cli.option("--overwrite", is_flag=True, help="Replace the datastore of that name.")
def add(name: str, folder: str, overwrite: bool) -> None:
    """Register FOLDER as the datastore NAME: a folder on this machine, or on a file system that all machines share.

    Buckets and containers are added from Python: Datastore.register_s3_bucket(...) and its like.
    """
    Datastore.register_folder(Workspace.from_config(), name, folder, overwrite=overwrite)
    cli.echo(plain(name))


@datastores.command()
@cli.argument("name")
@cli.argument("paths", metavar="PATH...", nargs=-1, required=True, type=cli.Path())
@cli.option("--to", "target", metavar="FOLDER", default="", help="The folder of the datastore to write to.")
@cli.option("--overwrite", is_flag=True, help="Overwrite existing files.")
def upload(name: str, paths: tuple[str, ...], target: str, overwrite: bool) -> None:
    """Copy files and folders into a datastore."""
    store = Datastore.get(Workspace.from_config(), name)
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise NotFound(f"`{missing[0]}` does not exist.", why="Nothing was uploaded.")
    for path in paths:
        if os.path.isdir(path):
            below = "/".join(filter(None, [target, os.path.basename(os.path.abspath(path))]))
            store.upload(path, target_path=below, overwrite=overwrite)
        else:
            store.upload_files([path], target_path=target or None, overwrite=overwrite)


@datastores.command()
@cli.argument("name")
@cli.argument("prefix", required=False)
@cli.option("--to", "folder", type=cli.Path(file_okay=False), default=".", show_default=True)
@cli.option("--overwrite", is_flag=True, help="Overwrite existing files.")
def download(name: str, prefix: str | None, folder: str, overwrite: bool) -> None:
    """Copy files from a datastore to a local folder: those below PREFIX, or all of them."""
    store = Datastore.get(Workspace.from_config(), name)
    count = store.download(folder, prefix=prefix, overwrite=overwrite)
    cli.echo(f"{count} {'file' if count == 1 else 'files'} downloaded into {folder}.", err=True)


@datastores.command("delete")
@cli.argument("name")
@YES
def delete(name: str, yes: bool) -> None:
    """Unregister a datastore. Its files stay where they are."""
    store = Datastore.get(Workspace.from_config(), name)
    ask(f"Forget the datastore {name}? Its files stay.", yes)
    store.unregister()
    cli.echo(plain(name))


def _described(store: Datastore) -> dict[str, object]:
    return {"name": store.name, "type": store.datastore_type, "place": _place(store)}


def _place(store: Datastore) -> str:
    return " / ".join(filter(None, [store.account_name, store.container_name]))
