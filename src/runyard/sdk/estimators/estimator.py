"""`Estimator`: a script with its packages, target and number of processes in one object.

`TensorFlow`, `PyTorch`, `SKLearn` and `Chainer` are estimators that install their framework.
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Iterable, List, Mapping, Optional, Tuple

from runyard.core.compute import PER_RUN
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import warn
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.errors import raises_azure_errors, training_error
from runyard.sdk.estimators.environment import (
    backend_of,
    make_environment,
    named_version,
    processes_per_node,
    set_distribution,
    supported_versions,
)
from runyard.sdk.estimators.parameters import (
    CHAINER,
    ESTIMATOR,
    PYTORCH,
    SKLEARN,
    TENSORFLOW,
    check_parameters,
    checked_params,
    flat_arguments,
    merged_params,
    read_parameters,
    signature_of,
)
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import DockerConfiguration, RunConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.submit.data_plan import as_reference, is_dataset

SUBMIT_OPTIONS = ("script_params", "inputs", "source_directory_data_store")


@raises_azure_errors
class Estimator(AzureClass):
    """What `experiment.submit` takes beside a ScriptRunConfig. All parameters but the first go by name.

    Args:
        source_directory: the folder that is stored with the run; default the current one.
        script_params: the script's arguments, `{'--flag': value}`: '' and None are bare flags, a list is spread, a
            datastore or data reference becomes its path.
        inputs: data references and datasets that the run gets without an argument.

    Raises:
        TrainingException: parameters that cannot go together.
        TypeError: one that this estimator does not have.
    """

    _parameters: ClassVar[Mapping[str, Any]] = ESTIMATOR
    _backends: ClassVar[Tuple[str, ...]] = ("mpi",)
    _framework: ClassVar[Optional[str]] = None
    _gets_horovod: ClassVar[bool] = False
    _variables: ClassVar[Mapping[str, str]] = {}
    __signature__: ClassVar[Any] = signature_of(ESTIMATOR)

    def __init__(self, source_directory: Optional[str] = None, **parameters: Any) -> None:
        shown = {name: value for name, value in parameters.items() if not name.startswith("_")}
        values = read_parameters(type(self).__name__, self._parameters, shown)
        check_parameters(type(self).__name__, values, self._backends)
        self._source_directory = source_directory or "."
        self._script_params = checked_params(values["script_params"])
        self._values = values
        self._run_config = self._make_run_config(values)

    @property
    def source_directory(self) -> str:
        return self._source_directory

    @property
    def run_config(self) -> RunConfiguration:
        """Everything about how the script is run; may be changed until the estimator is submitted."""
        return self._run_config

    _estimator_config = run_config  # scripts change it under its private name

    @property
    def conda_dependencies(self) -> CondaDependencies:
        return self._run_config.environment.python.conda_dependencies

    def _make_run_config(self, values: Mapping[str, Any]) -> RunConfiguration:
        config = RunConfiguration(script=values["entry_script"])
        config.target = PER_RUN if values["compute_target"] is None else values["compute_target"]
        config.amlcompute.vm_size = values["vm_size"]
        config.amlcompute.vm_priority = values["vm_priority"]
        config.max_run_duration_seconds = values["max_run_duration_seconds"]
        config.source_directory_data_store = _name_of(values.get("source_directory_data_store"))
        set_distribution(config, values)
        horovod = self._gets_horovod and backend_of(values) == "mpi"
        config.environment = make_environment(values, framework=self._framework, horovod=horovod)
        docker = config.environment.docker
        config.docker = DockerConfiguration(docker.enabled, docker.shared_volumes, docker.arguments, docker.shm_size)
        config.environment_variables = {**self._variables, **(values["environment_variables"] or {})}
        config.arguments = flat_arguments(self._script_params)
        _add_inputs(config, values["inputs"])
        config._gpus = _gpus(values)
        return config

    def _as_script_run_config(self, options: Optional[Mapping[str, Any]] = None) -> ScriptRunConfig:
        """Return what is submitted; `options` are those of `experiment.submit(estimator, …)`.

        Raises:
            UserErrorException: an option that is not known.
        """
        given = dict(options or {})
        unknown = sorted(set(given) - set(SUBMIT_OPTIONS))
        if unknown:
            raise UserErrorException(
                f"submit() does not know {', '.join(unknown)} for an estimator; known: {', '.join(SUBMIT_OPTIONS)}."
            )
        config = copy(self._run_config)
        if given.get("script_params"):
            config.arguments = flat_arguments(merged_params(self._script_params, given["script_params"]))
        if given.get("inputs"):
            _add_inputs(config, given["inputs"])
        if given.get("source_directory_data_store"):
            config.source_directory_data_store = _name_of(given["source_directory_data_store"])
        return ScriptRunConfig(self._source_directory, run_config=config, resume_from=self._values["resume_from"])

    def _for_sweep(self, varied: Iterable[str]) -> ScriptRunConfig:
        """Return what the children of a sweep run: what the sweep varies is left out of script_params."""
        flags = {name if name.startswith("-") else f"--{name}" for name in varied}
        dropped = sorted(flags & set(self._script_params))
        made = self._as_script_run_config()
        if dropped:
            warn(f"The sweep varies {', '.join(dropped)}: the values in script_params are not used.")
            kept = {name: value for name, value in self._script_params.items() if name not in flags}
            made.run_config.arguments = flat_arguments(kept)
        return made


def _name_of(datastore: Any) -> Optional[str]:
    return None if datastore is None else str(getattr(datastore, "name", datastore))


def _add_inputs(config: RunConfiguration, inputs: Any) -> None:
    references, datasets = dict(config.data_references), list(config._inputs)
    for value in _listed(inputs):
        reference = as_reference(value)
        if reference is not None:
            references[reference.data_reference_name] = reference.to_config()
        elif is_dataset(value):
            datasets.append(value)
        else:
            raise training_error(
                f"inputs holds a {type(value).__name__} ({value!r:.100}).",
                why="It takes data references, datastores and datasets.",
                hint="inputs=[datastore.path('data').as_download(), dataset.as_named_input('data')]",
            )
    config.data_references, config._inputs = references, datasets


def _listed(inputs: Any) -> List[Any]:
    if inputs is None:
        return []
    if not isinstance(inputs, (list, tuple)):
        raise training_error(
            f"inputs is no list: it is of type {type(inputs).__name__}.",
            why="It must be a list of data references and datasets.",
        )
    return list(inputs)


def _gpus(values: Mapping[str, Any]) -> Optional[int]:
    """Return the GPUs of each node: one for each process, none where none was asked for; None: not said."""
    if values.get("use_gpu"):
        return processes_per_node(values)
    return None if values["user_managed"] or values["environment_definition"] is not None else 0


class FrameworkEstimator(Estimator):
    """An Estimator whose environment gets a framework: the version asked for, where there are packages of it."""

    @classmethod
    def get_supported_versions(cls) -> List[str]:
        """Return the values that `framework_version` may have."""
        assert cls._framework is not None
        return supported_versions(cls._framework)

    @property
    def framework_version(self) -> str:
        """The version that was asked for, else the one that is installed."""
        assert self._framework is not None
        asked = self._values["framework_version"]
        return str(asked or named_version(self._framework, self.conda_dependencies.pip_packages))


class TensorFlow(FrameworkEstimator):
    """TensorFlow, on one node, with Horovod (`distributed_backend='mpi'`) or with parameter servers (`'ps'`)."""

    _parameters = TENSORFLOW
    _backends = ("mpi", "ps")
    _framework = "TensorFlow"
    _gets_horovod = True
    __signature__ = signature_of(TENSORFLOW)


class PyTorch(FrameworkEstimator):
    """PyTorch, on one node, with Horovod (`distributed_backend='mpi'`) or torch.distributed (`'gloo'`, `'nccl'`)."""

    _parameters = PYTORCH
    _backends = ("mpi", "gloo", "nccl")
    _framework = "PyTorch"
    _gets_horovod = True
    _variables: ClassVar[Mapping[str, str]] = {"NCCL_TREE_THRESHOLD": "0"}
    __signature__ = signature_of(PYTORCH)


class SKLearn(FrameworkEstimator):
    """scikit-learn, in one process."""

    _parameters = SKLEARN
    _backends = ()
    _framework = "SKLearn"
    __signature__ = signature_of(SKLEARN)


class Chainer(FrameworkEstimator):
    """Chainer, in one process or with MPI."""

    _parameters = CHAINER
    _framework = "Chainer"
    __signature__ = signature_of(CHAINER)
