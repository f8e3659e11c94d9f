"""`Environment.build`: a run of the experiment `prepare_image` that does nothing, so that its environment gets built.

Azure built images in runs of that name too. A run needs no second way to build, and works on every target.
"""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING, Any, Dict, Optional

from runyard.core.errors import NotFound
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.environments.plan import names_image
from runyard.sdk.environments.registry import content_key
from runyard.sdk.errors import raises_azure_errors, unsupported
from runyard.sdk.exceptions import ActivityFailedException
from runyard.sdk.run_config.run_configuration import DockerConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.workspaces.experiment import Experiment

if TYPE_CHECKING:
    from runyard.core import records
    from runyard.core.formats.documents import EnvironmentFacts
    from runyard.sdk.environments.environment import Environment
    from runyard.sdk.runs.run import Run
    from runyard.sdk.workspaces.workspace import Workspace

EXPERIMENT = "prepare_image"
KEY_TAG = "environment_key"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
_NOTHING = "true"  # the command of the run: its environment is all that is wanted
_STATUS = {
    "Completed": "Succeeded",
    "Failed": "Failed",
    "Canceled": "Canceled",
    "NotStarted": "Queued",
    "Queued": "Queued",
}


@raises_azure_errors
class EnvironmentBuild(AzureClass):
    """A build that goes on by itself; `run` is the run that makes it. `environment.build(workspace)` returns one."""

    run: Run
    environment_name: str
    environment_version: Optional[str]

    def __init__(self, environment_client: Any, location: str) -> None:
        unsupported(
            f"A build by the address of a service of Azure ({location!r}, with a {type(environment_client).__name__})",
            hint="environment.build(workspace) starts a build and returns it.",
        )

    @classmethod
    def _of(cls, run: Run, environment: Environment) -> EnvironmentBuild:
        made = cls.__new__(cls)
        made.run, made.environment_name, made.environment_version = run, environment.name, environment.version
        return made

    @property
    def status(self) -> str:
        """Queued, Running, Succeeded, Failed or Canceled, as it is now."""
        return _STATUS.get(self.run.get_status(), "Running")

    def get_log(self) -> str:
        """Return the build log as far as it is written."""
        return build_log(self.run)

    def wait_for_completion(self, show_output: bool = False) -> EnvironmentBuild:
        """Wait for the end, with `show_output` printing the log while it grows.

        Raises:
            ActivityFailedException: it could not be built; the message is the resolver's own.
        """
        if show_output:
            from runyard.sdk.runs.log_stream import LogStream  # a silent wait needs none of it

            LogStream(self.run._client, self.run.id, sys.stdout).follow()
        else:
            self.run.wait_for_completion(raise_on_error=False)
        if self.status == "Failed":
            error = self.run.get_details().get("error", {}).get("error", {})
            what = f"The environment {self.environment_name!r} could not be built."
            raise ActivityFailedException(error_details=f"{what}\n{error.get('message', '')}")
        return self

    def __repr__(self) -> str:
        return f"EnvironmentBuild(environment: {self.environment_name}, run: {self.run.id}, status: {self.status})"


ImageBuildDetails = EnvironmentBuild  # Azure's name of it


class ImageDetails(Dict[str, Any]):
    """What a build made, under Azure's keys where it has some; as attributes and items."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def start_build(environment: Environment, workspace: Workspace, *, target: Optional[str] = None) -> EnvironmentBuild:
    """Start a build of `environment` on `target`, this machine by default; return at once."""
    docker = DockerConfiguration(use_docker=environment.docker.enabled or names_image(environment))
    with tempfile.TemporaryDirectory(prefix="runyard-") as empty:
        config = ScriptRunConfig(
            source_directory=empty,
            command=_NOTHING,
            environment=environment,
            compute_target=target,
            docker_runtime_config=docker,
        )
        tags = {"environment": environment.name, KEY_TAG: content_key(environment)}
        if environment.version is not None:
            tags["environment_version"] = environment.version
        run = Experiment(workspace, EXPERIMENT).submit(config, tags=tags)
    return EnvironmentBuild._of(run, environment)


def image_details(environment: Environment, workspace: Workspace) -> ImageDetails:
    """Return what the newest build of this very content made."""
    found = _newest_build(environment, workspace)
    used: EnvironmentFacts = found.environment if found is not None else {}
    return ImageDetails(
        imageExistsInRegistry=found is not None,
        environmentName=environment.name,
        environmentVersion=environment.version,
        dockerImage={**(used.get("image") or {}), "dockerfile": environment.docker.base_dockerfile},
        pythonEnvironment={"interpreterPath": used.get("interpreter"), "packages": used.get("packages") or {}},
        lockFile=used.get("lock"),
        runId=found.id if found is not None else None,
    )


def build_log(run: Run) -> str:
    """Return the run's build log; a run that had nothing to build has none."""
    from runyard.sdk.runs.details import log_text  # a look at what an environment would be needs no log

    try:
        return log_text(run, BUILD_LOG)
    except NotFound:
        return ""


def _newest_build(environment: Environment, workspace: Workspace) -> Optional[records.Run]:
    tag = f"{KEY_TAG}={content_key(environment)}"
    runs = workspace._client.runs.iter(
        workspace.name, experiment=EXPERIMENT, tag=tag, status="Completed", view="all", limit=1
    )
    return next(iter(runs), None)
