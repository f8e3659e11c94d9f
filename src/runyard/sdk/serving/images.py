"""Images of 2018: a stored definition (models, script, packages) that services are made from. No Docker is needed."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from runyard.client.calls.workspace import AssetCalls
from runyard.core.errors import NotFound
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.records import IMAGE_KIND, Asset
from runyard.core.webservices import Definition, RevisionSpec
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import note_without_effect, user_name
from runyard.sdk.errors import raises_azure_errors, translates
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.files import Search, has_all
from runyard.sdk.models.model import Model
from runyard.sdk.serving.deployment import plan_revision, service_errors
from runyard.sdk.serving.inference_config import RUNTIMES, InferenceConfig, check_entry_script
from runyard.sdk.serving.sources import ScriptSource

if TYPE_CHECKING:
    from runyard.sdk.environments.environment import ContainerRegistry
    from runyard.sdk.workspaces.workspace import Workspace

SUCCEEDED = "Succeeded"
FLAVOR, TYPE = "WebApiContainer", "Docker"
_DELETED = "deleted"


class ImageConfig(AzureClass):
    """What an image is made from; `ContainerImage.image_configuration` returns one."""

    def validate_configuration(self) -> None:
        """Raises WebserviceException: no image can be made from it."""


@raises_azure_errors
class ContainerImageConfig(ImageConfig):
    """A script, its packages, and files beside it. Its attributes are the parameters of `image_configuration`."""

    def __init__(
        self,
        execution_script: str,
        runtime: str,
        conda_file: Optional[str] = None,
        docker_file: Optional[str] = None,
        schema_file: Optional[str] = None,
        dependencies: Optional[Sequence[str]] = None,
        enable_gpu: Optional[bool] = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        base_image: Optional[str] = None,
        base_image_registry: Optional[ContainerRegistry] = None,
        allow_absolute_path: bool = False,
        cuda_version: Optional[str] = None,
    ) -> None:
        self.execution_script = execution_script
        self.runtime = runtime
        self.conda_file = conda_file
        self.docker_file = docker_file
        self.schema_file = schema_file
        self.dependencies = dependencies
        self.enable_gpu = enable_gpu
        self.tags = tags
        self.properties = properties
        self.description = description
        self.base_image = base_image
        self.base_image_registry = base_image_registry
        self.allow_absolute_path = allow_absolute_path
        self.cuda_version = cuda_version
        self.execution_script_path = os.path.abspath(os.path.expanduser(str(execution_script)))
        self.validate_configuration()

    def validate_configuration(self) -> None:
        """Raises WebserviceException: a file is missing, or there is no such runtime."""
        check_entry_script(self.execution_script, self.execution_script_path)
        if str(self.runtime).lower() not in RUNTIMES:
            raise WebserviceException(f"There is no runtime {self.runtime!r}. Known: {', '.join(RUNTIMES)}.")
        if isinstance(self.dependencies, str):
            raise WebserviceException(f"dependencies must be a list of paths, found {self.dependencies!r:.100}.")
        for path in [self.conda_file, self.docker_file, self.schema_file, *(self.dependencies or ())]:
            if path is not None and not os.path.exists(path):
                raise WebserviceException(f"`{path}` does not exist: looked for {os.path.abspath(path)}.")

    def _source(self) -> ScriptSource:
        """Return the script with the files beside it, each under its base name."""
        entry = os.path.basename(self.execution_script_path)
        beside = [*(self.dependencies or ()), *([self.schema_file] if self.schema_file else ())]
        files = {os.path.abspath(path): os.path.basename(os.path.abspath(path)) for path in beside}
        return ScriptSource(entry, files={**files, self.execution_script_path: entry})


def plan_image(workspace: Workspace, models: Any, config: Any, *, register: bool = True) -> RevisionSpec:
    """Return what a revision serves that is made from an image configuration.

    Raises:
        WebserviceException: it is none, or a file is missing.
    """
    if isinstance(config, InferenceConfig):
        raise WebserviceException("An image is made from ContainerImage.image_configuration(...), not InferenceConfig.")
    if not isinstance(config, ContainerImageConfig):
        raise WebserviceException(
            f"image_config is what ContainerImage.image_configuration() returns, found a {type(config).__name__}."
        )
    config.validate_configuration()
    note_without_effect(
        {
            "docker_file": config.docker_file,
            "enable_gpu": config.enable_gpu or None,
            "cuda_version": config.cuda_version,
        }
    )
    packages = InferenceConfig(
        config.execution_script_path,
        config.runtime,
        _absolute(config.conda_file),
        base_image=config.base_image,
        base_image_registry=config.base_image_registry,
    )
    return plan_revision(workspace, models, config._source(), packages.make_environment(), register=register)


@raises_azure_errors
class Image(AzureClass):
    """An image in one version: the latest of its name, unless `version` or `id` (`name:version`) says another.

    Raises:
        WebserviceException: there is none (`ImageNotFound`).
    """

    workspace: Workspace
    _asset: Asset

    @translates
    def __new__(
        cls,
        workspace: Workspace,
        name: Optional[str] = None,
        id: Optional[str] = None,
        tags: Search = None,
        properties: Search = None,
        version: Union[int, str, None] = None,
    ) -> Image:
        if id is not None:
            name, _, number = str(id).rpartition(":")
            version = int(number) if number.isdigit() else None
            name = name or str(id)
        if not name:
            raise WebserviceException("An image is found by its name or its id, such as Image(ws, name='mnist').")
        wanted = int(version) if version is not None else None
        found = [
            one
            for one in _list_versions(workspace, name)
            if wanted in (None, one.version) and _fits(one, None, tags, properties)
        ]
        if not found:
            raise WebserviceException(
                f"ImageNotFound: workspace `{workspace.name}` has no image `{name}`"
                f"{f' in version {wanted}' if wanted is not None else ''} like that.",
                status_code=404,
            )
        return _made(workspace, found[-1])

    @staticmethod
    def create(workspace: Workspace, name: str, models: Sequence[Any], image_config: Any) -> ContainerImage:
        """Keep models with a script and its packages as the next version of an image.

        Raises:
            WebserviceException: a model or file is missing.
        """
        print("Creating image")
        revision = plan_image(workspace, models, image_config)
        document: Definition = {
            "revision": to_plain(revision),
            "tags": {str(key): str(value) for key, value in (image_config.tags or {}).items()},
            "properties": {str(key): str(value) for key, value in (image_config.properties or {}).items()},
            "description": image_config.description or "",
            "createdBy": user_name(),
            "targetRuntime": {"runtimeType": image_config.runtime, "targetArchitecture": "Amd64"},
        }
        with service_errors():
            return _made(workspace, _calls(workspace).put(workspace.name, IMAGE_KIND, name, document))

    @staticmethod
    @translates
    def list(
        workspace: Workspace,
        image_name: Optional[str] = None,
        model_name: Optional[str] = None,
        model_id: Optional[str] = None,
        tags: Search = None,
        properties: Search = None,
    ) -> List[Image]:
        """Return the images that match, in all their versions, the newest first.

        Args:
            workspace: of the images.
            image_name: its name.
            model_name: a model in it, in any version.
            model_id: a model in it, `name:version`.
            tags: `['key', ['key', 'value']]`: those that have all of them; `properties` alike.
            properties: as tags.
        """
        with service_errors():
            newest = _calls(workspace).list(workspace.name, IMAGE_KIND)
        names = [one.name for one in newest if image_name in (None, one.name)]
        model = model_id or (f"{model_name}:" if model_name else None)
        found = [
            one for name in names for one in _list_versions(workspace, name) if _fits(one, model, tags, properties)
        ]
        found.sort(key=lambda one: (one.created_at, one.version), reverse=True)
        return [_made(workspace, one) for one in found]

    @staticmethod
    def image_configuration() -> Any:
        """Raises NotImplementedError: `ContainerImage.image_configuration` is meant."""
        raise NotImplementedError("ContainerImage.image_configuration(...) returns what Image.create takes.")

    @property
    def name(self) -> str:
        return self._asset.name

    @property
    def version(self) -> int:
        return self._asset.version

    @property
    def id(self) -> str:
        return f"{self.name}:{self.version}"

    @property
    def revision(self) -> RevisionSpec:
        """What services that are made from it serve."""
        spec = from_plain(RevisionSpec, self._asset.document["revision"])
        return replace(spec, definition={**spec.definition, "imageId": self.id})

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._asset.document.get("tags") or {})

    @property
    def properties(self) -> Dict[str, str]:
        return dict(self._asset.document.get("properties") or {})

    @property
    def description(self) -> Optional[str]:
        return self._asset.document.get("description") or None

    @property
    def created_by(self) -> str:
        return str(self._asset.document.get("createdBy") or "")

    @property
    def created_time(self) -> datetime:
        return self._asset.created_at

    @property
    def creation_state(self) -> str:
        return SUCCEEDED

    @property
    def creation_error(self) -> None:
        return None

    @property
    def image_flavor(self) -> str:
        return FLAVOR

    @property
    def image_type(self) -> str:
        return TYPE

    @property
    def image_location(self) -> str:
        """The address that names it here; it lies in no registry of containers."""
        return f"runyard://{self.workspace.name}/images/{self.id}"

    @property
    def image_build_log_uri(self) -> Optional[str]:
        """The page of the server that shows the workspace: an image has no build of its own."""
        return self.workspace._client.address.web_url

    @property
    def generated_image_location(self) -> str:
        return self.image_location

    @property
    def models(self) -> List[Model]:
        """The models in it, as far as they are there."""
        found = []
        for model_id in self.revision.models:
            name, _, version = model_id.rpartition(":")
            try:
                found.append(Model(self.workspace, name, version=int(version)))
            except NotFound:
                continue
        return found

    def wait_for_creation(self, show_output: bool = False) -> None:
        """Return when it can be deployed, which is at once."""
        if show_output:
            print(
                f'Running\n{SUCCEEDED}\nImage creation operation finished for image {self.id}, operation "{SUCCEEDED}"'
            )

    def update_creation_state(self) -> None:
        """Read it again.

        Raises:
            WebserviceException: it was deleted.
        """
        self._asset = Image(self.workspace, id=self.id)._asset

    def update(self, tags: Mapping[str, Any]) -> None:
        """Replace its tags."""
        self._change(tags={str(key): str(value) for key, value in tags.items()})

    def add_tags(self, tags: Mapping[str, Any]) -> None:
        self._change(tags={**self.tags, **{str(key): str(value) for key, value in tags.items()}})

    def remove_tags(self, tags: Union[str, Sequence[str]]) -> None:
        gone = {tags} if isinstance(tags, str) else set(tags)
        self._change(tags={name: value for name, value in self.tags.items() if name not in gone})

    def add_properties(self, properties: Mapping[str, Any]) -> None:
        """Raises WebserviceException: one of them is there; properties cannot be changed."""
        taken = sorted(set(map(str, properties)) & set(self.properties))
        if taken:
            raise WebserviceException(f"Properties cannot be changed: {', '.join(taken)}. Use a tag.")
        self._change(properties={**self.properties, **{str(key): str(value) for key, value in properties.items()}})

    def delete(self) -> None:
        """Delete this version. Services that were made from it go on. Twice is fine."""
        with service_errors():
            others = [one for one in _list_versions(self.workspace, self.name) if one.version != self.version]
            if others:  # its number stays taken
                self._change(**{_DELETED: True, "revision": {}})
            else:
                _calls(self.workspace).delete(self.workspace.name, IMAGE_KIND, self.name)

    def serialize(self) -> Definition:
        """Return what is known about it, with Azure's keys."""
        revision = self.revision
        return {
            "id": self.id,
            "name": self.name,
            "version": self.version,
            "createdTime": self.created_time.isoformat(),
            "createdBy": self.created_by,
            "description": self.description,
            "tags": self.tags,
            "properties": self.properties,
            "creationState": self.creation_state,
            "error": None,
            "imageFlavor": self.image_flavor,
            "imageType": self.image_type,
            "imageLocation": self.image_location,
            "imageBuildLogUri": self.image_build_log_uri,
            "modelIds": list(revision.models),
            "modelDetails": [model.serialize() for model in self.models],
            "driverProgram": revision.entry,
            "targetRuntime": self._asset.document.get("targetRuntime"),
            "environment": revision.environment.definition or None,
        }

    @classmethod
    def deserialize(cls, workspace: Workspace, image_payload: Mapping[str, Any]) -> Image:
        """Return the image that a JSON form names."""
        return Image(workspace, id=str(image_payload["id"]))

    def __repr__(self) -> str:
        about = f"name={self.name}, id={self.id}, creation_state={self.creation_state}"
        return f"{type(self).__name__}(workspace={self.workspace!r}, {about})"

    def _change(self, **fields: Any) -> None:
        document = {**self._asset.document, **fields}
        with service_errors():
            self._asset = _calls(self.workspace).update(
                self.workspace.name, IMAGE_KIND, self.name, version=self.version, document=document
            )


