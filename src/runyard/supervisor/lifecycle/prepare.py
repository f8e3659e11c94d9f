"""Prepares a run: restores the snapshot, brings data, builds the environment, and writes the plan `launch.json`.

A later attempt also gets back what earlier attempts stored in its output folders, such as checkpoints. `lifecycle.data`
is loaded only for runs with data.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, TypeVar, Union

from runyard.core.config.settings import Settings
from runyard.core.errors import DamagedContent, StoreUnavailable
from runyard.core.machine.disk import NO_SPACE
from runyard.core.names import true_file_name
from runyard.core.records import PROGRESS, RunFile
from runyard.core.specs import JobSpec, RunSpec
from runyard.environments.base import BuiltEnvironment
from runyard.launchers.variables import MLFLOW_SWITCH, base_variables, inherited, replaced_mlflow_variables
from runyard.runtime.injection import injection_folder
from runyard.snapshots.fetch import Known, Source
from runyard.snapshots.restore import restore
from runyard.supervisor.lifecycle.environment import RunEnvironment
from runyard.supervisor.lifecycle.imports import LINKS, plan_imports, snapshot_path
from runyard.supervisor.lifecycle.layout import Meeting, Ports, lay_out, take_ports
from runyard.supervisor.processes.keeper import ReaperGone
from runyard.supervisor.run_folder import (
    SNAPSHOT,
    RunFolder,
    drop_spares_of,
    prefix_of,
    remove_tree,
    shares_folder,
    tracked_folders,
    work_folder,
    work_folders,
)
from runyard.supervisor.shipping.connection import Connection, HomeGone
from runyard.supervisor.shipping.loops import Backoff
from runyard.supervisor.shipping.work_tree import BROUGHT, WorkTree

if TYPE_CHECKING:
    from runyard.core.formats.documents import EnvironmentFacts, RunError
    from runyard.core.formats.run_files import LaunchPlan
    from runyard.supervisor.lifecycle.data import RunData

T = TypeVar("T")
_RESTORING = "restoring the snapshot"
_FETCHING = "fetching the run's data"
_OTHER_NODE = re.compile(r"node_[0-9]+/")
_TELL_EVERY_S = 0.5


def has_data(spec: RunSpec) -> bool:
    """Return whether the run has data references, datasets or outputs."""
    return bool(spec.data_references or spec.datasets or spec.outputs)


class NoData:
    """Takes the place of `data.RunData` for a run without data."""

    def bring(self) -> Dict[str, str]:
        """Return no variables."""
        return {}

    def recall(self) -> EnvironmentFacts:
        """Return no facts."""
        return {}

    def deliver(self) -> Optional[RunError]:
        """Return no error."""
        return None

    def register(self) -> None:
        """Do nothing."""
        pass


Warn = Callable[[str, str], None]


def bring_back(
    folder: RunFolder, job: JobSpec, connection: Connection, tree: WorkTree, *, warn: Warn, check: Callable[[], None]
) -> None:
    """Download this node's files of earlier attempts, each checked by its SHA-256 and renamed into place.

    `check` is called between two files and raises when the run must end.

    Raises:
        OSError: a file is damaged or cannot be written. Without it the program might start from the beginning.
    """
    if job.attempt < 2:
        return
    files = connection.insist(lambda: connection.client.runs.files(job.run_id))
    brought: Dict[str, int] = {}
    for file, path, root in _iter_wanted(folder, job, files, tree):
        check()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.realpath(path).startswith(os.path.realpath(root) + os.sep):
            warn("attempts", f"{file.name!r} is not brought back: a link leads out of the work folder.")
            continue
        _fetch(connection, job.run_id, file, path)
        brought[os.path.relpath(path, root)] = file.size
    count = len(brought)
    if count:
        folder.write(BROUGHT, brought)
        plural = "file is" if count == 1 else "files are"
        warn("attempts", f"{count} {plural} back in the work folder: what earlier attempts of this run had stored.")


def _fetch(connection: Connection, run_id: str, file: RunFile, path: str) -> None:
    def fetch() -> None:
        try:
            connection.client.runs.download(run_id, file.name, path, expected=file)
        except DamagedContent as error:
            raise OSError(str(error)) from error

    connection.insist(fetch)


def _iter_wanted(
    folder: RunFolder, job: JobSpec, files: List[RunFile], tree: WorkTree
) -> Iterator[Tuple[RunFile, str, str]]:
    """Yield each file with its target path and the work folder in which that must lie."""
    for index, (folders, root) in enumerate(zip(tracked_folders(folder, job), tree.roots)):
        prefix = f"node_{index}/" if index > 0 else prefix_of(job)
        outputs = tuple(f"{name}/" for name in folders)
        for file in files:
            name = file.name[len(prefix) :]
            if file.kind != "blob" or not file.name.startswith(prefix) or (not prefix and _OTHER_NODE.match(name)):
                continue
            if name.startswith(outputs) or tree.fits(name):
                yield file, os.path.join(root, *true_file_name(name).split("/")), root


logger = logging.getLogger(__name__)


class PreparationFailed(Exception):
    """The preparation failed; `stage` names the step and `cause` is its exception."""

    def __init__(self, stage: str, cause: Exception) -> None:
        super().__init__(stage)
        self.stage = stage
        self.cause = cause


class Unwanted(Exception):
    """The run must end. Raised from within a long step of the preparation."""


class NoSpace(Exception):
    """This machine's disk has no space for the snapshot."""


