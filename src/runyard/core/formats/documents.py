"""JSON that several packages read: a run's error, warnings, environment and nodes; sweeps; built environments.

For type checkers these are dicts with known keys. When a program runs they are plain dicts: a newer peer may send more
keys, which are kept, and the server's schemas of `core.records` say "object". `run_files.py` has those of a run folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, TypedDict, Union

    from runyard.core.formats.run_files import PlannedProcess

    class EvidenceLine(TypedDict):
        """A line of one of the run's files that shows why it failed."""

        file: str
        line: Optional[int]  # from 1; None: the file is too long to count
        text: str

    class UncaughtException(TypedDict, total=False):
        """`exceptions/<pid>.json`, by the excepthook of a rank or of one of its child processes."""

        pid: int
        rank: Optional[int]
        boot_ns: int  # when it was raised
        type: str
        message: str
        traceback: str
        missing_module: Optional[str]
        missing_file: Optional[str]  # absolute path of the file that does not exist

    class RankFacts(TypedDict, total=False):
        """Which rank it was and where it ran, as far as that is known."""

        rank: int
        role: str
        node: str
        address: str
        log: str  # of the run's files
        why: str  # it ended, or waits, because of the rank that failed first

    class ErrorDetails(RankFacts, total=False):
        """What is known about a failure. Which keys there are depends on the code and on `kind`."""

        kind: str  # of FailureCause, or "node lost", "mpirun"
        exit_code: Optional[int]
        signal: Any  # a name such as SIGKILL; mpirun's own as a number
        evidence: List[EvidenceLine]
        last_lines: List[str]
        failed_ranks: List[int]
        consequences: List[RankFacts]
        exception: UncaughtException
        stacks: str  # the run's file with the stacks of all ranks
        silent_s: Dict[str, float]  # by rank
        stage: str  # of the preparation
        time_limit_s: float
        nodes: List[str]  # those that were lost
        node_rank: int
        hint: str  # what to do next
        data_reference: str  # whose data was not uploaded

    class RunError(TypedDict, total=False):
        """Why a run failed or was ended. The sdk shows it in Azure's shape."""

        code: str
        message: str
        details: ErrorDetails

    class RunWarning(TypedDict, total=False):
        """Something that did not go as asked, shown on the run."""

        source: str
        message: str
        code: str  # given to `run.fail()`
        left_out: int  # the last warning of a run that has too many: how many more there were

    class EnvironmentFacts(TypedDict, total=False):
        """What a run really used."""

        interpreter: str
        python: str  # its version
        platform: str
        packages: Dict[str, str]  # name → version
        conda: List[Dict[str, str]]  # name, version, build and sha256 of each package
        commits: Dict[str, str]  # requirement from git as it was given → the commit that was installed
        lock: str  # the run's file with exact versions and hashes
        image: Dict[str, object]  # of a run in containers
        datasets: Dict[str, Dict[str, object]]  # by input name: files, bytes, fingerprint, read
        error: str  # why the rest is not known

    class ReadyNode(TypedDict):
        """A NodeSpec as plain data, and the ports that the node has taken."""

        rank: int
        address: str
        name: str
        gpus: List[str]
        ports: List[int]

    class FailedNode(TypedDict):
        ranks: List[int]  # the first that failed there

    class NodeEnd(TypedDict, total=False):
        status: str
        finding: Mapping[str, object]  # a Finding as plain data

    class NodeFacts(TypedDict, total=False):
        """What a node of a job tells the other nodes, through the server. A fact is never withdrawn."""

        host: str
        ready: ReadyNode
        failed: FailedNode
        stop: Dict[str, object]  # a Stop as plain data, by node 0
        workers_done: bool
        ended: NodeEnd
        daemons: Dict[str, str]  # rank → the line with which mpirun wants its daemon started
        daemon_exits: Dict[str, int]  # rank → exit code

    class NodeNews(TypedDict):
        """A node as the server shows it to the others."""

        rank: int
        facts: NodeFacts
        lost: str  # why the node will never be heard again
        host: str
        failed_order: int  # which of the nodes failed first, as the server heard it; 0: it has not
        silent: bool  # not heard for a lease

    class SweepTrial(TypedDict):
        """A trial of an earlier sweep that this one continues, or what a child has in common with one."""

        run_id: str
        parameters: Dict[str, Any]  # by name
        best: Union[float, str, None]  # of the primary metric; a text such as "nan" where it is not finite

    class SweepStop(TypedDict):
        """Why the policy stopped a child."""

        interval: int
        reason: str

    class SweepChild(SweepTrial):
        index: int
        status: str
        best_at: Optional[str]
        stopped: Optional[SweepStop]
        cut_short: Optional[Dict[str, str]]  # kind and reason: why it did not run to its end
        started_at: Optional[str]
        ended_at: Optional[str]

    class SweepReport(TypedDict):
        """A sweep as `GET /runs/{id}/sweep` shows it."""

        run_id: str
        spec: Dict[str, Any]  # a SweepSpec as plain data
        children: List[SweepChild]
        inherited: List[SweepTrial]
        best: Optional[Dict[str, Any]]  # run_id and value
        bests: List[Dict[str, Any]]  # run_id, value and `at`: each time there was a better one
        closed: Optional[str]  # why there are no more children
        finished: Optional[Dict[str, Any]]  # the last event of the sweep's journal: status and reason

    class CachedEnvironment(TypedDict):
        """An environment that was built on the server's machine: `environments.pruning.BuiltFolder` as plain data."""

        key: str
        path: str
        name: str
        kind: str
        python: str
        requirements: List[str]
        built_at: float
        used_at: float
        size_bytes: int
        runs: List[str]  # that use it now
        is_finished: bool

    class ErrorAnswer(TypedDict, total=False):
        """A RunyardError on the wire: `core.errors.error_from_plain` raises it again on the other side."""

        code: str
        what: str
        why: str
        hint: str
        details: Dict[str, Any]  # of the class

    class SubmitPlan(TypedDict, total=False):
        """What a submit would start: an `engine.runs.plan.RunPlan` as plain data, with the sdk's keys of a dry run."""

        run_id: str
        target: str
        node_count: int
        nodes: List[Dict[str, Any]]  # NodeSpec of each
        argv: List[str]
        run_folder: str
        spec: Dict[str, Any]  # RunSpec
        processes: List[PlannedProcess]
        script: str
        resources: Dict[str, Any]  # what the cluster is asked for, in its own words
        experiment: str  # this and the rest: by the sdk
        source_directory: str
        snapshot: Dict[str, Any]  # snapshots.take.Survey
        tags: Dict[str, Optional[str]]

    class RepairedTable(TypedDict):
        name: str
        saved: int
        lost: Optional[int]  # None: some

    class RepairAnswer(TypedDict):
        """What `runyard server repair` found: a `server.storage.repair.RepairReport` as plain data."""

        sound: bool
        damaged_file: Optional[str]  # where the damaged database is now
        problems: List[str]
        tables: List[RepairedTable]
        missing_packs: int
        damaged_chunks: int
        runs: List[Dict[str, Any]]  # server.storage.repair.DamagedRun

else:
    EvidenceLine = UncaughtException = RankFacts = ErrorDetails = RunError = RunWarning = dict
    EnvironmentFacts = ReadyNode = FailedNode = NodeEnd = NodeFacts = NodeNews = dict
    SweepTrial = SweepStop = SweepChild = SweepReport = CachedEnvironment = ErrorAnswer = SubmitPlan = dict
    RepairedTable = RepairAnswer = dict
