"""Turns a request into a run: checked, stored once, and started when its target has room."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runyard.core.compute_options import check_resources
from runyard.core.config.paths import run_folder
from runyard.core.errors import Conflict, InvalidArgument, NotFound, SubmitRejected, UserError
from runyard.core.formats.documents import RunWarning
from runyard.core.formats.plain import to_plain
from runyard.core.names import check_experiment_name, check_run_id, check_workspace_name, clean_file_name
from runyard.core.records import LEFT_OUT_PROPERTY, NewRun, Run, RunChange
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START, EngineContext, EngineEvents, is_launched
from runyard.engine.runs.dispatch import dispatch, draft_entry, mint_token, require_reachable
from runyard.engine.runs.requirements import find_gpu_request, waiting_entry
from runyard.engine.runs.schedule import launch_now
from runyard.engine.sanitize import redact, redact_variables
from runyard.engine.state.gpus import VARIABLE
from runyard.engine.state.spool import Spooled
from runyard.engine.state.targets import Targets
from runyard.store.base import RunStore

MAX_NAME, MAX_VALUE, MAX_COUNT = 255, 1000, 500
MAX_KEY = 600  # with the namespace of who sent it
MAX_ATTEMPTS = 100
MOST_PROCESSES_PER_NODE = 1024
MOST_PROCESSES = 65_536  # of a run, on all its nodes
_OVERRIDE = re.compile(r"\+{0,2}(?P<name>~?[A-Za-z_][\w.@/-]*)(?:=(?P<value>.*))?", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_HYDRA_FLAGS = frozenset({"multirun", "resolve", "hydra-help"})  # an override may follow them


def with_target(context: EngineContext, new: NewRun) -> NewRun:
    """Return the request with its target's own name: an alias may come to mean another target while the run lives.

    Raises:
        SubmitRejected: there is no such target, its machines cannot reach this server, or its cluster cannot be told
            what the run asks for.
    """
    target = context.compute.targets.get(new.workspace, new.spec.target)
    spec = new.spec if target.name == new.spec.target else replace(new.spec, target=target.name)
    try:
        check_resources(spec.resources)
        if not target.is_local:
            require_reachable(context.addresses, target.backend)
    except UserError as error:
        raise SubmitRejected(error.what, why=error.why, hint=error.hint) from error
    return replace(new, spec=spec if target.is_local else _with_gpus(spec))


def _with_gpus(spec: RunSpec) -> RunSpec:
    """Return the spec with the GPUs that its variable asks for: a cluster knows only numbers."""
    variables = {**spec.environment.variables, **spec.variables}
    asked = variables.get(VARIABLE, "").strip()
    if not asked:
        return spec
    if not asked.isdecimal():
        raise SubmitRejected(
            f"The variable {VARIABLE} is {asked[:40]!r}.",
            why=f"The cluster of `{spec.target}` gives GPUs out by number.",
            hint=f"{VARIABLE}=2 asks for two on each node of the run.",
        )
    return replace(spec, gpus=int(asked))


def parse_parameters(arguments: Sequence[str]) -> dict[str, str]:
    """Return {name: value} of the named arguments; the last of twins wins. Numbers that follow a number belong to it.

    These are `--name value`, `--name=value`, a lone `--flag` ("True"), and the overrides of Hydra and its like:
    `name=value`, `+name=value`, and `~name`, which removes a key and is kept with its tilde.
    """
    found: dict[str, str] = {}
    waiting = list(reversed(arguments))
    while waiting and len(found) < MAX_COUNT:
        name, value = _named(waiting.pop(), waiting)
        if name and len(name) <= MAX_NAME:
            found[name] = value[:MAX_VALUE]
    return found


def _named(word: str, waiting: list[str]) -> tuple[str, str]:
    """Return the name and value of a word, taken from the next word if need be; no name when it has none."""
    override = _OVERRIDE.fullmatch(word)
    if override is not None and (override["value"] is not None or word.startswith("~")):
        return override["name"], "True" if override["value"] is None else override["value"]
    if not word.startswith("--"):
        return "", ""
    name, equals, value = word[2:].partition("=")
    if not name or equals:
        return name, value
    takes_next = bool(waiting) and not waiting[-1].startswith("--") and name not in _HYDRA_FLAGS
    if not takes_next:
        return name, "True"
    values = [waiting.pop()]
    while waiting and _NUMBER.fullmatch(waiting[-1]) and _NUMBER.fullmatch(values[0]):
        values.append(waiting.pop())
    return name, " ".join(values)


@dataclass(frozen=True)
class ExternalProcess:
    """The process behind a run that we did not launch."""

    pid: int
    start_ticks: int
    folders: Mapping[str, str] = field(default_factory=dict)  # shipped while they grow: name → absolute path
    host: str = ""  # a word for another machine; "": the server's own


@dataclass(frozen=True)
class Submitted:
    """A run that was created, or found by its key. `token` and `folder` are for runs that log from outside."""

    run: Run
    is_new: bool
    token: str | None = None
    folder: str | None = None


def submit(context: EngineContext, new: NewRun, *, submitter: Mapping[str, str] | None = None) -> Submitted:
    """Create a run and start it as soon as its target has room. The same key again returns the same run.

    Called by request threads and by the loop, for children of sweeps. The run is durable when this returns.

    Raises:
        SubmitRejected, InvalidArgument, NotFound: the request cannot become a run; nothing was stored.
        Conflict: the key or the id belongs to another run.
    """
    prepared = check(context, new)
    if not (prepared.spec.script or prepared.spec.command):
        raise SubmitRejected(
            f"Run `{new.id}` names neither a script nor a command.",
            why="There would be nothing to run.",
            hint="ScriptRunConfig(source_directory='.', script='train.py')",
        )
    accepted, spooled = accept(context, prepared, submitter or {})
    wish = find_gpu_request(context.compute, prepared.workspace, prepared.spec, submitter or {})
    parameters = {**parse_parameters(accepted.spec.arguments), **redact_variables(new.parameters)}
    run, is_new = create(context, replace(accepted, parameters=parameters), spooled)
    warnings = {"gpus": wish.warning, "snapshot": new.properties.get(LEFT_OUT_PROPERTY)}
    if is_new and any(warnings.values()):
        said: list[RunWarning] = [{"source": key, "message": text} for key, text in warnings.items() if text]
        context.store.update_run(run.id, RunChange(warnings_add=said))
    launch_now(context, run)
    return Submitted(context.store.get_run(run.id), is_new)


def accept(context: EngineContext, prepared: NewRun, submitter: Mapping[str, str]) -> tuple[NewRun, Spooled]:
    """Return a checked request as it may be stored, and what no database may hold of it.

    Raises:
        SubmitRejected: its target would refuse it.
    """
    context.compute.backend(prepared.workspace, prepared.spec.target).plan(draft_entry(context, prepared, submitter))
    shown = redact(prepared.spec)
    whole = None if shown is prepared.spec else to_plain(prepared.spec)
    is_here = context.compute.targets.get(prepared.workspace, prepared.spec.target).is_local
    return replace(prepared, spec=shown), Spooled(submitter=dict(submitter) if is_here else {}, spec=whole)


def register_external_run(context: EngineContext, new: NewRun, watched: ExternalProcess | None = None) -> Submitted:
    """Create a run that we did not launch: it is Running at once, and `watched` gets a supervisor that ships for it."""
    prepared = check(context, new)
    if prepared.spec.script or prepared.spec.command:
        raise InvalidArgument(f"Run `{new.id}` names a script, so it cannot be one that somebody else launched.")
    if watched is None:
        return _unwatched(context, prepared)
    spooled = Spooled(
        interactive_pid=watched.pid,
        interactive_start_ticks=watched.start_ticks,
        interactive_folders=_check_folders(watched.folders),
    )
    run, is_new = create(context, prepared, spooled)
    _check_not_launched(run)
    token = None
    if run.status in BEFORE_START:
        token = dispatch(context, run.id)
    run = context.store.get_run(run.id)
    folder = str(run_folder(context.settings.home, run.id, run.attempt))
    return Submitted(run, is_new, token or mint_token(context.store, run), folder)


def check(context: EngineContext, new: NewRun) -> NewRun:
    """Return the request with its snapshot filled in; raise for what cannot become a run."""
    check_run_id(new.id)
    check_workspace_name(new.workspace)
    check_experiment_name(new.experiment)
    if not new.key or len(new.key) > MAX_KEY:
        raise InvalidArgument(f"A run's key must have 1 to {MAX_KEY} characters, found {len(new.key)}.")
    if new.status is not RunStatus.NOT_STARTED:
        raise InvalidArgument(f"A new run starts as {RunStatus.NOT_STARTED}, not as {new.status}.")
    context.store.get_workspace(new.workspace)
    new = with_target(context, new)
    _check_nodes(context.compute.targets, new)
    _check_script(new)
    _check_limits(new)
    _check_parent(context.store, new)
    return _with_snapshot(context.store, context.events, new)


def _check_folders(folders: Mapping[str, str]) -> dict[str, str]:
    for name, path in folders.items():
        if clean_file_name(name) != name or "/" in name or not path.startswith("/"):
            raise InvalidArgument(f"A watched folder must be a name and an absolute path, found {name!r}: {path!r}.")
    return dict(folders)


def _check_nodes(targets: Targets, new: NewRun) -> None:
    target = targets.get(new.workspace, new.spec.target)
    nodes, processes = new.spec.distribution.node_count, new.spec.distribution.processes_per_node
    if nodes < 1 or processes < 1:
        raise SubmitRejected(
            f"Run `{new.id}` asks for {nodes} nodes with {processes} processes each.",
            why="There would be nothing to run.",
            hint="Both numbers must be 1 or more.",
        )
    _check_processes(new)
    if target.is_pool and target.slots is not None and nodes > target.slots:
        raise SubmitRejected(
            f"Run `{new.id}` asks for {nodes} node{'s' if nodes > 1 else ''} of `{target.name}`.",
            why=f"That compute target has {target.slots} at most, so the run would wait for ever.",
            hint=f"Set node_count to {target.slots} or less, or `runyard compute update {target.name} "
            f"--max-nodes {nodes}`.",
        )


def _check_processes(new: NewRun) -> None:
    """Refuse what no machine has: a node would run out of memory before it started the first process."""
    distribution = new.spec.distribution
    nodes = distribution.node_count
    asked = [(distribution.processes_per_node, nodes * distribution.processes_per_node)]
    tasks = [distribution.options.get(name, 0) for name in ("worker_count", "parameter_server_count")]
    if any(type(count) is not int or count < 0 for count in tasks):
        raise SubmitRejected(f"Run `{new.id}` has worker_count and parameter_server_count that are no counts.")
    asked.append((-(-sum(tasks) // nodes), sum(tasks)))
    for per_node, total in asked:
        if per_node > MOST_PROCESSES_PER_NODE or total > MOST_PROCESSES:
            raise SubmitRejected(
                f"Run `{new.id}` asks for {per_node:,} processes on a node, {total:,} in all.",
                why=f"{MOST_PROCESSES_PER_NODE:,} on a node and {MOST_PROCESSES:,} in all are the most.",
                hint="Set process_count_per_node to the number of GPUs or cores of a node.",
            )


def _check_script(new: NewRun) -> None:
    if new.spec.script is None:
        return
    try:
        clean_file_name(new.spec.script)
        if "\\" in new.spec.script:
            raise InvalidArgument("It is a path of Windows.", why="It holds a backslash.")
    except InvalidArgument as error:
        raise SubmitRejected(
            f"The script {new.spec.script[:200]!r} cannot be run.",
            why=error.why or error.what,
            hint="Name the script relative to source_directory, such as `train.py` or `src/train.py`.",
        ) from error


def _check_limits(new: NewRun) -> None:
    spec = new.spec
    if spec.time_limit_s <= 0 or spec.grace_s < 0:
        raise SubmitRejected(
            f"Run `{new.id}` has a time limit of {spec.time_limit_s:g} s and a grace of {spec.grace_s:g} s.",
            why="It would be stopped before it starts.",
            hint="Leave max_run_duration_seconds out for no limit, or give more than 0.",
        )
    if not 1 <= spec.max_attempts <= MAX_ATTEMPTS:
        raise SubmitRejected(
            f"Run `{new.id}` asks for {spec.max_attempts} attempts.",
            why="A run is started once at least, and further times only when its machine is lost or it is preempted.",
            hint=f"Set max_attempts to a number from 1 to {MAX_ATTEMPTS}.",
        )


def _check_parent(store: RunStore, new: NewRun) -> None:
    if new.parent_id is None:
        return
    parent = store.find_run(check_run_id(new.parent_id))
    if parent is None or parent.workspace != new.workspace:
        raise NotFound(f"There is no run `{new.parent_id}` in workspace `{new.workspace}` to be the parent.")


def _with_snapshot(store: RunStore, events: EngineEvents, new: NewRun) -> NewRun:
    if new.snapshot_id is None:
        return replace(new, snapshot_root=None)
    events.hold_snapshot(new.snapshot_id)
    root = store.find_snapshot(new.snapshot_id)
    if root is None:
        raise NotFound(
            f"There is no snapshot `{new.snapshot_id[:64]}`.",
            why="The source must be stored before a run can name it.",
            hint="Submit again: the SDK stores the source folder first.",
        )
    return replace(new, snapshot_root=root)


def create(context: EngineContext, new: NewRun, spooled: Spooled) -> tuple[Run, bool]:
    """Store the run and add it to the board. The flag says whether it is new.

    It takes the run's lock. The spool file is on disk before the run is committed, so an acknowledged run always
    starts.
    """
    with context.locks.of_run(new.id):
        known = context.store.find_run(new.id)
        if known is None:
            context.spool.write(new.id, spooled)
        try:
            run, is_new = context.store.create_run(new)
        except Exception:
            if known is None:
                context.spool.remove(new.id)
            raise
        if run.id != new.id:
            context.spool.remove(new.id)
        if run.status in BEFORE_START:
            context.board.add(waiting_entry(context, run))
        return run, is_new


def _check_not_launched(run: Run) -> None:
    """The token of a run that we launch is for its own processes."""
    if is_launched(run) or run.spec.sweep is not None:
        raise Conflict(
            f"Run `{run.id}` was submitted as a program, so no other process can be that run.",
            why="The key of that submit was used again.",
            hint="Make a new key for a new run.",
        )


def _unwatched(context: EngineContext, new: NewRun) -> Submitted:
    run, is_new = context.store.create_run(replace(new, status=RunStatus.RUNNING))
    _check_not_launched(run)
    return Submitted(
        run, is_new, mint_token(context.store, run), str(run_folder(context.settings.home, run.id, run.attempt))
    )