class Barrier(ABC):
    """Where the nodes of a job wait for each other before the launch. Each method may raise Unwanted."""

    @abstractmethod
    def known_ports(self) -> Optional[List[List[int]]]:
        """Return the ports that this node has already told the others, which it must keep; None before that."""

    @abstractmethod
    def meet(self, ports: List[List[int]]) -> Meeting:
        """Tell the others that this node is ready, and return when all nodes are."""

    @abstractmethod
    def wait_for_first(self) -> None:
        """Return when node 0 is ready."""


class Preparation:
    """The steps before the launch, run by the supervisor's main thread. All may be repeated until the launch.

    `doing` shows the current step on the run; `check` raises when the run must end.
    """

    def __init__(
        self,
        folder: RunFolder,
        job: JobSpec,
        settings: Settings,
        *,
        connection: Connection,
        umask: int,
        warn: Callable[[str, str], None],
        doing: Callable[[str], None],
        check: Callable[[], None],
        peers: Barrier,
    ) -> None:
        self._peers = peers
        self._doing = doing
        self._folder = folder
        self._job = job
        self._connection = connection
        self._umask = umask
        self._warn = warn
        self._check = check
        self.environment = RunEnvironment(folder, job, settings, variables=self._variables(), check=check)
        self.data = self._find_data()
        self.ports = Ports()
        self._data_paths: Dict[str, str] = {}
        self._meeting = Meeting([], [])

    def _find_data(self) -> Union[RunData, NoData]:
        if not has_data(self._job.spec):
            return NoData()
        from runyard.supervisor.lifecycle.data import RunData  # most runs have none

        return RunData(self._folder, self._job, connection=self._connection, warn=self._warn, counting=self._count_data)

    def steps(self) -> List[Callable[[], None]]:
        """Return the steps in order. Each raises PreparationFailed, Unwanted, HomeGone or ReaperGone."""
        if shares_folder(self._job) and self._job.node_rank > 0:  # node 0 fills the shared folder
            first = [self._build, self._peers.wait_for_first]
            return [
                *(first[::-1] if self.environment.needs_snapshot else first),
                *(self._bring_data, self._meet, self._plan),
            ]
        return [self._restore, self._bring_data, self._build, self._meet, self._plan]

    def _restore(self) -> None:
        folders = self._stage("finding the work folders", lambda: work_folders(self._folder, self._job))
        if len(folders) > 1:
            self._warn("work folder", "Each node works in a copy of its own; what one writes there, others do not see.")
        for work in folders:
            self._restore_to(work)
        tree = WorkTree(self._folder, self._job)
        self._stage("looking through the work folder", lambda: self._remember(tree))
        self._stage(
            "bringing back the files of earlier attempts",
            lambda: bring_back(self._folder, self._job, self._connection, tree, warn=self._warn, check=self._check),
        )

    def _remember(self, tree: WorkTree) -> None:
        """Note what the snapshot brought; wait while the disk is full."""
        backoff = Backoff()
        while True:
            try:
                return tree.remember()
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
            self._doing(f"the disk is full, waiting for space below {self._folder.path}")
            self._check()
            time.sleep(backoff.next_s())

    def _restore_to(self, work: str) -> None:
        remove_tree(work)
        self._stage("making the work folder", lambda: os.makedirs(work, 0o700))
        root = self._job.snapshot_root
        if root is not None:
            self._stage(_RESTORING, lambda: self._restore_patiently(root, work))
        for name in self._job.spec.output_folders:
            os.makedirs(os.path.join(work, name), exist_ok=True)

    def _restore_patiently(self, root: str, work: str) -> None:
        """Restore the snapshot; wait while the server is away or the disk is full. Raises OSError for other errors."""
        content, backoff = self._content(), Backoff()
        while True:
            try:
                return self._connection.insist(lambda: self._restore_once(root, content, work))
            except NoSpace:
                drop_spares_of(self._job)
                self._doing(f"{_RESTORING}: the disk is full, waiting for space below {work}")
            until = time.monotonic() + backoff.next_s()
            while time.monotonic() < until:
                self._check()
                time.sleep(0.2)

    def _restore_once(self, root: str, content: Source, work: str) -> None:
        """Restore once. Errors of this machine's disk become NoSpace or OSError; only the server is retried."""
        try:
            if isinstance(content, Known):
                restore(root, content, work, tell=self._tell(_RESTORING))
            else:
                self._restore_large(root, content, work)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, OSError):
                raise (NoSpace() if error.__cause__.errno in NO_SPACE else error.__cause__) from error
            self._doing(f"{_RESTORING}, which cannot go on: {error.what} {error.why}")
            raise

    def _restore_large(self, root: str, content: Source, work: str) -> None:
        """Restore a snapshot whose content did not come along with the job."""
        from runyard.snapshots.nearby import find_nearby  # small snapshots come along
        from runyard.supervisor.lifecycle.spare_work import note_restored, take_spare

        home = Path(self._job.home)
        if self._job.is_gang or len(work_folders(self._folder, self._job)) > 1:
            return restore(root, content, work, near=find_nearby(home, root), tell=self._tell(_RESTORING))
        if not take_spare(self._folder, self._job.home, root, work):
            restore(root, content, work, near=find_nearby(home, root), tell=self._tell(_RESTORING))
            note_restored(self._folder, root, work)

    def _content(self) -> Source:
        """Return the source of the snapshot: what came along with the job, else the server."""
        content = self._connection.client.content
        frames = self._folder.read_bytes(SNAPSHOT)
        return Known(frames, content) if frames else content

    def _tell(self, stage: str) -> Callable[[int, int], None]:
        """Return what shows on the run how far a stage is."""
        start = told_at = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal told_at
            now = time.monotonic()
            if now - told_at < _TELL_EVERY_S:
                return
            from runyard.core.machine.progress import progress_text  # most restores are quick

            told_at = now
            self._check()
            self._doing(f"{stage}{PROGRESS}{progress_text(done, total, now - start)}")

        return tell

    def _bring_data(self) -> None:
        self._data_paths = self._stage(_FETCHING, self.data.bring)

    def _count_data(self, total: int) -> Callable[[int], None]:
        """Return what counts the bytes of data that come. Several threads call it."""
        tell, lock, done = self._tell(_FETCHING), threading.Lock(), 0

        def count(size: int) -> None:
            nonlocal done
            with lock:
                done += size
                tell(done, total)

        return count

    def _build(self) -> None:
        spec = self._job.spec.environment
        built = self._stage(f"making the environment `{spec.name}`", self.environment.build)
        for warning in built.warnings:
            self._warn("environment", warning)

    def _meet(self) -> None:
        known = self._peers.known_ports()
        if known is None:
            known = self._stage("finding free ports", lambda: take_ports(self._job, self.ports))
        else:
            self.ports.hold(known)
        self._meeting = self._stage("meeting the other nodes", lambda: self._peers.meet(known))

    def _plan(self) -> None:
        plan = self._stage("laying out the processes", self._layout)
        cgroup = "" if "remove" in plan else self._group_name()  # containers have cgroups of their own
        whole: LaunchPlan = {**plan, "umask": self._umask, "cgroup": cgroup}
        self._stage("writing down the processes", lambda: self._folder.write("launch.json", whole))

    def _layout(self) -> LaunchPlan:
        built = self.environment.built
        assert built is not None
        injection = str(injection_folder(Path(self._job.home)))
        wrapper = built.wrapper
        work = work_folder(self._folder, self._job, self._job.node_rank)
        plans = wrapper is None or self.environment.mirrors  # an image's own packages are none of ours
        imports = self._plan_imports(built, work) if plans else [work]
        variables = base_variables(
            self._job if wrapper is None else replace(self._job, submitter={}),  # an image brings its own variables
            run_folder=self._folder.path,
            injection=injection,
            interpreter=built.interpreter,
            built=built.variables,
            import_path=imports,
        )
        replaced = replaced_mlflow_variables(self._job, variables)
        if replaced:
            self._warn("mlflow", _tell_replaced(replaced))
        variables["PYTHONPATH"] = os.pathsep.join(
            snapshot_path(entry, self._job.source, work) or entry for entry in variables["PYTHONPATH"].split(os.pathsep)
        )
        plan = lay_out(
            self._folder,
            self._job,
            interpreter=built.interpreter,
            variables={**variables, **self._data_paths},
            injection=injection,
            meeting=self._meeting,
        )
        if wrapper is None:
            return plan
        from runyard.supervisor.lifecycle.containers import contain  # most runs have none

        outside = [*self._data_paths.values(), work]
        return contain(plan, wrapper, self._folder, self._job, injection=injection, data=outside)

    def _plan_imports(self, built: BuiltEnvironment, work: str) -> List[str]:
        found = plan_imports(
            built.interpreter,
            self._variables(),
            source=self._job.source,
            work=work,
            links_folder=self._folder.at(LINKS),
            mirrors=self.environment.mirrors,
        )
        for warning in found.warnings:
            self._warn("environment", warning)
        return found.path

    def _variables(self) -> Dict[str, str]:
        """Return the processes' variables, as far as they are known before the environment is."""
        spec = self._job.spec
        return {**inherited(self._job.submitter), **spec.environment.variables, **spec.variables}

    def _group_name(self) -> str:
        return f"runyard-{self._job.cookie[:32]}"

    def _stage(self, name: str, work: Callable[[], T]) -> T:
        self._doing(name)
        try:
            return work()
        except (Unwanted, HomeGone, ReaperGone):
            raise
        except Exception as error:
            raise PreparationFailed(name, error) from error


def _tell_replaced(replaced: Mapping[str, str]) -> str:
    return (
        f"{', '.join(sorted(replaced))} of the submitting shell does not hold in the run: MLflow logs into the run. "
        f"To log elsewhere, name MLFLOW_TRACKING_URI in the environment's variables, or set {MLFLOW_SWITCH}=off."
    )
