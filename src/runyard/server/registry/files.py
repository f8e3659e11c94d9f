"""Files below `models/<id>/` and `registered/<name>/<version>/`: of logged models without a run, and of versions.

A logged model with a run has its files there; its place is named as the run's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from runyard.core.records import RunFile
from runyard.server.http.answers import download_answer, window_of
from runyard.server.http.model_files import read_model_file, spec_of
from runyard.server.mlflow.endpoints import Call
from runyard.server.mlflow.errors import RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.server.registry.logged_records import LoggedDocument, LoggedModel, edit_logged, get_logged, require_change
from runyard.server.registry.records import find_quoted, get_version

MODELS, REGISTERED = "models/", "registered/"
VERBS = ("read_workspace", "read_run", "change_model", "put_asset")


@dataclass(frozen=True)
class KeptFiles:
    """Files that no run has, named relative to their place. `model`: the logged model that takes more of them."""

    files: Sequence[RunFile]
    name: str  # what the request's path says below the place
    model: LoggedModel | None = None


def place_in_run(call: Call, path: str) -> str:
    """Return the path in a run's files of what lies below `models/<id>/`; other paths as they are."""
    if not path.startswith(MODELS):
        return path
    model_id, _, name = path[len(MODELS) :].partition("/")
    model = get_logged(call, model_id)
    return f"runs/{model.source_run_id}/{model.folder}/{name}".rstrip("/") if model.folder else path


def find_kept(call: Call, path: str) -> KeptFiles | None:
    """Return the files at a path that is no run's, None for a path of another form."""
    if path.startswith(MODELS):
        model_id, _, name = path[len(MODELS) :].partition("/")
        model = get_logged(call, model_id)
        return KeptFiles(model.document.files, name, model)
    if not path.startswith(REGISTERED):
        return None
    call.require("read_workspace")
    model_name, _, rest = path[len(REGISTERED) :].partition("/")
    version, _, name = rest.partition("/")
    found = find_quoted(call, model_name)
    return kept_of_version(call, model_name if found is None else found.name, version, name)


def kept_of_version(call: Call, model_name: str, version: str, name: str) -> KeptFiles:
    """Return the files of a model version; `name` is the one that a request asks for."""
    asset = get_version(call, model_name, version)
    spec = spec_of(call.context.services, asset)
    cut = len(spec.path) + 1 if spec.is_folder else 0
    return KeptFiles([replace(file, name=file.name[cut:]) for file in spec.files], name)


def check_writable(call: Call, kept: KeptFiles) -> LoggedModel:
    """Return the logged model whose files they are, when the principal may change it."""
    if kept.model is None:
        raise MlflowError(
            f"The file {kept.name[:300]!r} belongs to a registered model version, whose files stay.",
            RESOURCE_ALREADY_EXISTS,
        )
    require_change(call, kept.model)
    return kept.model


def add_kept(call: Call, kept: KeptFiles, file: RunFile) -> None:
    """Name a stored body as a file of a logged model; the file of that name that was there is replaced."""
    model = check_writable(call, kept)

    def edit(document: LoggedDocument) -> LoggedDocument:
        others = [one for one in document.files if one.name != file.name]
        return replace(document, files=sorted([*others, file], key=lambda one: one.name))

    edit_logged(call, model, edit, stamp=False)


def delete_kept(call: Call, kept: KeptFiles) -> None:
    """Delete a file, or all below a folder, of a logged model."""
    model = check_writable(call, kept)
    gone = {file.name for file in kept.files if not kept.name or file.name == kept.name or _is_in(file, kept.name)}
    if not gone:
        raise no_file(kept.name)

    def edit(document: LoggedDocument) -> LoggedDocument:
        return replace(document, files=[file for file in document.files if file.name not in gone])

    edit_logged(call, model, edit, stamp=False)
    call.context.services.collecting.note()


def download_kept(call: Call, kept: KeptFiles, name: str) -> Response:
    """Return a file's bytes, as a download."""
    file = next((one for one in kept.files if one.name == name), None)
    if file is None:
        raise no_file(name)
    services = call.context.services
    return download_answer(
        file.name,
        file.size,
        lambda window: read_model_file(services, file, offset=window.start, limit=window.length),
        window=window_of(call.request.headers.get("range"), size=file.size, offset=0, limit=None),
    )


def no_file(name: str) -> MlflowError:
    """Return the error for a file that is not there."""
    return MlflowError(f"No such artifact: {name[:300]!r}.", RESOURCE_DOES_NOT_EXIST)


def _is_in(file: RunFile, folder: str) -> bool:
    return file.name.startswith(f"{folder.rstrip('/')}/")
