"""The runs that this process logs to by journal: the run that it is part of, and children that it made.

What MLflow asks about them is answered from memory, so no server is needed. A process knows what it logged itself.
"""

from __future__ import annotations

import inspect
import json
import os
import threading
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

from mlflow.entities import (
    DatasetInput,
    Experiment,
    LifecycleStage,
    Metric,
    Param,
    Run,
    RunData,
    RunInfo,
    RunInputs,
    RunStatus,
    RunTag,
)
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from runyard.core.errors import InvalidArgument, RunyardError
from runyard.core.formats import journal
from runyard.mlflow.address import artifact_uri
from runyard.mlflow.door import Door
from runyard.runtime.context import RunContext
from runyard.runtime.writer import JournalWriter

_ENDS = {"FINISHED": "Completed", "FAILED": "Failed", "KILLED": "Canceled"}
_PARENT, _NAME = "mlflow.parentRunId", "mlflow.runName"


class LoggedFile(NamedTuple):
    """A file that this process logged; `path` is its copy, which goes once the server has it."""

    size: int
    path: str


class JournalRun:
    """One run that this process logs to. `is_child`: this process made it and ends it."""

    def __init__(self, writer: JournalWriter, experiment_id: str, uri: str, *, name: str, parent: str) -> None:
        self.id = writer.run_id
        self.is_child = bool(parent)
        self.artifact_uri = artifact_uri(uri, self.id)
        self.files: Dict[str, LoggedFile] = {}
        self._writer = writer
        self._experiment_id = experiment_id
        self._name = name
        self._status = "RUNNING"
        self._start_ms, self._end_ms = int(time.time() * 1000), None  # type: int, Optional[int]
        self._metrics: Dict[str, Metric] = {}
        self._params: Dict[str, str] = {}
        self._tags: Dict[str, str] = {_PARENT: parent} if parent else {}
        self._removed_tags: Set[str] = set()
        self._datasets: Dict[str, DatasetInput] = {}  # by the property that keeps each
        self._stage = LifecycleStage.ACTIVE
        self._is_named = bool(parent)  # whether this process named it

    def log_metric(self, metric: Metric) -> None:
        """Record one point with its step and time."""
        try:
            self._writer.log_at(metric.key, metric.value, metric.step, metric.timestamp)
        except InvalidArgument as error:
            raise invalid(error) from error
        known = self._metrics.get(metric.key)
        if known is None or (metric.step, metric.timestamp) >= (known.step, known.timestamp):
            self._metrics[metric.key] = metric

    def log_params(self, params: Sequence[Param]) -> None:
        """Record parameters; one that has another value already is refused before any is recorded."""
        given: Dict[str, str] = {}
        for param in params:
            known = given.get(param.key, self._params.get(param.key))
            if known is not None and known != str(param.value):
                raise MlflowException(
                    f"Changing param values is not allowed. Param with key='{param.key}' was already logged with "
                    f"value='{known}' for run ID='{self.id}'. Attempted logging new value '{param.value}'.",
                    error_code=INVALID_PARAMETER_VALUE,
                )
            given[param.key] = str(param.value)
        for key, value in given.items():
            if key not in self._params:
                self._params[key] = value
                self._writer.log_param(key, value)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Record tags. The run has its own facts of user, source and parent; those of MLflow's client are dropped."""
        kept = {key: str(value) for key, value in tags.items() if not _is_fact(key)}
        self._tags.update(kept)
        self._removed_tags.difference_update(kept)
        if _NAME in kept:
            self._name, self._is_named = kept[_NAME], True
        if kept:
            self._writer.set_tags(kept)

    def delete_tag(self, key: str) -> None:
        """Record that a tag goes."""
        self._tags.pop(key, None)
        self._removed_tags.add(key)
        self._writer.remove_tags([key])

    def add_property(self, key: str, value: str) -> None:
        """Record a property."""
        self._writer.add_properties({key: value})

    def log_datasets(self, inputs: Sequence[Any]) -> None:
        """Record datasets that the run read; one that is there already stays as it is."""
        for given in inputs:
            for key, text in dataset_property(given.dataset, given.tags or []).items():
                self._datasets.setdefault(key, given)
                self.add_property(key, text)

    def upload(self, name: str, path: str) -> None:
        """Keep a file as the run's file `name`."""
        try:
            copy, size = self._writer.keep_file(name, path)
            self.files[name] = LoggedFile(size, os.path.join(self._writer.run_folder, copy))
        except RunyardError as error:
            raise invalid(error) from error

    def flush(self, timeout_s: float) -> bool:
        """Wait until the server has all that this process logged so far; return whether it has."""
        return self._writer.flush(timeout_s)

    def update(self, status: Optional[str], end_ms: Optional[int], name: Optional[str]) -> None:
        """Take a status word of MLflow. It ends a child; the run itself is ended by its supervisor."""
        if name:
            self.set_tags({_NAME: name})
        if status is None:
            return
        self._status, self._end_ms = status, end_ms
        if status not in _ENDS:
            return
        if self.is_child:
            self._writer.end(_ENDS[status])
        elif status != "FINISHED":
            self._writer.add_properties({"mlflow.status": status})

    @property
    def info(self) -> RunInfo:
        """MLflow's description of the run, as this process knows it."""
        return self._info("", self._start_ms)

    def _info(self, user: str, start_ms: int) -> RunInfo:
        facts = {
            "run_uuid": self.id,
            "run_id": self.id,
            "experiment_id": self._experiment_id,
            "user_id": user,
            "status": self._status,
            "start_time": start_ms,
            "end_time": self._end_ms,
            "lifecycle_stage": self._stage,
            "artifact_uri": self.artifact_uri,
            "run_name": self._name,
        }
        takes = inspect.signature(RunInfo.__init__).parameters  # releases differ in `run_uuid`
        return RunInfo(**{name: value for name, value in facts.items() if name in takes})

    def entity(self, served: Optional[Run] = None) -> Run:
        """Return MLflow's record of the run: what this process logged, over what the server has of all others."""
        metrics = dict(self._metrics)
        params, tags = dict(self._params), {_NAME: self._name, **self._tags}
        user, start_ms, more = "", self._start_ms, {}
        if served is not None:
            for metric in served.data._metric_objs:
                known = metrics.get(metric.key)
                if known is None or (metric.step, metric.timestamp) > (known.step, known.timestamp):
                    metrics[metric.key] = metric
            params = {**served.data.params, **params}
            gone = self._removed_tags
            tags = {**{key: value for key, value in served.data.tags.items() if key not in gone}, **tags}
            self._stage = served.info.lifecycle_stage
            user, start_ms = served.info.user_id or "", served.info.start_time or start_ms
            if not self._is_named:
                self._name = served.info.run_name or self._name
                tags[_NAME] = self._name
            more = {name: getattr(served, name) for name in ("inputs", "outputs") if getattr(served, name, None)}
        data = RunData(
            metrics=list(metrics.values()),
            params=[Param(key, value) for key, value in params.items()],
            tags=[RunTag(key, value) for key, value in tags.items()],
        )
        made = Run(self._info(user, start_ms), data)
        for name, value in more.items():
            setattr(made, f"_{name}", value)
        if self._datasets:
            inputs = made.inputs or RunInputs([])
            there = {key for one in inputs.dataset_inputs for key in dataset_property(one.dataset, [])}
            inputs._dataset_inputs = [
                *inputs.dataset_inputs,
                *(one for key, one in self._datasets.items() if key not in there),
            ]
            made._inputs = inputs
        return made


