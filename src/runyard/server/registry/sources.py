"""The sources that versions are made from: files of our runs, logged models and versions. Nothing else is read.

`runs:/<id>/<path>`, `models:/<name>/<version or stage>`, `models:/<name>@<alias>`, `models:/m-<id>`,
`mlflow-artifacts:/…`, and the addresses that this server and the `azureml://` plug-in show for the files of a run.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from runyard.core.errors import InvalidArgument
from runyard.core.names import RUN_ID, clean_file_name
from runyard.core.records import Asset, ModelSpec
from runyard.server.http.model_files import files_of_run, is_below, is_prompt, spec_of
from runyard.server.mlflow.checks import leads_out
from runyard.server.mlflow.endpoints import Call
from runyard.server.mlflow.entities import ARTIFACT_URI
from runyard.server.mlflow.errors import MlflowError
from runyard.server.registry.logged_records import LoggedModel, find_logged
from runyard.server.registry.names import LATEST, stage_in, stage_of, version_by_alias
from runyard.server.registry.records import find_quoted, get_registered, get_version

_ARTIFACTS = "api/2.0/mlflow-artifacts/artifacts"
_MODEL_ID = re.compile(r"m-\w+")


def spec_from(call: Call, source: str, run_id: str, model_id: str) -> ModelSpec:
    """Return what a new version of that source is made of. `run_id` and `model_id` are empty where none was named.

    Raises:
        MlflowError: the source is not ours, or does not belong to the run or the logged model that was named.
        NotAllowed: the principal may not read it.
    """
    if leads_out(source, may_be_absolute=True):
        raise MlflowError(
            f"Invalid model version source: '{source[:300]}'. If supplying a source as an http, https, local file "
            "path, ftp, objectstore, or mlflow-artifacts uri, an absolute path must be provided without relative path "
            "references present. Please provide an absolute path."
        )
    return _Resolver(call, source, run_id, model_id).spec()


class _Resolver:
    """One source on its way to a version."""

    def __init__(self, call: Call, source: str, run_id: str, model_id: str) -> None:
        self._call = call
        self._source = source
        self._run_id = run_id
        self._model_id = model_id

    def spec(self) -> ModelSpec:
        try:
            parts = urlsplit(self._source)
        except ValueError:
            self._refuse()
        path = re.sub("/+", "/", parts.path).strip("/")
        if parts.scheme in ("", "file"):
            raise MlflowError(
                f"Invalid model version source: '{self._source[:300]}'. To use a local path as a model version source, "
                "the run_id request parameter has to be specified and the local path has to be contained within the "
                "artifact directory of the run specified by the run_id."
            )
        if parts.scheme == "runs" and not parts.netloc:
            run_id, _, path = path.partition("/")
            return self._of_run(run_id, path, must_be=False)
        if parts.scheme == "models" and not parts.netloc:
            return self._of_model(path)
        if parts.scheme == "mlflow-artifacts" and not parts.netloc:
            return self._of_place(path)
        if parts.scheme in ("http", "https"):
            _, separator, place = f"/{path}".partition(f"/mlflow/{self._call.workspace}/{_ARTIFACTS}/")
            if separator:
                return self._of_place(unquote(place))
        if parts.scheme == "azureml":
            _, separator, place = path.partition(f"/workspaces/{self._call.workspace}/runs/")
            if separator:
                return self._of_place(f"runs/{place}")
        if self._is_kept_elsewhere():
            return ModelSpec(
                source=self._source,
                run_id=self._run_id or None,
                location=self._source,
                logged_model=self._model_id,
            )
        self._refuse("This server registers the files of its own runs and models: log the model to a run first.")

    def _is_kept_elsewhere(self) -> bool:
        """Whether the named run or logged model has its files where the source is: in a store of its client."""
        roots = []
        if RUN_ID.fullmatch(self._run_id):
            self._call.require("read_run", self._run_id)
            run = self._call.store.find_run(self._run_id)
            roots += [] if run is None or run.workspace != self._call.workspace else [run.properties.get(ARTIFACT_URI)]
        model = self._logged()
        roots += [] if model is None else [model.document.location]
        return any(root and is_below(self._source, root.rstrip("/")) for root in roots)

    def _of_place(self, path: str) -> ModelSpec:
        kind, _, rest = path.partition("/")
        name, _, below = rest.partition("/")
        if kind == "runs" and name:
            return self._of_run(name, below, must_be=True)
        if kind == "models" and name:
            return self._of_logged(find_logged(self._call, name), below)
        if kind == "registered" and name:
            version, _, inner = below.partition("/")
            found = find_quoted(self._call, name)
            if found is not None and not inner:
                return self._of_version(get_version(self._call, found.name, version))
        self._refuse()

    def _of_run(self, run_id: str, path: str, *, must_be: bool) -> ModelSpec:
        """Return the files of a run. A run that is not here has none; only its address is kept."""
        if not RUN_ID.fullmatch(run_id):
            self._refuse()
        self._call.require("read_run", run_id)
        run = self._call.store.find_run(run_id)
        if run is None or run.workspace != self._call.workspace:
            if must_be:
                self._refuse()
            return ModelSpec(source=self._source, run_id=self._run_id or None, location=self._source)
        model = self._logged()
        if self._run_id not in ("", run_id) or (model is not None and model.source_run_id not in ("", run_id)):
            self._refuse()
        try:
            path = clean_file_name(path) if path else ""
        except InvalidArgument:
            self._refuse()
        found = files_of_run(self._call.context.services, run, path)
        return ModelSpec(
            path=found.path,
            is_folder=found.is_folder,
            files=found.files,
            run_id=run_id,
            run_path=path,
            experiment=run.experiment,
            source=self._source,
            logged_model=self._model_id,
        )

    def _of_model(self, path: str) -> ModelSpec:
        name, slash, suffix = path.partition("/")
        if not slash and _MODEL_ID.fullmatch(name):
            return self._of_logged(find_logged(self._call, name), "")
        if slash:
            return self._of_version(self._version_of(name, suffix))
        name, at, alias = path.rpartition("@")
        if not at or not name or not alias:
            self._refuse(field="model_id")
        return self._of_version(version_by_alias(get_registered(self._call, name), alias))

    def _version_of(self, name: str, suffix: str) -> Asset:
        if suffix.isdigit():
            return get_version(self._call, name, suffix)
        found = get_registered(self._call, name)
        if suffix.lower() == LATEST:
            return version_by_alias(found, LATEST)
        stage = stage_of(suffix)
        for asset in reversed(found.versions):
            if stage_in(asset) == stage:
                return asset
        self._refuse(field="model_id")

    def _of_version(self, asset: Asset) -> ModelSpec:
        """Return the same content as that of a version."""
        old = spec_of(self._call.context.services, asset)
        if is_prompt(old):
            raise MlflowError(
                f"Invalid model version source: '{self._source[:300]}'. Prompt versions cannot be used as model "
                "version sources."
            )
        if self._run_id not in ("", old.run_id or "") or self._model_id not in ("", old.logged_model):
            raise MlflowError(
                f"Invalid model version source: '{self._source[:300]}'. The run_id and model_id request parameters "
                "must match the referenced model version."
            )
        source = f"models:/{asset.name}/{asset.version}" if self._source.startswith("models:") else self._source
        return replace(old, tags={}, properties={}, description="", stage="", run_link="", created_by="", source=source)

    def _of_logged(self, model: LoggedModel | None, below: str) -> ModelSpec:
        if model is None or below or self._model_id not in ("", model.id):
            self._refuse(field="model_id")
        if self._run_id not in ("", model.source_run_id):
            self._refuse()
        found = model.files(self._call)
        return ModelSpec(
            path=found.path,
            is_folder=True,
            files=found.files,
            run_id=model.source_run_id or None,
            run_path=model.folder,
            experiment=model.experiment_name(self._call),
            source=self._source,
            logged_model=model.id,
        )

    def _logged(self) -> LoggedModel | None:
        if not self._model_id:
            return None
        model = find_logged(self._call, self._model_id)
        if model is None:
            self._refuse(field="model_id")
        return model

    def _refuse(self, hint: str = "", *, field: str = "run_id") -> NoReturn:
        hint = hint or f"The {field} request parameter must identify the resource that contains the source."
        raise MlflowError(f"Invalid model version source: '{self._source[:300]}'. {hint}")
