"""MLflow's tracking store and registry store for `azureml://`: subclasses of the installed MLflow's REST stores."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from typing import Any, Dict, List, Mapping, Optional

from mlflow.exceptions import MlflowException
from mlflow.store.model_registry.rest_store import RestStore as RegistryRestStore
from mlflow.store.tracking import rest_store
from mlflow.store.tracking.rest_store import RestStore
from mlflow.utils.proto_json_utils import parse_dict
from mlflow.utils.rest_utils import MlflowHostCreds

from runyard.mlflow.door import Door
from runyard.mlflow.journal_runs import JournalRun, JournalRuns, journal_runs, status_word

_NAME_FILTER = re.compile(r"\s*name\s*=\s*'([^']*)'\s*")
_FLUSH_S = 5.0
LoggedModel = Any  # MLflow 2 has no such class
logger = logging.getLogger("runyard.mlflow")


def tracking_store(store_uri: str, artifact_uri: Optional[str] = None, **_more: Any) -> AzuremlStore:
    """MLflow's entry point `mlflow.tracking_store`."""
    return AzuremlStore(store_uri)


def registry_store(store_uri: Optional[str] = None, tracking_uri: Optional[str] = None, **_more: Any) -> RegistryStore:
    """MLflow's entry point `mlflow.model_registry_store`."""
    uri = store_uri or tracking_uri or os.environ.get("MLFLOW_TRACKING_URI", "")
    return RegistryStore(uri, tracking_uri or uri)


def host_creds(door: Door) -> MlflowHostCreds:
    """Return what MLflow wants to have: the address, without a token. No request that it makes itself needs one."""
    return MlflowHostCreds(f"{door.scheme}://{door.host}/mlflow/{door.workspace}")


class RegistryStore(RegistryRestStore):  # type: ignore[misc]  # MLflow is not there when types are checked
    """Asks the server."""

    supports_workspaces = False

    def __init__(self, uri: str, tracking_uri: str) -> None:
        self._door = Door(uri)
        try:
            super().__init__(lambda: host_creds(self._door), tracking_uri)
        except TypeError:  # MLflow 1
            super().__init__(lambda: host_creds(self._door))

    def _call_endpoint(
        self, api: Any, json_body: Optional[str], call_all_endpoints: bool = False, extra_headers: Any = None
    ) -> Any:
        answer = self._get_response_from_method(api)
        found = (
            self._get_all_endpoints_from_method(api) if call_all_endpoints else [self._get_endpoint_from_method(api)]
        )
        for index, (endpoint, method) in enumerate(found):
            try:
                parse_dict(self._door.call(method, endpoint, json.loads(json_body or "{}")), answer)
                return answer
            except MlflowException as error:
                if error.error_code != "ENDPOINT_NOT_FOUND" or index == len(found) - 1:
                    raise
        return answer


