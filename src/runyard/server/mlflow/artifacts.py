"""Endpoints of artifacts: the files of a run, which MLflow's clients reach as `mlflow-artifacts:/runs/<id>/<name>`.

A file is one request's body. It has its name once all of it is stored, so one that is cut off leaves nothing behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypedDict

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.names import clean_file_name
from runyard.core.records import MLFLOW_RUN, Run, RunFile
from runyard.server.http.answers import download_answer, json_answer, window_of
from runyard.server.http.model_files import is_below
from runyard.server.http.uploads import receive_file, take_back
from runyard.server.mlflow.checks import leads_out
from runyard.server.mlflow.endpoints import Call, Document, endpoint, streamed
from runyard.server.mlflow.entities import ARTIFACT_URI, RUN_ARTIFACTS
from runyard.server.mlflow.errors import (
    BAD_REQUEST,
    NOT_IMPLEMENTED,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
    MlflowError,
)
from runyard.server.registry import files
from runyard.server.registry.logged_records import get_logged
from runyard.server.routes.files import as_it_is, find_in, read_window

FILES = "mlflow-artifacts/artifacts"
LOGGED = "mlflow/logged-models"
_PLACE = re.compile(r"runs/(?P<run_id>[^/]+)(?:/(?P<name>.*))?", re.DOTALL)


class Listed(TypedDict, total=False):
    """A file or folder in a list; folders have no size."""

    path: str
    is_dir: bool
    file_size: int


@streamed("PUT", f"{FILES}/{{path:path}}", "add_file", "put_workspace", *files.VERBS)
async def put_artifact(call: Call) -> Response:
    """Store the body as a file of the run. A run that has ended keeps the file that it has."""
    owner, name = await run_in_threadpool(_writable, call)
    length = call.request.headers.get("content-length", "")
    file = await receive_file(
        call.context, name, call.request.stream(), announced=int(length) if length.isdigit() else None
    )
    try:
        await run_in_threadpool(_name_file, call, owner, file)
    except BaseException:
        await take_back(call.context, file)
        raise
    return json_answer({})


@streamed("GET", f"{FILES}/{{path:path}}", "read_run", "put_workspace", *files.VERBS)
async def get_artifact(call: Call) -> Response:
    """Return a file's bytes, as a download."""
    return await run_in_threadpool(_download_at, call)


@streamed("GET", "get-artifact", "read_run", "put_workspace")
@streamed("GET", "mlflow/artifacts/get", "read_run", "put_workspace")
async def get_run_artifact(call: Call) -> Response:
    """The same by `run_id` and `path`."""
    run_id = call.fields.text("run_id", "") or call.fields.text("run_uuid")
    name = _checked(call.fields.text("path"))
    return await run_in_threadpool(_download, call, run_id, name)


@streamed("GET", "model-versions/get-artifact", "read_run", "put_workspace", *files.VERBS)
async def get_version_artifact(call: Call) -> Response:
    """The same of a model version, by `name`, `version` and `path`."""
    return await run_in_threadpool(_download_of_version, call)


@endpoint("DELETE", f"{FILES}/{{path:path}}", "add_file", "put_workspace", *files.VERBS)
def delete_artifact(call: Call) -> Document:
    """Delete a file, or all below a folder, while the run may still change."""
    run, name = _writable(call)
    if isinstance(run, files.KeptFiles):
        files.delete_kept(call, run)
        return {}
    _check_open(run, name)
    found = [file.name for file in _files(call, run) if file.name == name or file.name.startswith(f"{name}/")]
    if not found:
        raise _no_artifact(run, name)
    call.store.delete_files(run.id, found)
    call.context.services.collecting.note()
    return {}


@endpoint("GET", FILES, "read_run", "put_workspace", *files.VERBS)
def list_artifacts_at(call: Call) -> Document:
    """List a folder; the paths are relative to it."""
    path = files.place_in_run(call, call.fields.text("path"))
    kept = files.find_kept(call, path)
    if kept is not None:
        folder = _checked(kept.name.removesuffix("/")) if kept.name else ""
        listed = list_folder(((file.name, file.size) for file in kept.files), folder)
    else:
        run_id, folder = _place_of(path)
        listed = _listed(call, call.run("read_run", run_id), folder)
    cut = len(folder) + 1 if folder else 0
    return {"files": [Listed({**item, "path": item["path"][cut:]}) for item in listed if item["path"] != folder]}


@endpoint("GET", f"{LOGGED}/{{model_id}}/artifacts/directories", "read_run", "put_workspace", *files.VERBS)
def list_logged_model_artifacts(call: Call) -> Document:
    """List a folder of a logged model; the paths are relative to its files."""
    model, path = get_logged(call, call.path["model_id"]), call.fields.text("artifact_directory_path", "")
    folder = _checked(path.removesuffix("/")) if path else ""
    found = model.files(call)
    cut = len(found.path) + 1
    listed = list_folder(((file.name[cut:], file.size) for file in found.files), folder)
    return {"root_uri": model.artifact_uri, "files": listed}


@streamed("GET", f"{LOGGED}/{{model_id}}/artifacts/files", "read_run", "put_workspace", *files.VERBS)
async def get_logged_model_artifact(call: Call) -> Response:
    """Return a file of a logged model, as a download."""
    return await run_in_threadpool(_download_of_logged, call)