class JournalRuns:
    """The runs of this process by id; shared by all stores of the process, and by its threads."""

    def __init__(self, context: RunContext, uri: str) -> None:
        self.run_id = context.run_id
        self.experiment_id, self.experiment_name = _experiment(context)
        self.is_joined = False
        self._uri = uri
        self._writer = context.writer()
        self._lock = threading.Lock()
        own = JournalRun(self._writer, self.experiment_id, uri, name=self.run_id, parent="")
        self._runs = {self.run_id: own}

    @property
    def own(self) -> JournalRun:
        """The run that this process is part of."""
        return self._runs[self.run_id]

    def flush(self, timeout_s: float) -> None:
        """Wait until the server has what this process logged to all of them: each has a journal of its own."""
        deadline = time.monotonic() + timeout_s
        for run in [*self._runs.values()]:
            run.flush(max(0.0, deadline - time.monotonic()))

    def find(self, run_id: str) -> Optional[JournalRun]:
        """Return the run, None where this process does not log to it by journal."""
        return self._runs.get(run_id)

    def create(self, name: str, tags: Mapping[str, str]) -> JournalRun:
        """Return this process's run at the first call, and a new child of it at each further one."""
        with self._lock:
            if not self.is_joined and _PARENT not in tags:
                self.is_joined = True
                run = self.own
                run.set_tags({key: value for key, value in tags.items() if key != _NAME})
                return run
            return self._make_child(name or tags.get(_NAME, ""), tags)

    def _make_child(self, name: str, tags: Mapping[str, str]) -> JournalRun:
        parent = self._runs.get(tags.get(_PARENT, ""), self.own)
        child_id = f"{self.run_id[:200]}_{os.urandom(6).hex()}"
        kept = {key: str(value) for key, value in tags.items() if not _is_fact(key)}
        if name:
            kept[_NAME] = name
        payload = {"run_id": child_id, "name": name, "tags": kept, "t": time.monotonic_ns()}
        parent_writer = parent._writer
        parent_writer.append(journal.CHILD, payload)
        child = JournalRun(
            parent_writer.for_run(child_id), self.experiment_id, self._uri, name=name or child_id, parent=parent.id
        )
        child._tags.update(kept)
        self._runs[child_id] = child
        return child

    def experiment(self) -> Experiment:
        """Return MLflow's record of the run's experiment."""
        location = f"{self._uri}/experiments/{self.experiment_id}"
        return Experiment(self.experiment_id, self.experiment_name, location, LifecycleStage.ACTIVE, tags=[])


