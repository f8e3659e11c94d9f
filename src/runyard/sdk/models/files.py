"""The files of a model: upload to the server, download, and the filter of a search for models."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Iterator, Mapping, Optional, Sequence, Set, Tuple, Union

from runyard.core.machine.progress import Progress
from runyard.core.names import PLAIN_NAME, clean_file_name, stored_file_name, true_file_name
from runyard.core.records import ModelSpec, ModelVersion
from runyard.sdk.config.texts import warn_once
from runyard.sdk.exceptions import WebserviceException

if TYPE_CHECKING:
    from runyard.client.calls.workspace import ModelCalls
    from runyard.client.client import Client


DEPLOYED = "AZUREML_MODEL_DIR"  # where a service finds its models
MODELS = "azureml-models"  # the folder of all of them, below the app root


def upload(client: Client, path: str, spec: ModelSpec, *, child_paths: Optional[Sequence[str]] = None) -> ModelSpec:
    """Send what the server lacks of a file or folder and return the spec with its files.

    Raises:
        WebserviceException: there is nothing at the path.
    """
    source = os.path.abspath(os.path.expanduser(os.fspath(path)))
    if not os.path.exists(source):
        raise WebserviceException(
            f"The model's path `{path}` does not exist (looked in {os.getcwd()}): a file or a folder is needed."
        )
    base, is_folder = os.path.basename(source), os.path.isdir(source)
    found = list(_walk(source, base)) if is_folder else [(base, source)]
    if child_paths and not is_folder:
        warn_once(f"child_paths choose files of a folder; `{path}` is a file and is registered as it is.")
    if child_paths is not None and (isinstance(child_paths, str) or not isinstance(child_paths, Sequence)):
        raise WebserviceException(f"child_paths must be a list of paths, found {child_paths!r:.100}.")
    wanted = {clean_file_name(f"{base}/{child}") for child in child_paths or ()} if is_folder else set()
    chosen = [(name, where) for name, where in found if not wanted or _is_wanted(name, wanted)]
    if not chosen:
        raise WebserviceException(f"There is no file in the model's folder `{path}`.")
    with Progress("uploading the model", sum(os.path.getsize(where) for _, where in chosen)) as progress:
        files = [
            client.content.upload_file(where, name=stored_file_name(name), progress=progress.add)
            for name, where in chosen
        ]
    return replace(spec, path=stored_file_name(base), is_folder=is_folder, files=files)


def download(calls: ModelCalls, model: ModelVersion, folder: str, *, exist_ok: bool) -> str:
    """Write the model below `folder` and return the path of its file or folder."""
    target = os.path.join(folder, true_file_name(model.spec.path))
    if os.path.lexists(target) and not exist_ok:
        raise WebserviceException(
            f"Illegal state: `{target}` is there already, so model `{model.name}:{model.version}` was not downloaded. "
            "Pass exist_ok=True to replace it, or another target_dir."
        )
    with Progress(f"downloading {model.name}:{model.version}", sum(file.size for file in model.spec.files)) as progress:
        for file in model.spec.files:
            progress.add(0, file.name)
            calls.download(model, file, os.path.join(folder, true_file_name(file.name)), progress=progress.add)
    return target


def plain_form(name: str) -> str:
    """Return the form of a model's name in paths: the name itself, or what is plain of it and a digest."""
    if PLAIN_NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8")).hexdigest()[:16]
    plain = re.sub(r"[^\w.\-]", "_", name[:200], flags=re.ASCII)
    return f"{plain if plain[:1].isalnum() else f'x{plain}'}-{digest}"


def model_folder(name: str, version: Optional[int]) -> Optional[str]:
    """Return the path of a model that was put beside this program (a service's), None where there is none.

    Raises:
        WebserviceException: its folder does not hold exactly one file or folder.
    """
    for deployed in _deployed_roots():
        root = os.path.join(deployed, plain_form(name))
        versions = _versions(root)
        if versions and (version is None or version in versions):
            folder = os.path.join(root, str(version if version is not None else max(versions)))
            entries = os.listdir(folder)
            if len(entries) != 1:
                raise WebserviceException(
                    f"`{folder}` must hold one file or folder, the model; it holds {len(entries)}."
                )
            return os.path.join(folder, entries[0])
    return None


def _deployed_roots() -> Iterator[str]:
    """Yield the folders that may hold `NAME/VERSION`.

    AZUREML_MODEL_DIR is such a folder where a service has several models, and one model's own folder where it has one.
    """
    deployed, app_root = os.environ.get(DEPLOYED), os.environ.get("AML_APP_ROOT")
    if deployed:
        yield deployed
        yield os.path.dirname(os.path.dirname(os.path.abspath(deployed)))
    if app_root:
        yield os.path.join(app_root, MODELS)
    yield MODELS


def _versions(folder: str) -> Sequence[int]:
    try:
        return [int(entry) for entry in os.listdir(folder) if entry.isdigit()]
    except OSError:
        return []


def _walk(source: str, base: str) -> Iterator[Tuple[str, str]]:
    for folder, folders, names in os.walk(source):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield f"{base}/{os.path.relpath(path, source)}".replace(os.sep, "/"), path


def _is_wanted(name: str, wanted: Set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}/") for one in wanted)


Search = Optional[Sequence[Union[str, Sequence[str]]]]


def matches(
    spec: ModelSpec,
    tags: Search = None,
    properties: Search = None,
    *,
    run_id: Optional[str] = None,
    dataset_id: Optional[str] = None,
    framework: Optional[str] = None,
) -> bool:
    """Whether a model has all that is asked for; `tags` and `properties` are `['key', ['key', 'value'], …]`."""
    return (
        has_all(spec.tags, tags)
        and has_all(spec.properties, properties)
        and run_id in (None, spec.run_id)
        and framework in (None, spec.framework)
        and (dataset_id is None or any(dataset == dataset_id for _, dataset in spec.datasets))
    )


def has_all(values: Mapping[str, str], wanted: Search) -> bool:
    """Whether tags or properties have all of `['key', ['key', 'value'], …]`."""
    if isinstance(wanted, Mapping):
        return all(values.get(str(key)) == str(value) for key, value in wanted.items())
    return all(_has(values, one) for one in wanted or ())


def _has(values: Mapping[str, str], one: Union[str, Sequence[str]]) -> bool:
    if isinstance(one, str):
        return one in values
    key, *value = one
    return values.get(str(key)) == str(value[0]) if value else str(key) in values
