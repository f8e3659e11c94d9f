"""Preparing: the snapshot's copy, the environment, and the plan of processes in `launch.json`."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, TypeVar

from runyard.core.folders import cache_folder
from runyard.core.plain import to_plain
from runyard.core.specs import JobSpec
from runyard.environments import get_builder
from runyard.environments.base import BuiltEnvironment, EnvironmentBuilder
from runyard.launchers import get_launcher
from runyard.launchers.base import Placement, Process
from runyard.launchers.variables import base_variables, inherited
from runyard.runtime.injection import injection_folder
from runyard.snapshots.restore import restore
from runyard.supervisor.connection import Connection
from runyard.supervisor.folder import RunFolder, remove_tree

logger = logging.getLogger(__name__)
T = TypeVar("T")


class PreparationFailed(Exception):
    """Names the stage that failed; the cause is what went wrong in it."""

    def __init__(self, stage: str, cause: Exception) -> None:
        super().__init__(stage)
        self.stage = stage
        self.cause = cause


class Preparation:
    """The steps before the launch. May be repeated from the start as long as nothing was launched."""

    def __init__(
        self, folder: RunFolder, job: JobSpec, *, connection: Connection, umask: int, warn: Callable[[str, str], None]
    ) -> None:
        self._folder = folder
        self._job = job
        self._connection = connection
        self._umask = umask
        self._warn = warn
        self._built: Optional[BuiltEnvironment] = None

    def steps(self) -> List[Callable[[], None]]:
        return [self._restore, self._build, self._plan]

    def describe_environment(self) -> Dict[str, Any]:
        """Return what the environment holds; slow, so it is asked after the launch."""
        assert self._built is not None
        return dict(self._builder().describe(self._built, variables=self._variables()))

    def _restore(self) -> None:
        work = self._folder.at("work")
        remove_tree(work)
        os.mkdir(work, 0o700)
        root = self._job.snapshot_root
        if root is not None:
            content = self._connection.client.content
            _stage("restoring the snapshot", lambda: self._connection.insist(lambda: restore(root, content, work)))
        for name in self._job.spec.output_folders:
            os.makedirs(os.path.join(work, name), exist_ok=True)

    def _build(self) -> None:
        spec = self._job.spec.environment
        built = _stage(
            f"making the environment `{spec.name}`",
            lambda: self._builder().build(spec, say=logger.info, variables=self._variables()),
        )
        for warning in built.warnings:
            self._warn("environment", warning)
        self._built = built

    def _plan(self) -> None:
        processes = _stage("laying out the processes", self._layout)
        plan = {"processes": [to_plain(one) for one in processes], "umask": self._umask, "cgroup": self._group_name()}
        self._folder.write("launch.json", plan)

    def _layout(self) -> List[Process]:
        assert self._built is not None
        variables = base_variables(
            self._job,
            run_folder=self._folder.path,
            injection=str(injection_folder(Path(self._job.home))),
            interpreter=self._built.interpreter,
            built=self._built.variables,
        )
        placement = Placement(
            work_folder=self._folder.at("work"),
            interpreter=self._built.interpreter,
            base_variables=variables,
            node_rank=self._job.node_rank,
        )
        return get_launcher(self._job.spec.distribution.kind).layout(self._job, placement)

    def _variables(self) -> Dict[str, str]:
        """Return what the run's processes start from, as far as it is known before the environment is."""
        spec = self._job.spec
        return {**inherited(self._job.submitter), **spec.environment.variables, **spec.variables}

    def _builder(self) -> EnvironmentBuilder:
        return get_builder(self._job.spec.environment.kind, cache=cache_folder(Path(self._job.home)))

    def _group_name(self) -> str:
        return f"runyard-{self._job.cookie[:32]}"


def _stage(name: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception as error:
        raise PreparationFailed(name, error) from error
