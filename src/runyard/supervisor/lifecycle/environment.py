"""The environment of a run: building it or finding it in the cache, its build log, its packages and its lock file."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, cast

from runyard.core.config.logins import hide_passwords
from runyard.core.config.paths import cache_folder
from runyard.core.config.settings import Settings, settings_of_run
from runyard.core.errors import RunyardError
from runyard.core.specs import EnvironmentSpec, JobSpec
from runyard.environments import get_builder
from runyard.environments.base import BuiltEnvironment, Check, EnvironmentBuilder, SupportsLock
from runyard.supervisor.run_folder import RunFolder, work_folder

if TYPE_CHECKING:
    from runyard.core.formats.documents import EnvironmentFacts
    from runyard.supervisor.lifecycle.requirements import PinnedRequirements

logger = logging.getLogger(__name__)

BUILD_LOG = "azureml-logs/20_image_build_log.txt"
BUILD_LOG_OF_NODE = "azureml-logs/20_image_build_log_%d.txt"
MEMO = "environment.json"
_FOLDER = ("/", "-e ", "--editable")
_FILE, _GIT = "file:", "git+"
LOCK = "system_logs/requirements.lock.txt"


class RunEnvironment:
    """The environment of one run on this node.

    `variables` are the processes' variables, as far as they are known before the build. The supervisor's main thread
    builds; the thread `describe` describes and locks after the launch.
    """

    def __init__(
        self, folder: RunFolder, job: JobSpec, settings: Settings, *, variables: Mapping[str, str], check: Check
    ) -> None:
        self._folder = folder
        self._job = job
        said = {**job.submitter, **job.spec.environment.variables, **job.spec.variables}
        self._settings = settings_of_run(replace(settings, home=Path(job.home)), said)
        self._variables = variables
        self._check = check
        self._spec = job.spec.environment if job.submitter else _submitted_elsewhere(job)
        # Every node builds, so the names of their logs must differ.
        self._build_log = folder.at(BUILD_LOG if job.node_rank == 0 else BUILD_LOG_OF_NODE % job.node_rank)
        self._builder: Optional[EnvironmentBuilder] = None
        self._unused_image: List[str] = []  # why
        self._commits: Dict[str, str] = {}  # of requirements from git, by their text
        self.built: Optional[BuiltEnvironment] = None
        self.mirrors: Dict[str, str] = {}  # copies that are installed as editable → folders of the snapshot

    @property
    def needs_snapshot(self) -> bool:
        """Whether a requirement names a folder, which may be one of the snapshot's."""
        lines = [*self._spec.pip_packages, *self._spec.pip_options]
        return self._spec.kind != "system" and any(line.startswith(_FOLDER) or _FILE in line for line in lines)

    @property
    def makes_lock(self) -> bool:
        """Whether the builder can make a lock file."""
        return isinstance(self._builder, SupportsLock)

    def build(self) -> BuiltEnvironment:
        """Build the environment, or find it in the cache. Raises what the builder and `check` raise."""
        try:
            if self._spec.container is not None and self._spec.container.fallback:
                from runyard.supervisor.lifecycle.environment_here import without_runtime  # few have an image

                self._spec, self._unused_image = without_runtime(self._spec, self._settings, self._variables)
            pinned = self._pin()
            self._builder = get_builder(
                self._spec.kind, cache=cache_folder(self._settings.home), settings=self._settings
            )
            self.built = self._builder.build(
                self._spec,
                say=self._say,
                variables={**self._variables, **(pinned.variables if pinned is not None else {})},
                check=self._check,
                user=self._folder.path,
            )
        except RunyardError as error:
            self._say(str(error))
            raise
        if self.built.key and self.built.wrapper is None:
            facts = {"interpreter": self.built.interpreter, "key": self.built.key, "commits": self._commits}
            self._folder.write(MEMO, facts)
        if pinned is not None and pinned.mirrors:
            from runyard.supervisor.lifecycle.requirements import bring_built_modules

            bring_built_modules(pinned.mirrors)
        warnings = [*self._unused_image, *self.built.warnings, *(pinned.warnings if pinned is not None else ())]
        return replace(self.built, warnings=warnings)

    def _pin(self) -> Optional[PinnedRequirements]:
        """Let requirements that may change their meaning mean one thing; None when there are none."""
        if not self.needs_snapshot and not any(_GIT in line for line in self._spec.pip_packages):
            return None
        from runyard.supervisor.lifecycle.requirements import pin_requirements  # few environments have any

        pinned = pin_requirements(
            self._spec,
            source=self._job.source,
            work=work_folder(self._folder, self._job, self._job.node_rank),
            cache=str(cache_folder(self._settings.home)),
            variables=self._variables,
            say=self._say,
        )
        self._spec, self.mirrors, self._commits = pinned.spec, pinned.mirrors, pinned.commits
        return pinned

    def recall(self) -> bool:
        """Take up the environment that an earlier supervisor built, to describe it; False when none was recorded."""
        known = self._folder.read_object(MEMO)
        if not known:
            return False
        self._builder = get_builder(self._spec.kind, cache=cache_folder(self._settings.home), settings=self._settings)
        self.built = BuiltEnvironment(interpreter=known["interpreter"], key=known["key"])
        self._commits = dict(known.get("commits") or {})
        return True

    def describe(self) -> EnvironmentFacts:
        """Return the packages of the environment. Slow, so it is called after the launch."""
        assert self._builder is not None and self.built is not None
        found = cast("EnvironmentFacts", self._builder.describe(self.built, variables=self._variables))
        return {**found, "commits": self._commits} if self._commits else found

    def write_lock(self) -> Optional[str]:
        """Write the file of exact versions and hashes, if the builder knows them; return its name, else None."""
        if not isinstance(self._builder, SupportsLock) or self.built is None:
            return None
        text = self._builder.lock(self._spec, self.built, variables=self._variables)
        beside = self._folder.at(".requirements.lock.new")  # files in system_logs are shipped while they grow
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(beside, self._folder.at(LOCK))
        return LOCK

    def _say(self, line: str) -> None:
        """Write a line into the run's build log; an existing interpreter (`system`) has none."""
        text = hide_passwords(line)
        if self._spec.kind == "system":
            return logger.info("%s", text)
        try:
            os.makedirs(os.path.dirname(self._build_log), mode=0o700, exist_ok=True)
            with open(self._build_log, "a", encoding="utf-8", errors="replace") as file:
                file.write(text + "\n")
        except OSError as error:
            logger.warning("the build log could not be written: %s: %s", error, text)
        return None


def _submitted_elsewhere(job: JobSpec) -> EnvironmentSpec:
    """Return the environment for a run that was submitted from another machine, whose Python is not here."""
    # Imported here: most local runs are submitted on this machine.
    from runyard.supervisor.lifecycle.environment_here import environment_here

    return environment_here(job.spec.environment)
