"""`LocalWebservice`: a service on a port of the server's machine, to try a script before others call it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Mapping, Optional, Sequence
from urllib.parse import urlsplit

from runyard.core import webservices as records
from runyard.core.errors import NotFound
from runyard.core.webservices import Definition, RevisionSpec
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.errors import raises_azure_errors, translates
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.model import Model
from runyard.sdk.serving.deployment import service_errors, store_again
from runyard.sdk.serving.models import MOST_OF_NAME, UNREGISTERED
from runyard.sdk.webservices.configuration import LOCAL, LocalWebserviceDeploymentConfiguration
from runyard.sdk.webservices.waiting import read_logs
from runyard.sdk.webservices.webservice import MOST_LINES, Webservice, find_record

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace

_NO_KEYS = "Local services have neither keys nor tokens: they listen on this machine alone."
DEPLOYING, RUNNING, FAILED, DELETED, UNKNOWN = "deploying", "running", "failed", "deleted", "unknown"
_STATES = {
    records.TRANSITIONING: DEPLOYING,
    records.HEALTHY: RUNNING,
    records.UNHEALTHY: RUNNING,
    records.FAILED: FAILED,
}


@raises_azure_errors
class LocalWebservice(Webservice):
    """A service of this machine. `must_exist` False: an object also for one that is not there yet (state unknown).

    Raises:
        WebserviceException: there is none of that name.
    """

    _kinds = (LOCAL,)
    NETWORK_NAME: ClassVar[str] = "azureml-local"
    STATE_DELETED: ClassVar[str] = DELETED
    STATE_DEPLOYING: ClassVar[str] = DEPLOYING
    STATE_FAILED: ClassVar[str] = FAILED
    STATE_RUNNING: ClassVar[str] = RUNNING
    STATE_UNKNOWN: ClassVar[str] = UNKNOWN

    @translates
    def __new__(cls, workspace: Workspace, name: str, must_exist: bool = True) -> Webservice:  # type: ignore[misc]  # Azure's
        from runyard.sdk.webservices.ways import local_name  # which is about this class

        for known in (name, local_name(name)):
            record = find_record(workspace, known)
            if record is not None and record.settings.compute_type == LOCAL:
                return cls._known(workspace, record)
        if must_exist:
            raise WebserviceException(
                f"WebserviceNotFound: there is no local web service `{name}` in workspace `{workspace.name}`. "
                "LocalWebservice.list(ws) returns those that are there."
            )
        made = object.__new__(LocalWebservice)
        made.workspace, made._is_deleted, made._key, made._missing = workspace, True, None, name
        return made

    _missing: Optional[str] = None  # the name of one that is not there yet

    @staticmethod
    def deploy_configuration(port: Optional[int] = None) -> LocalWebserviceDeploymentConfiguration:
        """Return what `Model.deploy` takes: a port from 1 to 65535, or any free one.

        Raises:
            WebserviceException: it is no port.
        """
        return LocalWebserviceDeploymentConfiguration(port)

    @staticmethod
    @translates
    def list(  # type: ignore[override]  # Azure's own parameters
        workspace: Workspace,
        model_name: Optional[str] = None,
        model_id: Optional[str] = None,
        all: Optional[bool] = None,
    ) -> List[Webservice]:
        """Return the local services, by name; without `all` those that failed are left out."""
        from runyard.sdk.webservices.catalog import list_services  # a deploy needs no list

        model = model_id or (f"{model_name}:" if model_name else None)
        found = list_services(workspace, compute_type=LOCAL, model=model)
        return [one for one in found if all or one.state != FAILED]

    @property
    def name(self) -> str:
        return self._missing if self._missing is not None else self._record.name

    @property
    def compute_type(self) -> str:
        return LOCAL

    @property
    def state(self) -> str:
        """deploying, running, failed, deleted, or unknown where it was never there."""
        if self._missing is not None:
            return UNKNOWN
        return DELETED if self._is_deleted else _STATES.get(self._record.state, UNKNOWN)

    @property
    def error(self) -> Optional[Definition]:
        """Why it does not serve, or why the last update did not succeed."""
        return None if self._missing is not None else super().error

    @property
    def port(self) -> Optional[int]:
        """The port that it listens on."""
        if self._missing is not None:
            return None
        return self._record.settings.port or urlsplit(self._record.scoring_uri).port

    @property
    def scoring_uri(self) -> str:
        self._require("scoring_uri", DEPLOYING, RUNNING, FAILED)
        return self._record.scoring_uri

    @property
    def swagger_uri(self) -> str:
        return f"{self.scoring_uri.rpartition('/')[0]}/swagger.json"

    def update_deployment_state(self, must_exist: bool = False) -> None:
        """Read again how it stands; one that is gone is deleted.

        Raises:
            WebserviceException: it is gone, and `must_exist` is set.
        """
        try:
            with service_errors():
                found = self.workspace._client.webservices.get(self.workspace.name, self.name)
        except NotFound:
            if must_exist:
                raise
            self._is_deleted = True
            return
        if found.settings.compute_type != LOCAL:  # it was deployed over by another kind
            self._is_deleted = True
            return
        self._record, self._is_deleted, self._missing = found, False, None

    def wait_for_deployment(self, show_output: bool = False) -> None:  # type: ignore[override]  # Azure's own
        """Return when it answers.

        Raises:
            WebserviceException: it does not start, with the cause and the last lines.
        """
        self.update_deployment_state()
        self._require("wait_for_deployment()", DEPLOYING, RUNNING, FAILED)
        self._wait(show_output=show_output)
        self._raise_failure()
        if show_output:
            print(f"Local webservice is running at {self.scoring_uri.rpartition('/')[0]}")

    def run(self, input_data: Any) -> Any:
        """Send a body and return the decoded JSON; while it is being started, wait for that first.

        Raises:
            WebserviceException: it does not run, or answered another status than 200.
        """
        if self.state != RUNNING or self._is_busy():
            self.update_deployment_state()
            if self._is_busy():
                self._wait(show_output=False)
            self._require("run()", RUNNING)
        return self._score(input_data)

    def reload(self, wait: bool = False) -> None:
        """Serve the script and the local models as their files are now.

        Raises:
            WebserviceException: a file is missing, or it is being started.
        """
        self._refresh("reload()")
        self._revise(store_again(self.workspace._client, self._newest()), wait=wait)

    def update(
        self,
        models: Optional[Sequence[Any]] = None,
        image_config: Any = None,
        deployment_config: Optional[LocalWebserviceDeploymentConfiguration] = None,
        wait: bool = False,
        inference_config: Any = None,
    ) -> None:
        """Serve other models, another script, or on another port.

        Raises:
            WebserviceException: nothing is given, or it cannot be served.
        """
        self._refresh("update()")
        config = inference_config if inference_config is not None else image_config
        if models is None and config is None and deployment_config is None:
            raise WebserviceException("Nothing to update: give models, inference_config or deployment_config.")
        spec = self._newest()
        if config is not None or models is not None:
            spec = self._planned(spec, models, config)
        port = deployment_config.port if deployment_config is not None else None
        self._revise(spec, wait=wait, port=port)

    def deploy_to_cloud(
        self, name: Optional[str] = None, deployment_config: Any = None, deployment_target: Any = None
    ) -> Webservice:
        """Deploy the same models and script as another kind of service; local models are registered for that.

        Under its own name (the default) it becomes that service.

        Raises:
            WebserviceException: it cannot be served.
        """
        from runyard.sdk.webservices.ways import choose_configuration, start, target_name, with_content

        self._refresh("deploy_to_cloud()")
        config = choose_configuration(deployment_config, deployment_target)
        spec = self._newest()
        content = replace(spec, models=[self._registered(model) for model in spec.models])
        base = with_content(config._base(target_name(config, deployment_target)), content)
        return start(self.workspace, name or self.name, config, base, deployment_target, overwrite=False)

    def get_logs(self, num_lines: int = MOST_LINES, raw: bool = False) -> str:
        """Return the last lines that it printed; `raw` has no effect: there are no others."""
        self.update_deployment_state()
        self._require("get_logs()", DEPLOYING, RUNNING, FAILED)
        with service_errors():
            return read_logs(self.workspace._client, self._record, num_lines)

    def delete(self, delete_cache: bool = True, delete_image: bool = False, delete_volume: bool = True) -> None:
        """End it. Nothing else is left of it, so the arguments have no effect. Twice is fine."""
        note_without_effect(
            {
                "delete_cache": None if delete_cache else False,
                "delete_image": delete_image or None,
                "delete_volume": None if delete_volume else False,
            }
        )
        self.update_deployment_state()
        if not self._is_deleted:
            super().delete()

    def get_keys(self) -> Any:
        raise NotImplementedError(_NO_KEYS)

    def regen_key(self, key: str, set_key: Optional[str] = None) -> None:
        raise NotImplementedError(_NO_KEYS)

    def get_token(self) -> Any:
        raise NotImplementedError(_NO_KEYS)

    def serialize(self) -> Definition:
        if self._missing is not None:
            return {"name": self.name, "computeType": LOCAL, "state": self.state}
        return {**super().serialize(), "port": self.port}

    def _require(self, call: str, *states: str) -> None:
        if self.state not in states:
            raise WebserviceException(f"Cannot call {call} when service is {self.state}.")

    def _refresh(self, call: str) -> None:
        """Read how it stands, and let a start that is under way end first."""
        self.update_deployment_state()
        self._require(call, DEPLOYING, RUNNING, FAILED)
        if self._is_busy():
            self._wait(show_output=False)

    def _is_busy(self) -> bool:
        if self._missing is not None or self._is_deleted:
            return False
        operation = self._record.operation
        return operation is not None and operation.state == records.RUNNING

    def _newest(self) -> RevisionSpec:
        return self._record.revisions[-1].spec

    def _planned(self, spec: RevisionSpec, models: Any, config: Any) -> RevisionSpec:
        from runyard.sdk.webservices.ways import plan, with_content

        given = models if models is not None else self._given_models(spec)
        if config is not None or spec.no_code:
            return plan(self.workspace, given, config, RevisionSpec(target=spec.target), register=False)
        again = store_again(self.workspace._client, spec, self.workspace, given)
        return with_content(RevisionSpec(target=spec.target), again)

    def _revise(self, spec: RevisionSpec, *, wait: bool, port: Optional[int] = None) -> None:
        settings = self._record.settings
        wanted = records.NewService(replace(settings, port=port or settings.port), spec, overwrite=True)
        with service_errors():
            self._record = self.workspace._client.webservices.deploy(self.workspace.name, self.name, wanted)
        if wait:
            self.wait_for_deployment()

    def _given_models(self, spec: RevisionSpec) -> List[str]:
        paths = _local_paths(spec.definition)
        return [paths.get(model, model) for model in spec.models]

    def _registered(self, model: str) -> str:
        name, _, version = model.rpartition(":")
        if int(version) != UNREGISTERED:
            return model
        path = _local_paths(self._newest().definition).get(model, "")
        if not os.path.exists(path):
            raise WebserviceException(f"The model `{name}` was never registered, and its file {path} is not there.")
        return Model.register(self.workspace, path, name[:MOST_OF_NAME]).id


def _local_paths(definition: Mapping[str, Any]) -> Dict[str, str]:
    return {str(model): str(path) for model, path in (definition.get("localModels") or {}).items()}
