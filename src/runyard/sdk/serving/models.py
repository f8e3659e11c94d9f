"""Which models a service gets: models of the workspace by object or id, and files of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from runyard.client.calls.workspace import ModelCalls
from runyard.core.errors import NotFound
from runyard.core.records import ModelVersion
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.model import Model

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace

MOST_OF_NAME = 30  # of a file's base name, as on Azure
UNREGISTERED = 0  # the version of a model that only its service has
_SMALL = 1 << 20


@dataclass(frozen=True)
class ServedModel:
    """`record` None: a file or folder at `path` that is not registered."""

    name: str
    version: int
    record: Optional[ModelVersion] = None
    path: str = ""

    @property
    def id(self) -> str:
        return f"{self.name}:{self.version}"

    @property
    def framework(self) -> str:
        return self.record.spec.framework if self.record is not None else "Custom"

    @property
    def framework_version(self) -> str:
        return self.record.spec.framework_version if self.record is not None else ""

    def files(self) -> List[str]:
        """Return the names of its files."""
        if self.record is not None:
            return [file.name for file in self.record.spec.files]
        if not os.path.isdir(self.path):
            return [os.path.basename(self.path)]
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.path) for name in sorted(names)]

    def read_text(self, workspace: Workspace, base_name: str) -> str:
        """Return the text of its small file of that base name; "" when it has none."""
        if self.record is None:
            found = [one for one in self.files() if os.path.basename(one) == base_name]
            return _text_of(found[0]) if found else ""
        for file in self.record.spec.files:
            if os.path.basename(file.name) == base_name and file.size <= _SMALL:
                return _fetch(workspace, self.record, file)
        return ""


def resolve_models(workspace: Workspace, models: Any, *, register: bool) -> List[ServedModel]:
    """Return what is meant by Model objects, ids (`name:version`, or a name) and paths of files or folders.

    Args:
        workspace: where the models are.
        models: one of them, or a list.
        register: files become models of the workspace, as on Azure; else they travel with the service.

    Raises:
        WebserviceException: one is neither a model of the workspace nor a path that exists.
    """
    given: Sequence[Any] = [models] if isinstance(models, (str, os.PathLike, Model)) else list(models or ())
    found = [_resolve(workspace, one, register=register) for one in given]
    names = [one.name for one in found if one.version == UNREGISTERED]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise WebserviceException(
            f"Two models would be called `{twice[0]}`, after the first {MOST_OF_NAME} letters of their files' names. "
            "Register them under names of their own: Model.register(ws, model_path, model_name)."
        )
    return list({one.id: one for one in found}.values())


def local_files(models: Sequence[ServedModel]) -> Dict[Tuple[str, int], str]:
    """Return the paths of those that are not registered, by name and version."""
    return {(one.name, one.version): one.path for one in models if one.record is None}


def _resolve(workspace: Workspace, one: Any, *, register: bool) -> ServedModel:
    if isinstance(one, Model):
        return ServedModel(one.name, one.version, one._model)
    if not isinstance(one, (str, os.PathLike)) or not os.fspath(one):
        raise WebserviceException(f"models are Model objects, ids or paths of files, found {one!r:.100}.")
    text = os.fspath(one)
    path = os.path.abspath(os.path.expanduser(text))
    is_path = os.sep in text or os.path.exists(path)
    registered = None if is_path and os.sep in text else _find(workspace, text)
    if registered is not None:
        return ServedModel(registered.name, registered.version, registered)
    if not os.path.exists(path):
        raise WebserviceException(
            f"ModelNotFound: there is neither a model `{text}` in workspace `{workspace.name}` nor a file {path}.\n"
            "Models are given as Model objects, ids (`name:version`) or paths."
        )
    name = os.path.basename(path)[:MOST_OF_NAME]
    if not register:
        return ServedModel(name, UNREGISTERED, path=path)
    made = Model.register(workspace, path, name)
    return ServedModel(made.name, made.version, made._model)


def _find(workspace: Workspace, text: str) -> Optional[ModelVersion]:
    calls = ModelCalls(workspace._client.transport)
    name, _, number = text.rpartition(":")
    candidates = [(name, int(number))] if name and number.isdigit() else []
    for known, version in [*candidates, (text, None)]:
        try:
            return calls.get(workspace.name, known, version=version)
        except NotFound:
            continue
    return None


def _fetch(workspace: Workspace, record: ModelVersion, file: Any) -> str:
    from tempfile import TemporaryDirectory  # few deploys read a model

    with TemporaryDirectory(prefix="runyard-model-") as folder:
        target = os.path.join(folder, "file")
        ModelCalls(workspace._client.transport).download(record, file, target)
        return _text_of(target)


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_SMALL)
