"""The content of registered models: files of a run or of an upload, named once more and never copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from runyard.core.errors import DamagedContent, NotFound
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.records import KIND, Asset, ModelSpec, Run, RunFile
from runyard.server.http.answers import damaged_file
from runyard.server.services import Services

PROMPT_TAG = "mlflow.prompt.is_prompt"  # on versions and names that hold a prompt of MLflow, which is no model
WHOLE_RUN = "model"  # the base name of a model that is all the files of a run


@dataclass(frozen=True)
class ModelFiles:
    """What a path of a run holds, named as it is downloaded: `model.pkl`, or `model/MLmodel` and others."""

    path: str
    is_folder: bool
    files: list[RunFile]


def files_of_run(services: Services, run: Run, path: str) -> ModelFiles:
    """Return the file or folder of a run as a model's; logs that still grow are left out. It may be empty."""
    parent, _, base = path.rpartition("/")
    found = [file for file in services.store.list_files(run.id) if not path or is_below(file.name, path)]
    prefix, cut = (f"{WHOLE_RUN}/", 0) if not path else ("", len(parent) + 1 if parent else 0)
    blobs = [replace(file, name=prefix + file.name[cut:]) for file in found if file.kind == "blob"]
    return ModelFiles(base or WHOLE_RUN, all(file.name != path for file in found), blobs)


def spec_of(services: Services, asset: Asset) -> ModelSpec:
    """Return a version with its files.

    MLflow's clients may register what their run has not sent yet. The files are found when they are asked for, and
    belong to the version for good once the run has ended.
    """
    spec = from_plain(ModelSpec, asset.document)
    if spec.files or spec.location or not spec.run_id or is_prompt(spec):
        return spec
    run = services.store.find_run(spec.run_id)
    if run is None or run.workspace != asset.workspace:
        return spec
    found = files_of_run(services, run, spec.run_path)
    bound = replace(spec, is_folder=found.is_folder, files=found.files)
    if found.files and run.status.is_terminal:
        services.store.edit_asset(
            asset.workspace,
            KIND,
            asset.name,
            lambda old: {**old.document, **{key: to_plain(bound)[key] for key in ("is_folder", "files")}},
            version=asset.version,
            stamp=False,
        )
    return bound


def read_model_file(services: Services, file: RunFile, *, offset: int = 0, limit: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of one of a model's files.

    Raises:
        DamagedContent: they are damaged or gone.
    """
    size = file.size - offset if limit is None else limit
    try:
        yield from services.content.read_file(file.chunks, offset=offset, limit=size)
    except (NotFound, DamagedContent) as error:
        raise damaged_file(file.name, error) from error


def is_prompt(spec: ModelSpec) -> bool:
    """Whether a version is a prompt of MLflow: a text, and no model."""
    return spec.tags.get(PROMPT_TAG, "").lower() == "true"


def is_below(name: str, path: str) -> bool:
    """Whether a file is `path` or lies below that folder."""
    return name == path or name.startswith(f"{path}/")
