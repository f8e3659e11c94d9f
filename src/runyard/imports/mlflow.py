"""Opens an MLflow source by what it is called: a folder, a database, or a server's address."""

from __future__ import annotations

import os
from typing import List, Sequence

from runyard.core.errors import InvalidArgument
from runyard.imports.folder import path_of_uri
from runyard.imports.mlflow_files import MlflowFiles, is_file_store
from runyard.imports.records import ImportSource

DATABASES = ("mlflow.db", "mlruns.db")  # as `mlflow server` and newer clients name them


def open_mlflow(source: str, *, artifacts: Sequence[str] = ()) -> ImportSource:
    """Return a reader of a folder (`mlruns`), a database (a file, `sqlite:///…`, `postgresql://…`) or a server.

    Raises:
        InvalidArgument: there is nothing of MLflow's.
        MissingExtra: the driver of the database is not installed.
        ServerUnreachable: the server does not answer.
    """
    if source.startswith(("http://", "https://")):
        from runyard.imports.mlflow_server import MlflowServer  # only a live server needs it

        return MlflowServer(source)
    path = path_of_uri(source)
    if path is None or os.path.isfile(path):
        from runyard.imports.mlflow_sql import open_sql  # only a database needs it

        return open_sql(source if path is None else path, artifacts=artifacts)
    if not os.path.isdir(path):
        raise InvalidArgument(
            f"There is no `{source}`.",
            hint="Name a folder (`mlruns`), a database (`sqlite:///mlflow.db`) or a server (`http://host:5000`).",
        )
    return _open_folder(path, artifacts)


def _open_folder(path: str, artifacts: Sequence[str]) -> ImportSource:
    """Return the store in a folder, or in the `mlruns` or beside the database in it."""
    found: List[str] = []
    if is_file_store(path):
        found.append(path)
    elif is_file_store(os.path.join(path, "mlruns")):
        found.append(os.path.join(path, "mlruns"))
    databases = [place for place in (os.path.join(path, name) for name in DATABASES) if os.path.isfile(place)]
    if len(found) + len(databases) > 1:
        named = " or ".join(f"`{os.path.relpath(place, path)}`" for place in (*found, *databases))
        raise InvalidArgument(f"`{path}` holds more than one store.", hint=f"Name the one you mean: {named}.")
    if databases:
        from runyard.imports.mlflow_sql import open_sql  # only a database needs it

        return open_sql(databases[0], artifacts=(path, *artifacts))
    if not found:
        raise InvalidArgument(
            f"`{path}` is no store of MLflow.",
            why="It has neither experiments (folders with a `meta.yaml`) nor a folder `mlruns` or a file `mlflow.db`.",
            hint="Name the folder that `mlflow ui` is started with, or its database.",
        )
    return MlflowFiles(found[0], artifacts=tuple(artifacts))
