"""`Webservice`: a model that answers requests. `Webservice(ws, name)` is the object of the class that fits."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

from runyard.core import webservices as records
from runyard.core.errors import NotFound
from runyard.core.webservices import PRIMARY, SECONDARY, Definition, RevisionSpec, ServiceChange
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.environments.environment import Environment
from runyard.sdk.errors import raises_azure_errors, translates
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.model import Model
from runyard.sdk.serving.deployment import service_errors
from runyard.sdk.webservices.configuration import ACI, AKS, AKS_ENDPOINT, LOCAL, texts
from runyard.sdk.webservices.scoring import body_of, failed_answer, send
from runyard.sdk.webservices.waiting import deployment_error, failure_of, read_logs, wait_for_end

if TYPE_CHECKING:
    from runyard.sdk.serving.images import Image
    from runyard.sdk.workspaces.workspace import Workspace

Search = Optional[Sequence[Union[str, Sequence[str]]]]
DELETING = "Deleting"
MOST_LINES = 5000


@raises_azure_errors
class Webservice(AzureClass):
    """A service of a workspace, as it stood at the last `update_deployment_state()`.

    Raises:
        WebserviceException: the workspace has none of that name (`WebserviceNotFound`), or it is of another class.
    """

    _kinds: ClassVar[Tuple[str, ...]] = ()  # Azure's words for the compute types of this class; (): of any
    workspace: Workspace
    _record: records.Webservice
    _is_deleted: bool
    _key: Optional[str]

    @translates
    def __new__(cls, workspace: Workspace, name: str) -> Webservice:
        with service_errors():
            return cls._known(workspace, workspace._client.webservices.get(workspace.name, name))

    @classmethod
    def _known(cls, workspace: Workspace, record: records.Webservice) -> Webservice:
        fitting = class_of(record.settings.compute_type)
        if not issubclass(fitting, cls):
            raise WebserviceException(
                f"The web service `{record.name}` is of type {record.settings.compute_type}, not a {cls.__name__}.\n"
                f"Webservice(ws, {record.name!r}) returns it as what it is."
            )
        made = object.__new__(fitting)
        made.workspace, made._record, made._is_deleted, made._key = workspace, record, False, None
        return made

    @staticmethod
    def deploy(
        workspace: Workspace,
        name: str,
        model_paths: Sequence[str],
        image_config: Any,
        deployment_config: Any = None,
        deployment_target: Any = None,
        overwrite: bool = False,
    ) -> Webservice:
        """Register the files as models, make an image of them and deploy that.

        Raises:
            WebserviceException: it cannot be served, or its name is taken and `overwrite` is not set.
        """
        from runyard.sdk.webservices.ways import deploy_paths  # most services are made by Model.deploy

        return deploy_paths(workspace, name, model_paths, image_config, deployment_config, deployment_target, overwrite)

    @staticmethod
    def deploy_from_model(
        workspace: Workspace,
        name: str,
        models: Sequence[Any],
        image_config: Any,
        deployment_config: Any = None,
        deployment_target: Any = None,
        overwrite: bool = False,
    ) -> Webservice:
        """Make an image of models and deploy that.

        Raises:
            WebserviceException: it cannot be served, or its name is taken and `overwrite` is not set.
        """
        from runyard.sdk.webservices.ways import deploy_models  # as above

        return deploy_models(workspace, name, models, image_config, deployment_config, deployment_target, overwrite)

    @staticmethod
    def deploy_from_image(
        workspace: Workspace,
        name: str,
        image: Any,
        deployment_config: Any = None,
        deployment_target: Any = None,
        overwrite: bool = False,
    ) -> Webservice:
        """Deploy an image, which is an Image or the id of one.

        Raises:
            WebserviceException: it cannot be served, or its name is taken and `overwrite` is not set.
        """
        from runyard.sdk.webservices.ways import deploy_image  # as above

        return deploy_image(workspace, name, image, deployment_config, deployment_target, overwrite)

    @staticmethod
    def deploy_local_from_model(
        workspace: Workspace,
        name: str,
        models: Sequence[Any],
        image_config: Any,
        deployment_config: Any = None,
        wait: bool = False,
    ) -> Webservice:
        """Serve models on a port of this machine; with `wait` return when they answer."""
        from runyard.sdk.webservices.ways import deploy_local  # as above

        return deploy_local(workspace, name, models, image_config, deployment_config, wait=wait)

    @staticmethod
    def check_for_existing_webservice(
        workspace: Workspace, name: str, overwrite: bool = False, request_func: Any = None, check_func: Any = None
    ) -> None:
        """Raises WebserviceException: there is a service of that name, and `overwrite` is not set."""
        note_without_effect({"request_func": request_func, "check_func": check_func})
        if not overwrite and find_record(workspace, name) is not None:
            raise WebserviceException(
                f"There is a web service `{name}` in workspace `{workspace.name}` already. Pass overwrite=True to "
                "deploy over it, or delete it first.",
                status_code=409,
            )

    @staticmethod
    @translates
    def list(
        workspace: Workspace,
        compute_type: Optional[str] = None,
        image_name: Optional[str] = None,
        image_id: Optional[str] = None,
        model_name: Optional[str] = None,
        model_id: Optional[str] = None,
        tags: Search = None,
        properties: Search = None,
        image_digest: Optional[str] = None,
    ) -> List[Webservice]:
        """Return the services that match, by name. Local ones are listed by `compute_type='Local'` alone.

        Args:
            workspace: of the services.
            compute_type: ACI, AKS, AKSENDPOINT or Local.
            image_name: the image that it was deployed from.
            image_id: the image in a version, `name:version`.
            model_name: a model that it serves, in any version.
            model_id: a model in a version.
            tags: `['key', ['key', 'value']]`: those that have all of them; `properties` alike.
            properties: as tags.
            image_digest: images here have none, so with it nothing is found.
        """
        from runyard.sdk.webservices.catalog import list_services  # a deploy needs no list

        return list_services(
            workspace,
            compute_type=compute_type,
            image=image_id or (f"{image_name}:" if image_name else None),
            model=model_id or (f"{model_name}:" if model_name else None),
            tags=tags,
            properties=properties,
            image_digest=image_digest,
        )

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def compute_type(self) -> str:
        """ACI, AKS, AKSENDPOINT or Local."""
        return self._record.settings.compute_type

    @property
    def compute_name(self) -> str:
        return self._record.settings.compute_name

    @property
    def state(self) -> str:
        """Transitioning, Healthy, Unhealthy or Failed; Deleting after `delete()`."""
        return DELETING if self._is_deleted else self._record.state

    @property
    def error(self) -> Optional[Definition]:
        """Why it does not serve, or why the last update did not succeed: code, statusCode, message, details."""
        return failure_of(self._record)

    @property
    def scoring_uri(self) -> str:
        return self._record.scoring_uri

    @property
    def swagger_uri(self) -> str:
        return f"{self.scoring_uri.rpartition('/')[0]}/swagger.json"

    @property
    def auth_enabled(self) -> bool:
        """Whether requests need a key."""
        return bool(self._record.settings.auth)

    @property
    def token_auth_enabled(self) -> bool:
        """Whether requests need a token."""
        return self._record.settings.token_auth

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._record.settings.tags)

    @property
    def properties(self) -> Dict[str, str]:
        return dict(self._record.settings.properties)

    @property
    def description(self) -> Optional[str]:
        return self._record.settings.description or None

    @property
    def created_time(self) -> datetime:
        return self._record.created_at

    @property
    def updated_time(self) -> datetime:
        return self._record.updated_at

    @property
    def created_by(self) -> str:
        return self._record.created_by

    @property
    def location(self) -> Optional[str]:
        return self._record.settings.definition.get("location") or self.workspace.location

    @property
    def enable_app_insights(self) -> bool:
        return bool(self._record.settings.definition.get("enable_app_insights"))

    @property
    def image_id(self) -> Optional[str]:
        """The image that it was deployed from."""
        found = self._spec.definition.get("imageId")
        return str(found) if found else None

    @property
    def image(self) -> Optional[Image]:
        """The image that it was deployed from; None: it was deployed without one."""
        if self.image_id is None:
            return None
        from runyard.sdk.serving.images import Image  # few services are made of one

        return Image(self.workspace, id=self.image_id)

    @property
    def models(self) -> List[Model]:
        """The models that it serves, as far as they are registered and there."""
        return [found for found in map(self._model, self._spec.models) if found is not None]

    @property
    def environment(self) -> Optional[Environment]:
        """The environment of its replicas."""
        from runyard.sdk.config.files import FilePosition  # few scripts ask
        from runyard.sdk.environments.files import read_environment

        plain = self._spec.environment.definition
        if not plain:
            return None
        made = Environment(str(plain.get("name") or self._spec.environment.name))
        read_environment(made, plain, FilePosition(f"web service {self.name}", "."))
        return made

    @property
    def deployment_status(self) -> Optional[str]:
        """The state of the last operation: Running, Succeeded or Failed."""
        return self._record.operation.state if self._record.operation is not None else None

    def update_deployment_state(self) -> None:
        """Read again how it stands.

        Raises:
            WebserviceException: it was deleted.
        """
        with service_errors():
            self._record = self.workspace._client.webservices.get(self.workspace.name, self.name)

    def wait_for_deployment(self, show_output: bool = False, timeout_sec: Optional[float] = None) -> None:
        """Return when it serves what was deployed last.

        Raises:
            WebserviceException: that failed, with its cause and last lines; or (504) the time was over.
        """
        self._wait(show_output=show_output, timeout_s=timeout_sec)
        operation = self._record.operation
        state = operation.state if operation is not None else self.state
        if show_output:
            print(state)
            print(f'{self.compute_type} service {self._verb()} operation finished, operation "{state}"')
        self._raise_failure()

    def run(self, input_data: Any) -> Any:
        """Send a body (text or bytes) and return the decoded JSON of the answer.

        Raises:
            WebserviceException: the service answered another status than 200; `status_code` is that.
        """
        return self._score(input_data)

    def get_logs(self, num_lines: int = MOST_LINES, init: bool = False) -> str:
        """Return the last lines that its replicas printed; `init` has no effect: their start is in them."""
        self._read_record()
        with service_errors():
            return read_logs(self.workspace._client, self._record, num_lines)

    def get_keys(self) -> Tuple[str, str]:
        """Return the primary and the secondary key; each opens the service."""
        with service_errors():
            return self.workspace._client.webservices.keys(self.workspace.name, self.name)

    def regen_key(self, key: str, set_key: Optional[str] = None) -> None:
        """Replace the key `Primary` or `Secondary`, by `set_key` where it is given; the other one goes on to work."""
        which = {one.lower(): one for one in (PRIMARY, SECONDARY)}.get(str(key).lower())
        if which is None:
            raise WebserviceException(f"There is no key {key!r}. Pass 'Primary' or 'Secondary'.")
        with service_errors():
            self.workspace._client.webservices.set_key(self.workspace.name, self.name, which, set_key)
        self._key = None

    def get_token(self) -> Tuple[str, datetime]:
        """Return a token that opens the service, and when to ask for the next one."""
        raise NotImplementedError(f"Services of type {self.compute_type} take no tokens; get_keys() has their keys.")

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Change it; each kind of service has its own arguments."""
        raise NotImplementedError(f"A service of type {self.compute_type} cannot be updated.")

    def add_tags(self, tags: Mapping[str, Any]) -> None:
        """Add tags, or change their values."""
        if not isinstance(tags, Mapping):
            raise WebserviceException(f"tags must be a dictionary, found {tags!r:.100}.")
        self._change(tags={**self.tags, **texts(tags)})

    def remove_tags(self, tags: Union[str, Sequence[str]]) -> None:
        """Remove tags by their names; those that are not there are passed over."""
        gone = {tags} if isinstance(tags, str) else set(tags)
        self._change(tags={name: value for name, value in self.tags.items() if name not in gone})

    def add_properties(self, properties: Mapping[str, Any]) -> None:
        """Raises WebserviceException: one of them is there; properties cannot be changed."""
        if not isinstance(properties, Mapping):
            raise WebserviceException(f"properties must be a dictionary, found {properties!r:.100}.")
        self._change(properties_add=texts(properties))

    def delete(self) -> None:
        """Answer what is under way, then end it and all its replicas. Twice is fine."""
        with service_errors():
            self.workspace._client.webservices.delete(self.workspace.name, self.name)
        self._is_deleted = True

    def serialize(self) -> Definition:
        """Return what is known about it, with Azure's keys."""
        return {
            "name": self.name,
            "description": self.description,
            "tags": self.tags,
            "properties": self.properties,
            "state": self.state,
            "createdTime": self.created_time.isoformat(),
            "updatedTime": self.updated_time.isoformat(),
            "createdBy": self.created_by,
            "error": self.error,
            "computeName": self.compute_name,
            "computeType": self.compute_type,
            "workspaceName": self.workspace.name,
            "imageId": self.image_id,
            "imageDigest": None,
            "imageDetails": None,
            "models": [{"id": model} for model in self._spec.models],
            "modelDetails": [model.serialize() for model in self.models],
            "environmentDetails": self._spec.environment.definition or None,
            "scoringUri": self.scoring_uri,
            "swaggerUri": self.swagger_uri,
            "location": self.location,
            "authEnabled": self.auth_enabled,
            "aadAuthEnabled": self.token_auth_enabled,
            "appInsightsEnabled": self.enable_app_insights,
        }

    @classmethod
    def deserialize(cls, workspace: Workspace, webservice_payload: Mapping[str, Any]) -> Webservice:
        """Return the service that a JSON form names, as it is now."""
        return class_of(str(webservice_payload.get("computeType") or ""))(workspace, str(webservice_payload["name"]))

    def __repr__(self) -> str:
        about = f"name={self.name}, compute_type={self.compute_type}, state={self.state}"
        return f"{type(self).__name__}(workspace={self.workspace!r}, {about})"

    @property
    def _spec(self) -> RevisionSpec:
        """Return what serves; before anything did, what was deployed last."""
        chosen = self._record.serving or (self._record.revisions[-1] if self._record.revisions else None)
        return chosen.spec if chosen is not None else RevisionSpec()

    def _verb(self) -> str:
        operation = self._record.operation
        return "creation" if operation is None or operation.kind == "Create" else "update"

    def _read_record(self) -> records.Webservice:
        self.update_deployment_state()
        return self._record

    def _wait(self, *, show_output: bool, timeout_s: Optional[float] = None) -> None:
        client = self.workspace._client
        with service_errors():
            self._record = wait_for_end(client, self._read_record, show_output=show_output, timeout_s=timeout_s)

    def _raise_failure(self) -> None:
        operation = self._record.operation
        if self._record.state != records.FAILED and (operation is None or operation.state != records.FAILED):
            return
        raise deployment_error(self._record, self.state)

    def _score(self, input_data: Any) -> Any:
        body, server = body_of(input_data), self.workspace._client.address
        if self._key is None and (self.auth_enabled or self.token_auth_enabled):
            self._key = self._fetch_key()
        answer = send(self.scoring_uri, body, key=self._key, server=server)
        if answer.status == 401:  # the key was changed meanwhile
            self.update_deployment_state()
            self._key = self._fetch_key()
            answer = send(self.scoring_uri, body, key=self._key, server=server)
        if answer.status != 200:
            raise failed_answer(answer, self.name)
        return answer.value()

    def _fetch_key(self) -> str:
        if self.token_auth_enabled:
            with service_errors():
                return self.workspace._client.webservices.token(self.workspace.name, self.name)[0]
        return self.get_keys()[0]

    def _wait_for_operation_to_complete(
        self, show_output: bool = False, timeout_sec: Optional[float] = None
    ) -> Tuple[Optional[str], Optional[Definition], str]:
        """Scripts call Azure's private function: (state of the operation, error, id of the request)."""
        self._wait(show_output=show_output, timeout_s=timeout_sec)
        return self.deployment_status, self.error, ""

    def _change(self, change: Optional[ServiceChange] = None, **fields: Any) -> None:
        with service_errors():
            calls = self.workspace._client.webservices
            self._record = calls.change(self.workspace.name, self.name, change or ServiceChange(**fields))

    def _model(self, model_id: str) -> Optional[Model]:
        name, _, version = model_id.rpartition(":")
        try:
            return Model(self.workspace, name, version=int(version)) if int(version) else None
        except NotFound:
            return None


class UnknownWebservice(Webservice):
    """A service of a type that this version does not know."""


def class_of(compute_type: str) -> Type[Webservice]:
    """Return the class of services of that type."""
    # Those modules are about this one's class.
    from runyard.sdk.webservices.cloud import AciWebservice, AksWebservice
    from runyard.sdk.webservices.endpoint import AksEndpoint
    from runyard.sdk.webservices.local import LocalWebservice

    found: Dict[str, Type[Webservice]] = {
        ACI: AciWebservice,
        AKS: AksWebservice,
        AKS_ENDPOINT: AksEndpoint,
        LOCAL: LocalWebservice,
    }
    return found.get(compute_type, UnknownWebservice)


def find_record(workspace: Workspace, name: str) -> Optional[records.Webservice]:
    """Return a service's record; None: there is none of that name."""
    try:
        return workspace._client.webservices.get(workspace.name, name)
    except NotFound:
        return None
