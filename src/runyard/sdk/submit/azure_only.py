"""What a configuration can hold and only Azure's services act on: a Spark job is refused, the rest reported once."""

from __future__ import annotations

from typing import Any

from runyard.core.errors import SubmitRejected
from runyard.sdk.config.notices import warn_once
from runyard.sdk.config.objects import plain
from runyard.sdk.run_config.run_configuration import RunConfiguration

_WITHOUT_EFFECT = (
    "priority",
    "history.snapshot_project",
    "spark",
    "hdi",
    "paralleltask",
    "source_directory_data_store",
    "amlcompute",
    "auto_cluster_compute_specification",
    "kubernetescompute",
    "credential_passthrough",
    "application_endpoints",
    "container_instance",
    "environment.python.base_conda_environment",
    "environment.spark",
    "environment.databricks",
    "environment.r",
)


def report_azure_only(config: RunConfiguration) -> None:
    """Say which settings that differ from their defaults have no effect here.

    Raises:
        SubmitRejected: the run is a Spark job.
    """
    if str(config.framework).lower() == "pyspark":
        raise SubmitRejected(
            "Spark jobs are not run (framework = 'PySpark').",
            why="Runyard starts Python scripts and shell commands.",
            hint="Set run_config.framework = 'Python', or start Spark yourself: command='spark-submit train.py'.",
        )
    default = RunConfiguration()
    names = [name for name in _WITHOUT_EFFECT if _setting(config, name) != _setting(default, name)]
    if names:
        warn_once(f"Without effect here: run_config.{', run_config.'.join(names)}. Only Azure's services act on them.")


def _setting(config: RunConfiguration, path: str) -> Any:
    found: Any = config
    for name in path.split("."):
        found = getattr(found, name, None)
    return plain(found)
