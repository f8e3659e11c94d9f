"""The supervisor of one run on this node, from Preparing to the end. It may be killed at any instant and restarted.

`watch_engine` notices that a cluster's daemon on this node is gone. Such a daemon's death does not end our processes,
and the cluster may give their resources to others. The program that starts a supervisor below such a daemon keeps the
writing end of a pipe, and names the reading end in RUNYARD_WATCH_FD: it closes when that program ends, in whatever way.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Callable, List, Mapping, Optional, cast

from runyard.core.config.settings import Settings
from runyard.core.errors import RunyardError
from runyard.core.formats.plain import to_plain
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.gang.peers import Peers
from runyard.supervisor.lifecycle.layout import MPI
from runyard.supervisor.lifecycle.outcome import Outcome, after_failed_preparation, before_launch, decide
from runyard.supervisor.lifecycle.prepare import Preparation, PreparationFailed, Unwanted
from runyard.supervisor.lifecycle.stopping import (
    CANCEL,
    CUT_OFF,
    FAIL,
    FOLDER_GONE,
    HANG,
    RANK_FAILED,
    SUPERSEDED,
    TIME_LIMIT,
    Stop,
    Stopping,
    TimeLimit,
    Wake,
)
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.processes.exits import has_failed, has_raised
from runyard.supervisor.processes.keeper import ProcessOwner
from runyard.supervisor.run_folder import SPARE_NOTE, RunFolder, remove_shared, work_folder
from runyard.supervisor.shipping.connection import GRACE_S, HomeGone
from runyard.supervisor.shipping.courier import Courier

if TYPE_CHECKING:
    from runyard.core.formats.documents import EnvironmentFacts, RunError
    from runyard.core.formats.run_files import FinalState, LaunchPlan
    from runyard.supervisor.gang.mpi_job import MpiJob
    from runyard.supervisor.lifecycle.observer import RunMonitors


VARIABLE = "RUNYARD_WATCH_FD"

logger = logging.getLogger(__name__)

LEFTOVER_GRACE_S = 1.0  # between TERM and KILL for what outlives the ranks
PEER_GRACE_S = 3.0  # how long the other ranks may go on after a failure, to fail by themselves
PEER_STOP_S = 4.0  # between TERM and KILL then: ranks wait for the failed one, and TensorFlow does not end by TERM
IDLE_S = 1.0
UNKILLABLE_S = 60.0
GONE_S = 0.5  # a program that removes its own folder usually ends by itself
DESCRIBE_AFTER_S = 0.2
DESCRIBE_S = 4.0  # how long the end of a short run waits for its package list
LOCK_S = 30.0  # and for the lock file, which only the first run of a new environment makes


def watch_engine(gone: Callable[[], None], environ: Mapping[str, str] = os.environ) -> None:
    """Call `gone` once, from the thread `cluster-watch`, when the cluster's process is gone; do nothing without one."""
    fd = _find_descriptor(environ)
    if fd is not None:
        threading.Thread(target=_wait, args=(fd, gone), name="cluster-watch", daemon=True).start()


def _find_descriptor(environ: Mapping[str, str]) -> Optional[int]:
    text = environ.get(VARIABLE, "")
    if not text.isdigit():
        return None
    try:
        os.set_inheritable(int(text), True)  # an adopter that this process becomes by exec needs it, too
    except OSError:
        logger.warning("%s names descriptor %s, which is not open", VARIABLE, text)
        return None
    return int(text)


def _wait(fd: int, gone: Callable[[], None]) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except OSError as error:  # a reset socket: the other end is gone as well
        logger.info("the cluster's pipe: %s", error)
    logger.warning("the cluster's process that started this supervisor is gone")
    gone()