@endpoint("GET", "mlflow/artifacts/list", "read_run", "put_workspace")
def list_artifacts(call: Call) -> Document:
    """List a folder of a run; the paths are relative to the run's files."""
    run_id = call.fields.text("run_id", "") or call.fields.text("run_uuid")
    path = call.fields.text("path", "")
    run = call.run("read_run", run_id)
    listed = _listed(call, run, _checked(path) if path else "")
    elsewhere = run.properties.get(ARTIFACT_URI)
    if elsewhere is not None and not listed:
        raise MlflowError(
            f"The files of this run are at '{elsewhere}', where its client put them: the experiment has an "
            "artifact_location of its own. This server does not read them; list them with MLflow's client.",
            NOT_IMPLEMENTED,
        )
    return {"root_uri": elsewhere or f"{RUN_ARTIFACTS}{run.id}", "files": listed}


@endpoint("POST", "mlflow-artifacts/mpu/{action}/{path:path}", "add_file", "put_workspace")
@endpoint("GET", "mlflow-artifacts/presigned/{path:path}", "read_run", "put_workspace")
def refuse_parts(_call: Call) -> Document:
    """Say that a file comes and goes in one request: clients then do that."""
    raise MlflowError("This server takes each file as the body of one PUT request.", NOT_IMPLEMENTED)


def _place_of(path: str) -> tuple[str, str]:
    """Return the run and the name of a path, `runs/<id>/<name>`; the name may be empty."""
    place = _PLACE.fullmatch(path.removesuffix("/"))
    if place is None:
        raise MlflowError(f"Invalid path {path[:300]!r}: files of a run are below `runs/<its id>/`.")
    return place["run_id"], _checked(place["name"]) if place["name"] else ""


def _checked(name: str) -> str:
    """Return a file's name; what leads out of the run's files is refused, however often it was encoded."""
    if leads_out(name):
        raise _invalid()
    try:
        return clean_file_name(name)
    except InvalidArgument:
        raise _invalid() from None


def _invalid() -> MlflowError:
    return MlflowError("Invalid path")


def _writable(call: Call) -> tuple[Run | files.KeptFiles, str]:
    path = files.place_in_run(call, call.path["path"])
    kept = files.find_kept(call, path)
    if kept is not None:
        files.check_writable(call, kept)
        return kept, _checked(kept.name)
    run_id, name = _place_of(path)
    if not name:
        raise _invalid()
    return call.run("add_file", run_id), name


def _is_open(run: Run) -> bool:
    return not run.status.is_terminal or run.type == MLFLOW_RUN  # MLflow's clients go on with a run that has ended


def _check_open(run: Run, name: str) -> None:
    if not _is_open(run):
        raise MlflowError(f"Run '{run.id}' has ended, so its file {name[:300]!r} stays.")


def _name_file(call: Call, run: Run | files.KeptFiles, file: RunFile) -> None:
    if isinstance(run, files.KeptFiles):
        files.add_kept(call, run, file)
        return
    call.context.services.quotas.add(run, file)
    try:
        call.store.put_file(run.id, file, replace=_is_open(run))
    except Conflict as error:
        raise MlflowError(str(error), RESOURCE_ALREADY_EXISTS) from None


def _download_at(call: Call) -> Response:
    path = files.place_in_run(call, call.path["path"])
    kept = files.find_kept(call, path)
    if kept is not None:
        return files.download_kept(call, kept, _checked(kept.name))
    return _download(call, *_place_of(path))


def _download_of_logged(call: Call) -> Response:
    model, path = get_logged(call, call.path["model_id"]), call.fields.text("artifact_file_path", "")
    if not path:
        raise MlflowError('Request must include the "artifact_file_path" query parameter.', BAD_REQUEST)
    name = _checked(path)
    if model.folder:
        return _download(call, model.source_run_id, f"{model.folder}/{name}")
    return files.download_kept(call, files.KeptFiles(model.document.files, name), name)


def _download_of_version(call: Call) -> Response:
    name = _checked(call.fields.text("path"))
    call.require("read_workspace")
    return files.download_kept(
        call, files.kept_of_version(call, call.fields.text("name"), call.fields.text("version"), name), name
    )


def _download(call: Call, run_id: str, name: str) -> Response:
    run, services = call.run("read_run", run_id), call.context.services
    try:
        found = find_in(services, run, name)
    except NotFound:
        raise _no_artifact(run, name) from None
    return download_answer(
        found.file.name,
        found.size,
        lambda window: read_window(services, found, window),
        window=window_of(call.request.headers.get("range"), size=found.size, offset=0, limit=None),
        complete=found.complete,
    )


def _no_artifact(run: Run, name: str) -> MlflowError:
    return MlflowError(f"No such artifact: {name[:300]!r} of run '{run.id}'.", RESOURCE_DOES_NOT_EXIST)


def _files(call: Call, run: Run) -> Iterable[RunFile]:
    return call.store.list_files(run.id, with_chunks=False)


def _listed(call: Call, run: Run, folder: str) -> list[Listed]:
    """Return the files and folders right below `folder`, or the file of that name, sorted by path."""
    return list_folder(
        (
            (file.name, as_it_is(call.context.services, run, file).size)
            for file in _files(call, run)
            if not folder or is_below(file.name, folder)
        ),
        folder,
    )


def list_folder(named: Iterable[tuple[str, int]], folder: str) -> list[Listed]:
    """Return the files, given by name and size, and the folders right below `folder`, or the file of that name."""
    below = f"{folder}/" if folder else ""
    found: dict[str, Listed] = {}
    for name, size in named:
        if name == folder or (name.startswith(below) and "/" not in name[len(below) :]):
            found[name] = {"path": name, "is_dir": False, "file_size": size}
        elif name.startswith(below):
            path = below + name[len(below) :].partition("/")[0]
            found[path] = {"path": path, "is_dir": True}
    return [found[path] for path in sorted(found)]
