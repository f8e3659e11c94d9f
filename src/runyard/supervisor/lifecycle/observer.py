"""Watches a run beside its ranks' exits: system metrics, TensorBoard files, hangs, and the diagnosis file."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Callable, List, Optional, Sequence

from runyard.core.config.settings import Settings, settings_of_run
from runyard.core.errors import InvalidArgument
from runyard.core.specs import JobSpec
from runyard.launchers.variables import MLFLOW_SWITCH, mlflow_variables
from runyard.supervisor.diagnosis.diagnosis import document_of
from runyard.supervisor.diagnosis.hangs import STACKS_FILE, Hang, HangWatch
from runyard.supervisor.lifecycle.usage import Sampling
from runyard.supervisor.run_folder import RunFolder, prefix_of
from runyard.supervisor.shipping.own_journal import OwnJournal
from runyard.supervisor.shipping.tensorboard import EventFiles

if TYPE_CHECKING:
    from runyard.core.formats.documents import RunError
    from runyard.core.formats.run_files import LaunchPlan, RankExit
    from runyard.supervisor.shipping.courier import Courier

logger = logging.getLogger(__name__)

DIAGNOSIS_FILE = "diagnosis.json"
MLFLOW_STORES = ("mlruns", "mlflow.db", "mlruns.db")  # as MLflow's releases name them by default


class RunMonitors:
    """The monitors of one supervisor.

    The main thread calls all methods; sampling and event files have threads of their own. A full disk or a removed
    folder is ignored.
    """

    def __init__(
        self,
        folder: RunFolder,
        job: JobSpec,
        settings: Settings,
        *,
        courier: Courier,
        ranks: Callable[[], List[int]],
    ) -> None:
        self._folder = folder
        self._job = job
        self._warn = courier.reporter.warn
        chosen = self._settings(settings)
        self._fails = chosen.hang_fails
        self._hangs = HangWatch(folder, job, limit_s=chosen.hang_after_s)
        self._sampling = Sampling(folder, job, ranks=ranks, every_s=chosen.sample_every_s)
        self._cargo = courier.cargo
        self._events = EventFiles(folder, job, courier.cargo.tree, courier.connection)

    def start(self) -> None:
        """Start sampling and reading event files, after the launch. Called once."""
        self._sampling.start()
        self._events.start()

    def find_hang(self, launch: LaunchPlan, exits: Sequence[RankExit]) -> Optional[RunError]:
        """Look once for a hang and warn about it; return its error when the run must fail because of it."""
        hang = self._look(launch, exits)
        if hang is None:
            return None
        self._warn("hang", hang.error["message"].replace("\n", " "))
        if hang.stacks:
            self._keep_stacks(hang.stacks)
        if self._fails:
            return hang.error
        self._keep(hang.error)
        return None

    def finish(self, error: Optional[RunError]) -> None:
        """Stop the monitors, and write `diagnosis.json` when the run's error was diagnosed."""
        self._sampling.stop()
        self._events.stop()
        self._bring_in_mlflow_stores()
        if error and "kind" in (error.get("details") or {}):
            self._keep(error)

    def _bring_in_mlflow_stores(self) -> None:
        """Bring in what the program logged into MLflow stores of its own. What is wrong with one is a warning."""
        named = {**self._job.spec.environment.variables, **self._job.spec.variables}
        switch = {name: value for name, value in named.items() if name == MLFLOW_SWITCH}
        if self._job.interactive_pid is not None or not mlflow_variables(self._job, switch):
            return  # it is the user's own folder, or MLflow is switched off
        for root in self._cargo.tree.roots:
            for store in _find_mlflow_stores(root, self._job.spec.output_folders):
                from runyard.supervisor.lifecycle.mlflow_store import bring_in  # most runs leave none

                try:
                    tree, kept = self._cargo.tree, self._cargo.uploads.sources
                    bring_in(self._folder, self._job, tree, root, store, kept=kept, warn=self._warn)
                except Exception as error:  # a program wrote it, and the run must end whatever it holds
                    logger.exception("the MLflow store %s could not be brought in", store)
                    self._warn("mlflow", f"The MLflow store {store} could not be brought into the run: {error}")

    def _look(self, launch: LaunchPlan, exits: Sequence[RankExit]) -> Optional[Hang]:
        try:
            return self._hangs.step(launch, exits)
        except Exception:  # a program that cannot be inspected must not end its run
            logger.exception("the ranks could not be looked at")
            self._hangs = HangWatch(self._folder, self._job, limit_s=0)
            return None

    def _keep(self, error: RunError) -> None:
        try:
            self._folder.write(DIAGNOSIS_FILE, document_of(error))
            self._add_file(DIAGNOSIS_FILE)
        except OSError as problem:
            logger.warning("%s could not be written: %s", DIAGNOSIS_FILE, problem)

    def _keep_stacks(self, text: str) -> None:
        try:
            with open(self._folder.at(STACKS_FILE), "w", encoding="utf-8") as file:
                file.write(text)
            self._add_file(STACKS_FILE)
        except OSError as problem:
            logger.warning("%s could not be written: %s", STACKS_FILE, problem)

    def _add_file(self, name: str) -> None:
        with OwnJournal(self._folder, self._job) as own:
            own.add_file(prefix_of(self._job) + name, name)

    def _settings(self, settings: Settings) -> Settings:
        try:
            return settings_of_run(settings, {**self._job.spec.environment.variables, **self._job.spec.variables})
        except InvalidArgument as error:
            self._warn("settings", str(error))
            return settings


def _find_mlflow_stores(root: str, folders: Sequence[str]) -> List[str]:
    """Return what may be a store, in the work folder and in the output folders, with paths below `root`."""
    places = [os.path.join(folder, name) if folder else name for folder in ("", *folders) for name in MLFLOW_STORES]
    return [place for place in places if os.path.lexists(os.path.join(root, place))]