def invalid(error: RunyardError) -> MlflowException:
    """Return MLflow's exception for an argument of ours that cannot be taken."""
    return MlflowException(str(error), error_code=INVALID_PARAMETER_VALUE)


def dataset_property(dataset: Any, tags: Sequence[Any]) -> Dict[str, str]:
    """Return {name: text} of the property that keeps an input of a run."""
    facts = {
        key: getattr(dataset, key, None) for key in ("name", "digest", "source_type", "source", "schema", "profile")
    }
    facts["tags"] = {tag.key: tag.value for tag in tags}
    return {f"mlflow.input.{dataset.name}.{dataset.digest}": json.dumps(facts, sort_keys=True)}


def _is_fact(key: str) -> bool:
    return key.startswith(("mlflow.source.", "mlflow.user", _PARENT, "mlflow.databricks", "mlflow.gitRepoURL"))


def _experiment(context: RunContext) -> List[str]:
    try:
        job = context.read_job()
    except (OSError, ValueError):
        job = {}
    name = str(job.get("experiment") or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default")
    return [str(job.get("experiment_id") or os.environ.get("MLFLOW_EXPERIMENT_ID") or name), name]


_found: Dict[str, JournalRuns] = {}


def journal_runs(door: Door) -> Optional[JournalRuns]:
    """Return the runs of this process where the door is that of its run's workspace, else None.

    After a fork the same objects go on with own journals.
    """
    context = door.context
    if context is None:
        return None
    key = f"{context.run_folder}\n{context.run_id}"
    if key not in _found:
        _found[key] = JournalRuns(context, door.uri)
    return _found[key]


def status_word(status: Any) -> Optional[str]:
    """Return MLflow's word for a status that may be its number."""
    if status is None or isinstance(status, str):
        return status
    return str(RunStatus.to_string(status))
