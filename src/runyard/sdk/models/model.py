"""`Model`: files that a workspace keeps by name, in versions, with their origin."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from runyard.client.calls.workspace import ModelCalls
from runyard.core.errors import NotFound
from runyard.core.records import ModelSpec, ModelVersion
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import check_texts, note_without_effect, user_name
from runyard.sdk.errors import azure_error, raises_azure_errors, translates, unsupported
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.files import MODELS, download, matches, model_folder, plain_form, upload

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run
    from runyard.sdk.serving.inference_config import InferenceConfig
    from runyard.sdk.serving.package import ModelPackage
    from runyard.sdk.serving.profile import ModelProfile
    from runyard.sdk.webservices.webservice import Webservice
    from runyard.sdk.workspaces.workspace import Workspace

SAMPLE_INPUT, SAMPLE_OUTPUT = "sample input", "sample output"  # what a dataset of a model is for
Datasets = Sequence[Tuple[str, Any]]
Search = Optional[Sequence[Union[str, Sequence[str]]]]


@raises_azure_errors
class Model(AzureClass):
    """One version of a model: the latest of its name, unless `version` or `id` says another.

    Raises:
        WebserviceException: there is none (`ModelNotFound`).
    """

    class Framework:
        CUSTOM: ClassVar[str] = "Custom"
        TENSORFLOW: ClassVar[str] = "TensorFlow"
        SCIKITLEARN: ClassVar[str] = "ScikitLearn"
        ONNX: ClassVar[str] = "Onnx"
        TFKERAS: ClassVar[str] = "TFKeras"
        PYTORCH: ClassVar[str] = "PyTorch"
        MULTI: ClassVar[str] = "Multi"

    def __init__(
        self,
        workspace: Workspace,
        name: Optional[str] = None,
        id: Optional[str] = None,
        tags: Search = None,
        properties: Search = None,
        version: Optional[int] = None,
        run_id: Optional[str] = None,
        model_framework: Optional[str] = None,
        expand: bool = True,
    ) -> None:
        if id is not None:
            name, _, number = id.rpartition(":")
            version = int(number) if number.isdigit() else None
        if not name:
            raise WebserviceException("A model is found by its name or its id, such as Model(ws, name='mnist').")
        found = _find(workspace, name, version, tags, properties, run_id, model_framework)
        self._set(workspace, found)

    @classmethod
    def _of(cls, workspace: Workspace, found: ModelVersion) -> Model:
        model = cls.__new__(cls)
        model._set(workspace, found)
        return model

    def _set(self, workspace: Workspace, found: ModelVersion) -> None:
        self.workspace = workspace
        self._model = found
        spec = found.spec
        self.name = found.name
        self.version = found.version
        self.id = f"{found.name}:{found.version}"
        self.url = f"aml://asset/{self.id}"
        self.description = spec.description or None
        self.tags: Dict[str, str] = dict(spec.tags)
        self.properties: Dict[str, str] = dict(spec.properties)
        self.created_time = found.created_at
        self.created_by = spec.created_by
        self.model_framework = spec.framework
        self.model_framework_version = spec.framework_version or None
        self.run_id = spec.run_id
        self.experiment_name = spec.experiment or None
        self.mime_type = "application/x-python"
        self.resource_configuration = spec.resources or None

    def __repr__(self) -> str:
        about = f"name={self.name}, id={self.id}, version={self.version}, tags={self.tags}"
        return f"Model(workspace={self.workspace!r}, {about}, properties={self.properties})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and (other.id, other.workspace.name) == (self.id, self.workspace.name)

    def __hash__(self) -> int:
        return hash((self.id, self.workspace.name))

    @property
    def run(self) -> Optional[Run]:
        """The run that it was registered from; None when it was none, or is deleted."""
        if self.run_id is None:
            return None
        try:
            return self.workspace.get_run(self.run_id)
        except NotFound:
            return None

    @property
    def datasets(self) -> Dict[str, List[Any]]:
        """The datasets that were named at its registration, by what they were for; of one that is not registered, or
        not any more, the id.
        """
        found: Dict[str, List[Any]] = {}
        for purpose, dataset in self._model.spec.datasets:
            if purpose not in (SAMPLE_INPUT, SAMPLE_OUTPUT):
                found.setdefault(purpose, []).append(_dataset(self.workspace, dataset))
        return found

    @property
    def sample_input_dataset(self) -> Any:
        """The dataset that was named at its registration as one that it takes; None when none was."""
        return self._sample(SAMPLE_INPUT)

    @property
    def sample_output_dataset(self) -> Any:
        """The dataset that was named at its registration as one that it gives; None when none was."""
        return self._sample(SAMPLE_OUTPUT)

    def _sample(self, purpose: str) -> Any:
        found = [dataset for known, dataset in self._model.spec.datasets if known == purpose]
        return _dataset(self.workspace, found[0]) if found else None

    @staticmethod
    def register(
        workspace: Workspace,
        model_path: str,
        model_name: str,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        datasets: Optional[Datasets] = None,
        model_framework: Optional[str] = None,
        model_framework_version: Optional[str] = None,
        child_paths: Optional[Sequence[str]] = None,
        sample_input_dataset: Any = None,
        sample_output_dataset: Any = None,
        resource_configuration: Any = None,
    ) -> Model:
        """Keep a file or folder of this machine as the next version of `model_name`.

        Raises:
            WebserviceException: there is nothing at `model_path`, or an argument cannot be.
        """
        spec = describe_model(
            tags=tags,
            properties=properties,
            description=description,
            datasets=datasets,
            framework=model_framework,
            framework_version=model_framework_version,
            resource_configuration=resource_configuration,
            sample_input_dataset=sample_input_dataset,
            sample_output_dataset=sample_output_dataset,
        )
        print(f"Registering model {model_name}")
        whole = upload(workspace._client, model_path, spec, child_paths=child_paths)
        return Model._of(workspace, _calls(workspace).register(workspace.name, model_name, whole))

    @staticmethod
    @translates
    def list(
        workspace: Workspace,
        name: Optional[str] = None,
        tags: Search = None,
        properties: Search = None,
        run_id: Optional[str] = None,
        latest: bool = False,
        dataset_id: Optional[str] = None,
        expand: bool = True,
        page_count: int = 255,
        model_framework: Optional[str] = None,
    ) -> List[Model]:
        """Return the models that match, the newest first.

        Args:
            tags: `['key', ['key', 'value']]`: those that have all of them; `properties` alike.
            latest: only the latest version of each name.
        """
        check_texts(name=name, run_id=run_id, dataset_id=dataset_id, model_framework=model_framework)
        versions = _calls(workspace).list(workspace.name, name=name)
        if latest:
            versions = list({one.name: one for one in versions}.values())
        found = [
            one
            for one in versions
            if matches(one.spec, tags, properties, run_id=run_id, dataset_id=dataset_id, framework=model_framework)
        ]
        found.sort(key=lambda one: (one.created_at, one.version), reverse=True)
        return [Model._of(workspace, one) for one in found]

    @staticmethod
    @translates
    def get_model_path(model_name: str, version: Optional[int] = None, _workspace: Optional[Workspace] = None) -> str:
        """Return the path of the model's file or folder on this machine; it is downloaded when it is not there yet.

        Raises:
            WebserviceException: there is no such model.
        """
        deployed = model_folder(model_name, version)
        if deployed is not None:
            return deployed
        workspace = _workspace or _present_workspace()
        model = Model(workspace, model_name, version=version)
        folder = os.path.join(MODELS, plain_form(model.name), str(model.version))
        return model.download(folder, exist_ok=True)

    @staticmethod
    def _get_model_path_remote(model_name: str, version: Optional[int], workspace: Workspace) -> str:
        """Scripts call Azure's private function, which takes the workspace."""
        return Model.get_model_path(model_name, version, workspace)

    def download(self, target_dir: str = ".", exist_ok: bool = False, exists_ok: Optional[bool] = None) -> str:
        """Write the model's file or folder below `target_dir` and return its path.

        Raises:
            WebserviceException: it is there already, and `exist_ok` is false.
        """
        return download(_calls(self.workspace), self._model, target_dir, exist_ok=exist_ok or bool(exists_ok))

    def update(
        self,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        sample_input_dataset: Any = None,
        sample_output_dataset: Any = None,
        resource_configuration: Any = None,
    ) -> None:
        """Replace the tags, or the description, of this version."""
        note_without_effect(
            {
                "sample_input_dataset": sample_input_dataset,
                "sample_output_dataset": sample_output_dataset,
                "resource_configuration": resource_configuration,
            }
        )
        gone = [key for key in self.tags if tags is not None and key not in tags]
        self._change(description=description, tags_set=_texts("tags", tags), tags_remove=gone)

    def add_tags(self, tags: Mapping[str, Any]) -> None:
        self._change(tags_set=_texts("tags", tags))

    def remove_tags(self, tags: Sequence[str]) -> None:
        self._change(tags_remove=list(tags))

    def add_properties(self, properties: Mapping[str, Any]) -> None:
        """Raises WebserviceException: one of them is there; properties cannot be changed."""
        self._change(properties_add=_texts("properties", properties))

    def update_tags_properties(
        self,
        add_tags: Optional[Mapping[str, Any]] = None,
        remove_tags: Optional[Sequence[str]] = None,
        add_properties: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self._change(
            tags_set=_texts("tags", add_tags),
            tags_remove=list(remove_tags or ()),
            properties_add=_texts("properties", add_properties),
        )

    @staticmethod
    @translates
    def deploy(
        workspace: Workspace,
        name: str,
        models: Sequence[Any],
        inference_config: Optional[InferenceConfig] = None,
        deployment_config: Any = None,
        deployment_target: Any = None,
        overwrite: bool = False,
        show_output: bool = False,
    ) -> Webservice:
        """Serve models under a name and return the service at once: `wait_for_deployment()` waits until it answers.

        Args:
            workspace: of the models and the service.
            name: 3 to 32 small letters, digits and dashes.
            models: Model objects, ids (`name:version`) or paths of files.
            inference_config: the entry script and its environment; None for a model whose framework serves it.
            deployment_config: what LocalWebservice, AciWebservice, AksWebservice or AksEndpoint.deploy_configuration
                returns.
            deployment_target: the compute target that replicas run on; by default they run beside the server.
            overwrite: deploy a new revision of a service of that name.
            show_output: print the configuration.

        Raises:
            WebserviceException: it cannot be served, or its name is taken and `overwrite` is not set.
        """
        from runyard.sdk.webservices.ways import deploy_model  # few scripts deploy

        return deploy_model(
            workspace,
            name,
            models,
            inference_config,
            deployment_config,
            deployment_target,
            overwrite,
            show_output,
        )

    @staticmethod
    def print_configuration(
        models: Sequence[Any], inference_config: Any, deployment_config: Any, deployment_target: Any
    ) -> None:
        """Print what `deploy` would do."""
        from runyard.sdk.webservices.ways import print_plan  # as above

        print_plan(models, inference_config, deployment_config, deployment_target)

    @staticmethod
    @translates
    def package(
        workspace: Workspace,
        models: Sequence[Any],
        inference_config: Optional[InferenceConfig] = None,
        generate_dockerfile: bool = False,
        image_name: Optional[str] = None,
        image_label: Optional[str] = None,
    ) -> ModelPackage:
        """Put models, script and environment into a folder that answers requests anywhere, or into an image of it.

        Args:
            workspace: of the models.
            models: Model objects, ids (`name:version`) or paths of files.
            inference_config: the entry script and its environment; None for a model whose framework serves it.
            generate_dockerfile: make a folder, which `save` writes; else an image, with podman or docker.
            image_name: of the image; without one it is `package`.
            image_label: its tag; without one the time.

        Raises:
            WebserviceException: it cannot be served, or no image can be built here.
        """
        from runyard.sdk.serving.package import make_package  # few scripts make packages

        return make_package(
            workspace,
            models,
            inference_config,
            generate_dockerfile=generate_dockerfile,
            image_name=image_name,
            image_label=image_label,
        )

    @staticmethod
    @translates
    def profile(
        workspace: Workspace,
        profile_name: str,
        models: Sequence[Any],
        inference_config: InferenceConfig,
        input_dataset: Any,
        cpu: Optional[float] = None,
        memory_in_gb: Optional[float] = None,
        description: Optional[str] = None,
    ) -> ModelProfile:
        """Find out how fast models answer and what they need: a run replays requests against a service of its own.

        Args:
            workspace: of the models.
            profile_name: what the profile is called.
            models: Model objects, ids (`name:version`) or paths of files.
            inference_config: the entry script and its environment.
            input_dataset: a TabularDataset with one column of text: the body of a request in each row.
            cpu: 0.1 to 3.5; that many worker processes, rounded up.
            memory_in_gb: 0.1 to 15; shown beside what was used.
            description: what it is for.

        Raises:
            UserErrorException: the dataset or a number cannot be.
            WebserviceException: the models cannot be served.
        """
        from runyard.sdk.serving.profile import start_profile  # few scripts make profiles

        return start_profile(
            workspace,
            profile_name,
            models,
            inference_config,
            input_dataset,
            cpu=cpu,
            memory_in_gb=memory_in_gb,
            description=description,
        )

    def delete(self) -> None:
        """Delete this version; its bytes are freed unless something else has them too."""
        _calls(self.workspace).delete(self.workspace.name, self.name, self.version)

    def serialize(self) -> Dict[str, Any]:
        spec = self._model.spec
        return {
            "createdTime": self.created_time.isoformat(),
            "createdBy": spec.created_by,
            "description": spec.description,
            "experimentName": self.experiment_name,
            "framework": spec.framework,
            "frameworkVersion": spec.framework_version,
            "id": self.id,
            "name": self.name,
            "properties": dict(spec.properties),
            "runId": spec.run_id,
            "tags": dict(spec.tags),
            "url": self.url,
            "version": self.version,
            "workspaceName": self.workspace.name,
        }

    def get_sas_urls(self) -> Dict[str, str]:
        unsupported(
            "Addresses of a model's files that need no sign-in", hint="model.download(target_dir) fetches them."
        )

    def _change(self, **changes: Any) -> None:
        changed = _calls(self.workspace).change(self.workspace.name, self.name, self.version, **changes)
        self._set(self.workspace, changed)


def describe_model(
    *,
    tags: Optional[Mapping[str, Any]],
    properties: Optional[Mapping[str, Any]],
    description: Optional[str],
    datasets: Optional[Datasets],
    framework: Optional[str],
    framework_version: Optional[str],
    resource_configuration: Any = None,
    sample_input_dataset: Any = None,
    sample_output_dataset: Any = None,
    run_id: Optional[str] = None,
) -> ModelSpec:
    """Return what is said about a new version.

    Raises:
        WebserviceException: an argument cannot be.
    """
    if framework_version and not framework:
        raise WebserviceException("model_framework_version is given without model_framework.")
    samples = [(SAMPLE_INPUT, sample_input_dataset), (SAMPLE_OUTPUT, sample_output_dataset)]
    _check_samples(sample_input_dataset, sample_output_dataset)
    if resource_configuration is not None and not hasattr(resource_configuration, "memory_in_gb"):
        raise WebserviceException(
            f"resource_configuration is a {type(resource_configuration).__name__}, not a ResourceConfiguration."
        )
    named = [*(datasets or ()), *((purpose, dataset) for purpose, dataset in samples if dataset is not None)]
    return ModelSpec(
        description=description or "",
        tags=_texts("tags", tags),
        properties=_texts("properties", properties),
        framework=framework or Model.Framework.CUSTOM,
        framework_version=str(framework_version or ""),
        datasets=[[str(purpose), str(getattr(dataset, "id", dataset))] for purpose, dataset in named],
        resources={key: value for key, value in vars(resource_configuration).items() if not key.startswith("_")}
        if resource_configuration is not None
        else {},
        run_id=run_id,
        created_by=user_name(),
    )


def _check_samples(*datasets: Any) -> None:
    for dataset in datasets:
        if dataset is not None and not isinstance(dataset, str) and not hasattr(dataset, "id"):
            raise WebserviceException(f"A sample dataset is a dataset or the id of one, found {dataset!r:.100}.")


def _texts(what: str, values: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    if values is not None and not isinstance(values, Mapping):
        raise WebserviceException(f"{what} must be a dictionary, not a {type(values).__name__}.")
    return {str(key): str(value) for key, value in (values or {}).items()}


def _find(
    workspace: Workspace,
    name: str,
    version: Optional[int],
    tags: Search,
    properties: Search,
    run_id: Optional[str],
    framework: Optional[str],
) -> ModelVersion:
    calls = _calls(workspace)
    try:
        if version is not None or not (tags or properties or run_id or framework):
            return calls.get(workspace.name, name, version=None if version is None else int(version))
    except NotFound as error:
        raise azure_error(error, WebserviceException) from None
    versions = calls.list(workspace.name, name=name)
    found = [one for one in versions if matches(one.spec, tags, properties, run_id=run_id, framework=framework)]
    if not found:
        raise WebserviceException(f"ModelNotFound: no version of `{name}` in `{workspace.name}` is like that.")
    return found[-1]


def _calls(workspace: Workspace) -> ModelCalls:
    return ModelCalls(workspace._client.transport)


def _dataset(workspace: Workspace, dataset_id: str) -> Any:
    from runyard.sdk.data.dataset import Dataset  # few models are asked for theirs

    try:
        return Dataset.get_by_id(workspace, dataset_id)
    except NotFound:
        return dataset_id


def _present_workspace() -> Workspace:
    """Return the workspace of the run that this script is; outside of one, the one that `config.json` names."""
    from runyard.sdk.runs.run import Run  # which knows this class too
    from runyard.sdk.workspaces.workspace import Workspace

    run = Run.get_context()
    experiment = getattr(run, "experiment", None)
    return experiment.workspace if experiment is not None else Workspace.from_config()