class AzuremlStore(RestStore):  # type: ignore[misc]  # as above
    """Answers for the process's own run and its children from memory and the journal; asks the server for the rest."""

    supports_workspaces = False

    def __init__(self, store_uri: str) -> None:
        self._door = Door(store_uri)
        super().__init__(lambda: host_creds(self._door))
        self._journal: Optional[JournalRuns] = journal_runs(self._door)
        self._models: Dict[str, LoggedModel] = {}
        self._said_experiment = False

    def _call_endpoint(
        self,
        api: Any,
        json_body: Optional[str] = None,
        endpoint: Optional[str] = None,
        retry_timeout_seconds: Optional[float] = None,
        response_proto: Any = None,
    ) -> Any:
        usual, method = self._endpoint_of(api)
        answer = response_proto or api.Response()
        parse_dict(self._door.call(method, endpoint or usual, json.loads(json_body or "{}")), answer)
        return answer

    def _endpoint_of(self, api: Any) -> Any:
        if api in getattr(self, "_V3_APIS", ()):
            return self._V3_METHOD_TO_INFO[api]
        table = getattr(self, "_METHOD_TO_INFO", None) or rest_store._METHOD_TO_INFO  # a class has it since MLflow 3
        return table[api]

    @staticmethod
    def _get_server_version(_host_creds: Any) -> None:
        """Spans are not sent in bulk."""

    def _own(self, run_id: str) -> Optional[JournalRun]:
        return None if self._journal is None else self._journal.find(run_id)

    # Experiments: a run's token makes nothing but children of the run, so whatever name the script gives, its runs stay
    # in the run's own experiment. Until the run is joined, every name means that one: MLflow's client would refuse to
    # start the run in another.
    def get_experiment(self, experiment_id: str) -> Any:
        if self._journal is not None and str(experiment_id) in (self._journal.experiment_id, "0"):
            return self._journal.experiment()
        return super().get_experiment(experiment_id)

    def get_experiment_by_name(self, experiment_name: str) -> Any:
        if self._journal is None:
            return super().get_experiment_by_name(experiment_name)
        if experiment_name == self._journal.experiment_name:
            return self._journal.experiment()
        ask = super().get_experiment_by_name
        found = None
        if self._journal.is_joined:
            try:
                found = self._door.try_quickly(lambda: ask(experiment_name))
            except MlflowException as error:
                logger.debug("experiment %s: %s", experiment_name, error)
        return self._tell_experiment(experiment_name) if found is None else found

    def create_experiment(self, name: str, artifact_location: Optional[str] = None, tags: Any = None) -> str:
        if self._journal is None:
            return str(super().create_experiment(name, artifact_location, tags))
        self._tell_experiment(name)
        return self._journal.experiment_id

    def _tell_experiment(self, name: str) -> Any:
        assert self._journal is not None
        if not self._said_experiment:
            self._said_experiment = True
            logger.warning(
                "MLflow's experiment `%s` is not used: this process is part of run %s, whose experiment is `%s`.",
                name,
                self._journal.run_id,
                self._journal.experiment_name,
            )
        return self._journal.experiment()

    # Runs
    def get_run(self, run_id: str) -> Any:
        run = self._own(run_id)
        if run is None:
            return super().get_run(run_id)
        return run.entity(self._door.try_quickly(lambda: self._served_run(run_id)))

    def _served_run(self, run_id: str) -> Any:
        """Return the server's record; None while it does not know a child, or where it refuses to answer."""
        try:
            return super().get_run(run_id)
        except MlflowException as error:
            if error.error_code == "TEMPORARILY_UNAVAILABLE":
                raise
            return None

    def get_metric_history(self, run_id: str, *more: Any, **options: Any) -> Any:
        self._flush(run_id)
        return super().get_metric_history(run_id, *more, **options)

    def _search_runs(self, *search: Any, **options: Any) -> Any:
        """The server searches, once it has what this process logged. A run's code finds the run's relatives."""
        if self._journal is not None:
            self._journal.flush(_FLUSH_S)
        return super()._search_runs(*search, **options)

    def delete_run(self, run_id: str) -> None:
        self._flush(run_id)
        super().delete_run(run_id)

    def restore_run(self, run_id: str) -> None:
        self._flush(run_id)
        super().restore_run(run_id)

    def _flush(self, run_id: str) -> None:
        """Have the server know what this process logged to one of its runs."""
        run = self._own(run_id)
        if run is not None:
            run.flush(_FLUSH_S)

    def create_run(self, experiment_id: str, user_id: str, start_time: int, tags: Any, run_name: str) -> Any:
        if self._journal is None:
            return super().create_run(experiment_id, user_id, start_time, tags, run_name)
        if str(experiment_id) not in (self._journal.experiment_id, "0"):
            self._tell_experiment(str(experiment_id))
        return self._journal.create(run_name or "", {tag.key: tag.value for tag in tags or []}).entity()

    def update_run_info(
        self, run_id: str, run_status: Any, end_time: Optional[int], run_name: Optional[str] = None
    ) -> Any:
        run = self._own(run_id)
        if run is None:
            return super().update_run_info(run_id, run_status, end_time, run_name)
        assert self._journal is not None
        self._journal.is_joined = True
        run.update(status_word(run_status), end_time, run_name)
        return run.info

    def log_metric(self, run_id: str, metric: Any) -> None:
        run = self._own(run_id)
        if run is None:
            super().log_metric(run_id, metric)
        else:
            run.log_metric(metric)

    def log_param(self, run_id: str, param: Any) -> None:
        run = self._own(run_id)
        if run is None:
            super().log_param(run_id, param)
        else:
            run.log_params([param])

    def set_tag(self, run_id: str, tag: Any) -> None:
        run = self._own(run_id)
        if run is None:
            super().set_tag(run_id, tag)
        else:
            run.set_tags({tag.key: tag.value})

    def delete_tag(self, run_id: str, key: str) -> None:
        run = self._own(run_id)
        if run is None:
            super().delete_tag(run_id, key)
        else:
            run.delete_tag(key)

    def log_batch(self, run_id: str, metrics: Any, params: Any, tags: Any) -> None:
        run = self._own(run_id)
        if run is None:
            super().log_batch(run_id, metrics, params, tags)
            return
        run.log_params(params or [])
        for metric in metrics or []:
            run.log_metric(metric)
        run.set_tags({tag.key: tag.value for tag in tags or []})

    def log_inputs(self, run_id: str, datasets: Any = None, models: Any = None) -> None:
        run = self._own(run_id)
        if run is None:
            more = () if models is None else (models,)
            super().log_inputs(run_id, datasets, *more)
            return
        run.log_datasets(datasets or [])
        for given in models or []:
            run.add_property(f"mlflow.input.model.{given.model_id}", "")

    def record_logged_model(self, run_id: str, mlflow_model: Any) -> None:
        run = self._own(run_id)
        if run is None:
            super().record_logged_model(run_id, mlflow_model)
        else:
            run.add_property(f"mlflow.model.{mlflow_model.model_uuid}", mlflow_model.to_json())

    # Logged models of MLflow 3: files of the run below the model's name, and properties of the run below its id.
    def create_logged_model(
        self, experiment_id: str, name: Optional[str] = None, source_run_id: Optional[str] = None, tags: Any = None,
        params: Any = None, model_type: Optional[str] = None,
    ) -> Any:  # fmt: skip
        run = self._own(source_run_id or "")
        if run is None:
            return super().create_logged_model(experiment_id, name, source_run_id, tags, params, model_type)
        from mlflow import entities  # MLflow 3 alone calls this

        model_id, now = f"m-{os.urandom(16).hex()}", int(time.time() * 1000)
        title = name or "model"
        model = entities.LoggedModel(
            experiment_id=experiment_id, model_id=model_id, name=title, artifact_location=f"{run.artifact_uri}/{title}",
            creation_timestamp=now, last_updated_timestamp=now, model_type=model_type, source_run_id=source_run_id,
            status=entities.LoggedModelStatus.PENDING, tags=tags, params=params,
        )  # fmt: skip
        self._models[model_id] = model
        run.add_property(f"mlflow.model.{model_id}", title)
        self._keep(model, {"type": model_type} if model_type else {})
        self._keep(model, {f"tag.{key}": value for key, value in model.tags.items()})
        self._keep(model, {f"param.{key}": value for key, value in model.params.items()})
        return model

    def _keep(self, model: Any, facts: Mapping[str, object]) -> None:
        run = self._own(model.source_run_id)
        assert run is not None  # only models of such a run are in `_models`
        for key, value in facts.items():
            run.add_property(f"mlflow.model.{model.model_id}.{key}", str(value))

    def get_logged_model(self, model_id: str, *more: Any, **options: Any) -> Any:
        return self._models.get(model_id) or super().get_logged_model(model_id, *more, **options)

    def search_logged_models(
        self, experiment_ids: List[str], filter_string: Optional[str] = None, *more: Any, **options: Any
    ) -> Any:
        """MLflow 3 asks this when it lists a run's artifacts, so it must not fail where the server does not answer."""
        ask = super().search_logged_models
        is_own = self._journal is not None and self._journal.experiment_id in map(str, experiment_ids)
        try:
            if not is_own:
                return ask(experiment_ids, filter_string, *more, **options)
            found = self._door.try_quickly(lambda: ask(experiment_ids, filter_string, *more, **options))
            if found is not None:
                return found if filter_string else self._with_own(found)
        except MlflowException as error:
            if error.error_code not in ("ENDPOINT_NOT_FOUND", "PERMISSION_DENIED"):
                raise
        from mlflow.store.entities import PagedList  # as above

        name = _NAME_FILTER.fullmatch(filter_string or "")
        if filter_string and name is None:
            return PagedList([], None)
        return PagedList([model for model in self._models.values() if name is None or model.name == name[1]], None)

    def _with_own(self, found: Any) -> Any:
        """Return a page of logged models with those that this process made, of which the server has properties."""
        from mlflow.store.entities import PagedList  # as above

        if found.token:
            return found
        there = {model.model_id for model in found}
        return PagedList([*found, *(model for id, model in self._models.items() if id not in there)], None)

    def finalize_logged_model(self, model_id: str, status: Any) -> Any:
        model = self._models.get(model_id)
        if model is None:
            return super().finalize_logged_model(model_id, status)
        from mlflow.entities import LoggedModelStatus  # as above

        model._status = LoggedModelStatus(status)
        self._keep(model, {"status": model._status.value})
        return model

    def set_logged_model_tags(self, model_id: str, tags: List[Any]) -> None:
        model = self._models.get(model_id)
        if model is None:
            super().set_logged_model_tags(model_id, tags)
        else:
            new = {tag.key: tag.value for tag in tags}
            model.tags.update(new)
            self._keep(model, {f"tag.{key}": value for key, value in new.items()})

    def log_logged_model_params(self, model_id: str, params: List[Any]) -> None:
        model = self._models.get(model_id)
        if model is None:
            super().log_logged_model_params(model_id, params)
        else:
            new = {param.key: param.value for param in params}
            model.params.update(new)
            self._keep(model, {f"param.{key}": value for key, value in new.items()})

    def log_outputs(self, run_id: str, models: List[Any]) -> None:
        run = self._own(run_id)
        if run is None:
            super().log_outputs(run_id, models)
            return
        for given in models:
            run.add_property(f"mlflow.output.model.{given.model_id}", str(given.step))