@raises_azure_errors
class ContainerImage(Image):
    """An image that a service is made from."""

    @staticmethod
    def image_configuration(  # type: ignore[override]  # its own parameters
        execution_script: str,
        runtime: str,
        conda_file: Optional[str] = None,
        docker_file: Optional[str] = None,
        schema_file: Optional[str] = None,
        dependencies: Optional[Sequence[str]] = None,
        enable_gpu: Optional[bool] = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        base_image: Optional[str] = None,
        base_image_registry: Optional[ContainerRegistry] = None,
        cuda_version: Optional[str] = None,
    ) -> ContainerImageConfig:
        """Return what `Image.create` takes. Dockerfiles, base images and GPUs are kept without effect.

        Raises:
            WebserviceException: a file is missing, or the script is no Python module.
        """
        return ContainerImageConfig(**locals())

    def run(self, input_data: Any) -> Any:
        """Raises WebserviceException: an image answers nothing before it is deployed."""
        raise WebserviceException(
            f"The image {self.id} is not served. Webservice.deploy_from_image(...) makes a service of it, whose run() "
            "answers."
        )


class UnknownImage(Image):
    """An image of a type that this version does not know."""


def _made(workspace: Workspace, asset: Asset) -> ContainerImage:
    made = object.__new__(ContainerImage)
    made.workspace, made._asset = workspace, asset
    return made


def _list_versions(workspace: Workspace, name: str) -> List[Asset]:
    try:
        found = _calls(workspace).list(workspace.name, IMAGE_KIND, name=name)
    except NotFound:
        return []
    return [one for one in found if not one.document.get(_DELETED)]


def _fits(asset: Asset, model: Optional[str], tags: Search, properties: Search) -> bool:
    models = [str(one) for one in (asset.document.get("revision") or {}).get("models") or ()]
    has_model = model is None or any(
        one.rpartition(":")[0] == model[:-1] if model.endswith(":") else one == model for one in models
    )
    about = asset.document
    return has_model and has_all(about.get("tags") or {}, tags) and has_all(about.get("properties") or {}, properties)


def _calls(workspace: Workspace) -> AssetCalls:
    return workspace._client.assets


def _absolute(path: Optional[str]) -> Optional[str]:
    return os.path.abspath(path) if path is not None else None