class Supervisor:
    """Prepares, launches, watches, stops and reports one run on this node.

    Its main thread makes all decisions here, in `run`. Other threads ship (`Courier`), talk to the other nodes
    (`Gang`), sample (`RunMonitors`), serve mpirun's launch agent (`MpiJob`) and describe the environment; they wake the
    main thread through `Wake.notify`. All that a successor needs is in the run folder.
    """

    def __init__(
        self, folder: RunFolder, job: JobSpec, keeper: ProcessOwner, settings: Settings, *, umask: int
    ) -> None:
        self._folder = folder
        self._job = job
        self._keeper = keeper
        self._settings = settings
        self._wake = Wake(folder)
        self._courier = Courier(folder, job, settings, notify=self._wake.notify, aside=keeper.standing_aside)
        self._reporter = self._courier.reporter
        self._peers = self._find_peers()
        self._preparation = Preparation(
            folder,
            job,
            settings,
            connection=self._courier.connection,
            umask=umask,
            warn=self._reporter.warn,
            doing=self._reporter.note,
            check=self._go_on_or_raise,
            peers=self._peers,
        )
        self._watching: Optional[RunMonitors] = None
        self._stopping = Stopping(folder, keeper)
        self._limit = TimeLimit(folder, job.spec.time_limit_s if self._peers.leads else 0.0)
        self._mpi = self._mpi_job() if job.spec.distribution.kind == MPI else None
        self._failed_at: Optional[float] = None
        self._gone_at: Optional[float] = None
        self._plan: LaunchPlan = {}
        self._emptied_boot_ns: Optional[int] = None
        self._hurry = threading.Event()
        self._describing = threading.Thread(target=self._describe, name="describe", daemon=True)

    def _find_peers(self) -> Peers:
        if not self._job.is_gang:
            return Peers(self._job)
        # Only jobs on several machines need it.
        from runyard.supervisor.gang.gang import Gang

        return Gang(
            self._folder,
            self._job,
            self._courier.connection,
            hear=self._reporter.hear,
            notify=self._wake.notify,
            wait=self._wait_for_peers,
            check=self._go_on_or_raise,
        )

    def run(self) -> None:
        """Supervise the run until its end is delivered. Called once. Raises ReaperGone when the reaper dies."""
        try:
            self._run()
        except HomeGone:
            logger.warning("the home is gone; ending the run's processes")
            self._empty()
            self._courier.cargo.disk.remove_overflow()
            self._keeper.leave(remove=False)

    def _run(self) -> None:
        """Bring the run to its end, write `final.json`, and deliver. A successor with `final.json` only delivers."""
        self._courier.start_soon()
        watch_engine(self._reporter.tell_engine_gone)
        self._peers.start()
        final = cast("FinalState", self._folder.read_object("final.json"))
        if not final:
            outcome = self._peers.conclude(self._live(), lambda: self._stopping.stop)
            self._observer.finish(outcome.error if self._peers.leads else None)
            final = {"status": outcome.status.value, "error": outcome.error}
            if not self._peers.leads and outcome.finding is not None:
                final["finding"] = to_plain(outcome.finding)
            self._write_final(final)
        self._finish(final)

    def _live(self) -> Outcome:
        """Prepare or take over, watch the ranks to their end, and return this node's outcome."""
        if not self._keeper.launched:
            early = self._prepare()
            if early is not None:
                return early
        else:
            self._go_on_launched()
        self._limit.begin()
        self._reporter.phase(RunStatus.RUNNING)
        self._observer.start()
        self._watch()
        self._empty()
        self._courier.cargo.disk.bring_home()
        outcome = decide(
            self._folder,
            self._job,
            launch=self._read_plan(),
            exits=self._keeper.exits,
            stop=self._explained_stop(),
            had_to_kill=self._stopping.had_to_kill,
            emptied_boot_ns=self._emptied_boot_ns,
        )
        return self._with_data_delivered(self._with_disk_named(outcome))

    def _with_disk_named(self, outcome: Outcome) -> Outcome:
        """Return the outcome; the error of a failure while the disk was full mentions that."""
        why = self._courier.cargo.disk.explain() if outcome.finding is not None else ""
        if not why or outcome.error is None:
            return outcome
        error: RunError = {**outcome.error, "message": f"{outcome.error.get('message', '')}\n{why}"}
        return outcome._replace(error=error)

    @property
    def _observer(self) -> RunMonitors:
        """The monitors, made after the program has started, so that the launch does not wait for their imports."""
        if self._watching is None:
            from runyard.supervisor.lifecycle.observer import RunMonitors

            courier, ranks = self._courier, self._rank_pids
            self._watching = RunMonitors(self._folder, self._job, self._settings, courier=courier, ranks=ranks)
        return self._watching

    def _mpi_job(self) -> MpiJob:
        from runyard.supervisor.gang.mpi_job import MpiJob  # most runs have none

        return MpiJob(self._folder, self._job, self._keeper, self._peers)

    def _go_on_launched(self) -> None:
        """Take over from an earlier supervisor: hold its ports, serve mpirun, describe the environment."""
        self._preparation.ports.hold(self._read_plan().get("ports") or ())
        if self._mpi is not None:
            self._mpi.begin()
        if self._peers.leads and self._preparation.environment.recall():
            self._describing.start()

    def _with_data_delivered(self, outcome: Outcome) -> Outcome:
        """Upload the run's data and return the outcome; a completed run fails when the upload does."""
        stop = self._stopping.stop
        if self._reporter.is_superseded or (stop is not None and stop.reason == CUT_OFF):
            return outcome  # another attempt goes on with this run
        error = self._preparation.data.deliver()
        if error is not None:  # the run folder may hold the only copy of what the program wrote
            name = error["details"]["data_reference"]
            why = str(error["message"]).partition("\n")[2]
            self._courier.cargo.refusals.add("data", f"what the run wrote for `{name}`", why, is_final=True)
        if outcome.status is not RunStatus.COMPLETED:
            return outcome
        if error is not None:
            return Outcome(RunStatus.FAILED, error)
        try:
            self._preparation.data.register()
        except RunyardError as refusal:
            self._reporter.warn("data", f"An output of the run was not registered as a dataset: {refusal}")
        return outcome

    def _prepare(self) -> Optional[Outcome]:
        """Prepare and launch; an outcome means that nothing was launched."""
        self._reporter.phase(RunStatus.PREPARING)
        try:
            for step in self._preparation.steps():
                if self._is_unwanted():
                    return before_launch(self._explained_stop())
                step()
        except Unwanted:
            return before_launch(self._explained_stop())
        except PreparationFailed as error:
            logger.error("%s failed", error.stage, exc_info=error.cause)
            self._peers.tell(failed={"stage": error.stage})
            return after_failed_preparation(error, node=self._job.nodes[0] if self._peers.is_gang else None)
        if self._is_unwanted():
            return before_launch(self._explained_stop())
        self._reporter.phase(RunStatus.STARTING)
        if self._mpi is not None:
            self._mpi.begin()
        self._keeper.launch()
        if self._peers.leads:
            self._describing.start()
        return None

    def _go_on_or_raise(self) -> None:
        """Take in news during a long step. Raises Unwanted, ReaperGone or HomeGone when the step must not go on."""
        self._wake.wait(self._keeper.fileno(), 0.0)
        self._keeper.update()
        if self._is_unwanted():
            raise Unwanted

    def _is_unwanted(self) -> bool:
        """Return whether the run must not go on: it is stopped, or another node has failed. May wait for the server."""
        self._courier.connection.check_home()
        self._renew_lease()
        self._hear_wishes()
        return self._stopping.stop is not None or self._peers.have_failed()

    def _wait_for_peers(self) -> None:
        """Wait up to a second for news from other nodes. `Gang` calls it when this node has nothing to do."""
        self._wake.wait(self._keeper.fileno(), IDLE_S)
        self._keeper.update()
        self._courier.connection.check_home()
        self._hear_wishes()

    def _renew_lease(self) -> None:
        """If the lease is over before the launch, wait until the server says whether this attempt may start."""
        if not self._courier.lease.is_over:
            return
        logger.warning("the server has not answered for long; waiting for its word before anything starts")
        try:
            self._courier.connection.insist(self._reporter.ask)
        except RunyardError as error:
            logger.warning("this attempt may not go on: %s", error)
            self._stopping.begin(SUPERSEDED, grace_s=0.0)

    def _describe(self) -> None:
        """Report the package list shortly after the launch, and make the lock file. Runs in the thread `describe`."""
        self._hurry.wait(DESCRIBE_AFTER_S)
        try:
            self._courier.connection.check_home()
            found: EnvironmentFacts = {**self._preparation.environment.describe(), **self._preparation.data.recall()}
            self._reporter.add_environment(found)
            lock = self._preparation.environment.write_lock()
            if lock is not None:
                self._reporter.add_environment({**found, "lock": lock})
        except Exception as error:
            logger.warning("the environment could not be described: %s", error)

    def _watch(self) -> None:
        """Watch until every rank that counts has ended, or was stopped."""
        self._keeper.update()
        while not self._is_over():
            self._wake.wait(self._keeper.fileno(), self._next_s())
            self._keeper.update()
            if self._mpi is not None:
                self._mpi.step(is_stopping=self._stopping.stop is not None)
            self._hear_wishes()
            if self._limit.left_s() <= 0:
                self._stopping.begin(TIME_LIMIT, grace_s=self._job.spec.grace_s)
            self._look_for_failures()
            self._look_for_hang()
            self._look_for_folder()
            self._tell_of_stop()

    def _tell_of_stop(self) -> None:
        """Tell the other nodes about a stop that was decided here; other stops reach them by themselves."""
        stop = self._stopping.stop
        if stop is None or stop.reason in (CANCEL, FAIL, SUPERSEDED, RANK_FAILED):
            return
        if self._peers.leads:
            self._peers.tell(stop={"reason": stop.reason, "grace_s": stop.grace_s})
        else:
            self._peers.tell(failed={"reason": stop.reason})

    def _next_s(self) -> float:
        """Advance a stop, and return how long the main thread may wait for news."""
        grace_s = self._stopping.advance()
        waits = [IDLE_S, max(0.0, self._limit.left_s())]
        if grace_s is not None:
            waits.append(grace_s)
        elif self._stopping.stop is not None:
            waits = [0.1]
        if self._failed_at is not None and self._stopping.stop is None:
            waits.append(max(0.0, self._failed_at + PEER_GRACE_S - time.monotonic()))
        if self._gone_at is not None and self._stopping.stop is None:
            waits.append(max(0.0, self._gone_at + GONE_S - time.monotonic()))
        return min(waits)

    def _is_over(self) -> bool:
        """Return whether the run has ended here and on the other nodes; after a stop, here is enough."""
        if not self._is_done_here():
            return False
        self._peers.tell(workers_done=True)
        return self._stopping.stop is not None or self._peers.are_done()

    def _is_done_here(self) -> bool:
        """Return whether all ranks of this node that count have ended."""
        ended = {record["rank"] for record in self._keeper.exits}
        processes = self._read_plan()["processes"]
        counting = [one["rank"] for one in processes if one.get("counts", True)]
        if not self._keeper.launched or not counting:  # a node may have only parameter servers
            return self._keeper.launched and self._peers.is_gang and bool(processes)
        if self._mpi is not None:
            return self._mpi.is_over(counting, is_stopping=self._stopping.stop is not None)
        return all(rank in ended for rank in counting)

    def _read_plan(self) -> LaunchPlan:
        """Return `launch.json`; when the program removed it, the ranks that the process owner knows."""
        if not self._plan.get("processes"):
            self._plan = cast("LaunchPlan", self._folder.read_object("launch.json"))
        if self._plan.get("processes"):
            return self._plan
        known = {record["rank"] for record in [*self._keeper.ranks, *self._keeper.exits]}
        return {"processes": [{"rank": rank} for rank in sorted(known) if rank >= 0]}

    def _hear_wishes(self) -> None:
        """Take in the desired state of server, `control.json`, node 0 and lease; begin the stop that it asks for."""
        if self._wake.was_rung():
            self._courier.ship_now()
        if self._wake.control_changed():
            self._reporter.ask_now()
        desired = self._wake.desired() or self._reporter.desired
        theirs = self._peers.stop()
        if self._reporter.is_superseded or self._peers.is_over:
            self._stopping.begin(SUPERSEDED, grace_s=0.0)
        elif theirs is not None:
            self._stopping.begin(theirs.reason, grace_s=theirs.grace_s, error=theirs.error)
        elif desired == "cancel":
            self._stopping.begin(CANCEL, grace_s=self._job.spec.grace_s)
        elif desired == "fail":
            self._stopping.begin(FAIL, grace_s=self._job.spec.grace_s, error=self._reporter.desired_error)
        elif self._keeper.launched and self._courier.lease.has_ended(self._reporter.ask_now):
            self._stopping.begin(CUT_OFF, grace_s=min(self._job.spec.grace_s, GRACE_S))

    def _explained_stop(self) -> Optional[Stop]:
        """Return the stop with its error, and ask the server for it: shipments and `control.json` have no error."""
        stop = self._stopping.stop
        if stop is None or stop.reason != FAIL or stop.error is not None:
            return stop
        try:
            self._courier.connection.insist(self._reporter.ask)
        except RunyardError as error:
            logger.warning("the server does not say why the run shall fail: %s", error)
        return replace(stop, error=self._reporter.desired_error)

    def _look_for_failures(self) -> None:
        """Tell the other nodes about a failed rank, and stop the run when the others had time to fail by themselves."""
        failed = [record["rank"] for record in self._keeper.exits if has_failed(record)]
        if failed or self._has_raised() or (self._mpi is not None and self._mpi.has_left_early()):
            self._peers.tell(failed={"ranks": failed[:1]})
        elif not self._peers.have_failed():
            return
        self._failed_at = self._failed_at or time.monotonic()
        nobody_waits = self._peers.has_lost() or (self._peers.is_gang and not self._rank_pids())
        if nobody_waits or time.monotonic() - self._failed_at >= PEER_GRACE_S:
            self._stopping.begin(RANK_FAILED, grace_s=min(self._job.spec.grace_s, PEER_STOP_S))

    def _has_raised(self) -> bool:
        """Return whether one of several ranks has failed and lives on. A single rank may have threads that go on."""
        ranks = [entry for entry in self._keeper.ranks if entry["rank"] >= 0]
        is_one_of_several = len(ranks) > 1 or self._peers.is_gang
        return is_one_of_several and has_raised(self._folder, ranks, self._keeper.exits)

    def _look_for_hang(self) -> None:
        """Stop the run when it hangs and its settings say that a hang fails it."""
        if self._failed_at is not None or self._stopping.stop is not None:
            return
        error = self._observer.find_hang(self._read_plan(), self._keeper.exits)
        if error is not None:
            self._stopping.begin(HANG, grace_s=min(self._job.spec.grace_s, PEER_STOP_S), error=error)

    def _rank_pids(self) -> List[int]:
        """Return the pids of the ranks, without mpirun and its daemons."""
        return [int(entry["pid"]) for entry in self._keeper.ranks if entry["rank"] >= 0]

    def _look_for_folder(self) -> None:
        """Stop the run when its folder stays removed for half a second."""
        if not self._folder.is_gone():
            self._gone_at = None
            return
        self._gone_at = self._gone_at or time.monotonic()
        if time.monotonic() - self._gone_at >= GONE_S:
            self._stopping.begin(FOLDER_GONE, grace_s=0.0)

    def _empty(self) -> None:
        """End all processes of the run, before it is called finished."""
        self._emptied_boot_ns = boot_ns()
        self._keeper.kill(grace_s=0.0 if self._stopping.had_to_kill else LEFTOVER_GRACE_S)
        began = time.monotonic()
        while not self._keeper.is_empty:
            self._wake.wait(self._keeper.fileno(), 0.05)
            self._keeper.update()
            if time.monotonic() - began > UNKILLABLE_S:
                self._reporter.warn("processes", "A process of this run cannot be killed; the node needs care.")
        self._remove_containers()

    def _remove_containers(self) -> None:
        """Remove the run's containers; warn about those that remain."""
        if not self._read_plan().get("remove"):
            return
        from runyard.supervisor.lifecycle.containers import remove_containers  # most runs have none

        for problem in remove_containers(self._read_plan()):
            self._reporter.warn("containers", f"A container of this run could not be removed: {problem}")

    def _write_final(self, final: FinalState) -> None:
        """Write `final.json` durably; wait for space on a full disk. A removed folder gets none."""
        while not self._folder.is_gone():
            try:
                self._folder.make_subfolders()  # the program may have removed them
                return self._folder.write_end(final)
            except OSError as error:  # a full disk: an end that was reported must not change
                logger.warning("final.json could not be written: %s", error)
                self._reporter.note(f"the end of the run cannot be written below {self._folder.path}: {error.strerror}")
                time.sleep(1.0)

    def _finish(self, final: FinalState) -> None:
        """Deliver everything and the end, then leave the process owner. May be repeated by a successor."""
        self._courier.start()
        self._reporter.phase(RunStatus.FINALIZING)
        if self._describing.is_alive():
            self._hurry.set()
            self._describing.join(LOCK_S if self._preparation.environment.makes_lock else DESCRIBE_S)
        delivered = self._courier.deliver(final, instead=None if self._peers.leads else self._peers.say_farewell)
        if delivered and not self._folder.is_gone():
            self._folder.mark("done")
        logger.info("run %s: %s", self._job.run_id, final["status"] if delivered else "not delivered")
        removes = delivered and not self._settings.keep_run_folders and not self._courier.keeps_folder
        if delivered and not self._courier.keeps_folder:
            self._courier.cargo.disk.remove_overflow()
        if removes:
            remove_shared(self._job)
            self._hand_on_work_folder()
        self._keeper.leave(remove=removes)

    def _hand_on_work_folder(self) -> None:
        """Leave a large work folder to the next run of the same snapshot."""
        if not self._folder.has(SPARE_NOTE):
            return
        from runyard.supervisor.lifecycle.spare_work import leave_spare  # most snapshots are small

        try:
            leave_spare(self._folder, self._job.home, work_folder(self._folder, self._job, 0))
        except OSError as error:
            logger.info("the work folder is not left to the next run: %s", error)
