"""The rules of a run's life as pure functions: a run and a request in, the changed run out. Every store uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from runyard.core.errors import Conflict, InvalidArgument, InvalidTransition, NotFound
from runyard.core.formats.documents import RunWarning
from runyard.core.records import (
    IMAGE_KIND,
    KIND,
    LOGGED_MODEL,
    MLFLOW_RUN,
    PROGRESS,
    SERVICE_KIND,
    Asset,
    Attempt,
    Experiment,
    NewRun,
    Phase,
    Run,
    RunChange,
    RunFile,
    Wait,
)
from runyard.core.statuses import RunStatus, check_transition
from runyard.store.record_limits import (
    LabelRoom,
    add_warnings,
    check_labels,
    check_texts,
    fit_environment,
    short_error,
    short_text,
    without_known,
)

if TYPE_CHECKING:
    from runyard.store.base import SegmentPart

VIEWS = ("active", "archived", "all", "deleted")  # of runs
KINDS_WITH_FILES = (KIND, LOGGED_MODEL)  # of assets
KINDS_WITH_SNAPSHOTS = (SERVICE_KIND, IMAGE_KIND)
MOST_PHASES = 1000  # of a run whose client tells its status
MOST_WAITS, MOST_WAIT_TEXT = 12, 1000  # of one phase, kept with the run


def create(new: NewRun, *, number: int, experiment: Experiment, root_id: str, now: datetime) -> Run:
    """Return the run that a request creates; the request may name the experiment by its title."""
    check_texts(new.id, display_name=new.display_name, description=new.description)
    check_labels(f"Run `{new.id}`", new.tags, new.properties, new.parameters)
    return Run(
        id=new.id,
        number=number,
        workspace=new.workspace,
        experiment=experiment.name,
        experiment_id=experiment.id,
        status=new.status,
        created_at=now,
        type=new.type,
        display_name=new.display_name,
        description=new.description,
        parent_id=new.parent_id,
        root_id=root_id,
        spec=new.spec,
        snapshot_id=new.snapshot_id,
        snapshot_root=new.snapshot_root,
        tags=dict(new.tags),
        properties=dict(new.properties),
        parameters=dict(new.parameters),
        started_at=new.started_at or now if new.status is RunStatus.RUNNING else None,
        ended_at=now if new.status.is_terminal else None,
        submitted_by=new.submitted_by,
        owner=new.owner,
        timeline=[Phase(new.status, now)],
    )


def check_same_request(run: Run, new: NewRun, experiment: Experiment | None) -> None:
    """Raise Conflict unless `new`, which carries the key of `run`, asks for that very run in its `experiment`."""
    asked = (new.id, new.workspace, new.experiment if experiment is None else experiment.name, new.parent_id)
    if (run.id, run.workspace, run.experiment, run.parent_id) != asked:
        raise Conflict(
            f"The key of run `{run.id}` was used again for run `{new.id}`.",
            why="A key names one run for good, so that a repeated submit is the same run.",
            hint="Make a new key for a new run.",
        )


def no_user(name: str) -> NotFound:
    """Return the error for an unknown user."""
    return NotFound(f"There is no user `{name}`.", hint="`runyard users list` names them.")


def user_is_taken(name: str) -> Conflict:
    """Return the error for a user's name that exists."""
    return Conflict(
        f"There is a user `{name}` already.",
        hint=f"`runyard users rotate {name}` makes a new token in the place of all that user's tokens.",
    )


def label_is_taken(name: str, label: str) -> Conflict:
    """Return the error for a token's label that the user has already."""
    return Conflict(f"User `{name}` has a token `{label}` already.", hint="Choose another --label.")


def set_status(
    run: Run,
    status: RunStatus,
    *,
    now: datetime,
    attempt: int | None = None,
    expected: Sequence[RunStatus] | None = None,
    error: Mapping[str, Any] | None = None,
    waits_for: str | None = None,
) -> Run:
    """Return the run in its next status. See RunStore.set_status."""
    if attempt is not None:
        _check_attempt(run, attempt)
    if status is run.status:
        return run if waits_for is None else _waiting(run, waits_for, now)
    if expected is not None and run.status not in expected:
        raise InvalidTransition(
            f"Run `{run.id}` is {run.status.value}; it was expected to be {' or '.join(s.value for s in expected)}.",
            why="Somebody else moved it in the meantime.",
            hint=f"Look at it with `runyard runs show {run.id}`.",
        )
    check_transition(run.id, run.status, status)
    return _stamped(run, status, now, error=error, waits_for=waits_for or "")


def report_status(run: Run, status: RunStatus, *, now: datetime, ended_at: datetime | None) -> Run:
    """Return the run in the status that its client tells. See RunStore.report_status."""
    if run.type != MLFLOW_RUN:
        raise InvalidTransition(
            f"Run `{run.id}` is {run.status.value}, and no client of MLflow decides that.",
            why="Only runs that such a client made have the status that it tells.",
            hint=f"`runyard runs cancel {run.id}` ends a run.",
        )
    ended = (ended_at or (run.ended_at if status is run.status else None) or now) if status.is_terminal else None
    if status is run.status and ended == run.ended_at:
        return run
    phases = [*run.timeline[: MOST_PHASES - 1], Phase(status, ended or now)]
    return replace(run, status=status, ended_at=ended, timeline=phases)


def fence(run: Run, attempt: int, *, now: datetime, code: str, why: str, host: str, is_over: bool) -> Run:
    """Return the run with its present attempt given up. See RunStore.fence_attempt."""
    _check_attempt(run, attempt)
    if run.status.is_terminal:
        check_transition(run.id, run.status, RunStatus.QUEUED)
    ended_at = now if is_over else None
    if run.is_fenced:
        last = run.attempts[-1]
        return replace(run, attempts=[*run.attempts[:-1], replace(last, ended_at=last.ended_at or ended_at)])
    given_up = Attempt(attempt, given_up_at=now, ended_at=ended_at, code=code, why=short_text(why), host=host)
    fenced = replace(run, attempts=[*run.attempts, given_up])
    if run.status is RunStatus.QUEUED:
        return replace(fenced, waits_for="")
    return _stamped(fenced, RunStatus.QUEUED, now, error=None, waits_for="")


def begin_attempt(run: Run, *, now: datetime, waits_for: str) -> Run:
    """Return the run with its next attempt queued."""
    if run.status.is_terminal:
        check_transition(run.id, run.status, RunStatus.QUEUED)
    counted = replace(run, attempt=run.attempt + 1)
    if run.status is RunStatus.QUEUED:
        return _waiting(counted, waits_for, now)
    return _stamped(counted, RunStatus.QUEUED, now, error=None, waits_for=waits_for)


def _check_attempt(run: Run, attempt: int) -> None:
    if attempt != run.attempt:
        raise Conflict(
            f"Run `{run.id}` is in attempt {run.attempt}, not {attempt}.",
            why="A later attempt has taken over.",
            hint=f"Look at it with `runyard runs show {run.id}`.",
        )


def set_desired(run: Run, desired: str, error: Mapping[str, Any] | None) -> Run:
    """Return the run with what should become of it. See RunStore.set_desired."""
    if run.status.is_terminal or run.desired is not None:
        return run
    return replace(run, desired=desired, desired_error=None if error is None else short_error(error))


_NO_CHANGE = RunChange()


def apply_change(run: Run, change: RunChange, *, now: datetime) -> Run:
    """Return the run as a request changes it. See RunStore.update_run."""
    if change == _NO_CHANGE:
        return run
    new = _apply(run, change)
    if change.archived is None or change.archived == (run.archived_at is not None):
        return new
    return replace(new, archived_at=now if change.archived else None)


def _apply(run: Run, change: RunChange) -> Run:
    properties_add = change.properties_add or {}
    for key, value in properties_add.items():
        if run.properties.get(key, value) != value:
            raise Conflict(
                f"Run `{run.id}` already has the property `{key}`.",
                why=f"Its value is {run.properties[key]!r}; properties never change, so {value!r} was refused.",
                hint="Use a tag for what changes, or another property name.",
            )
    logged_add = change.parameters_log or {}
    for key, value in logged_add.items():
        if run.logged_parameters.get(key, value) != value:
            raise Conflict(
                f"Run `{run.id}` already has the parameter `{key}`.",
                why=f"Its value is {run.logged_parameters[key]!r}; a logged parameter never changes, so {value!r} was "
                "refused.",
                hint="Use a tag for what changes, or another name for the parameter.",
            )
    check_texts(run.id, display_name=change.display_name, description=change.description)
    tags = change_tags(run.tags, change.tags_set, change.tags_remove)
    properties = {**run.properties, **properties_add}
    parameters = {**(change.parameters_add or {}), **run.parameters, **logged_add}
    if change.tags_set or properties_add or change.parameters_add or logged_add:
        check_labels(f"Run `{run.id}`", tags, properties, parameters)
    environment, notes = fit_environment(change.environment)
    snapshot_id, snapshot_root = change.snapshot or (run.snapshot_id, run.snapshot_root)
    return replace(
        run,
        tags=tags,
        properties=properties,
        parameters=parameters,
        logged_parameters={**run.logged_parameters, **logged_add},
        display_name=run.display_name if change.display_name is None else change.display_name,
        description=run.description if change.description is None else change.description,
        warnings=add_warnings(run.warnings, [*change.warnings_add, *notes]),
        environment=run.environment if environment is None else {**environment},
        snapshot_id=snapshot_id,
        snapshot_root=snapshot_root,
    )


def apply_parts(run: Run, parts: Sequence[SegmentPart], warnings: Sequence[RunWarning]) -> Run:
    """Return the run with what parts of its journals say, in their order, as one change."""
    tags: dict[str, tuple[bool, str | None]] = {}
    properties: dict[str, str] = {}
    parameters: dict[str, str] = {}
    logged: dict[str, str] = {}
    notes: list[RunWarning] = []
    for part in parts:
        parameters = {**part.parameters_add, **parameters}
        for key, value in part.parameters_log.items():
            stays = run.logged_parameters.get(key, logged.get(key, value))
            logged.setdefault(key, stays)
            if stays != value:
                notes.append(_parameter_note(key, stays, value, part.rank))
        tags.update((key, (False, None)) for key in part.tags_remove)
        tags.update((key, (True, value)) for key, value in part.tags_set.items())
        for key, value in part.properties_add.items():
            if properties.setdefault(key, value) != value:
                notes.append(_property_note(key, run.properties.get(key, properties[key]), value))
    return apply_report(
        run,
        tags_set={key: value for key, (is_set, value) in tags.items() if is_set},
        tags_remove=[key for key, (is_set, _value) in tags.items() if not is_set],
        properties_add=properties,
        parameters_add=parameters,
        parameters_log=logged,
        warnings=[*notes, *warnings],
    )


def apply_report(
    run: Run,
    *,
    tags_set: Mapping[str, str | None],
    tags_remove: Sequence[str],
    properties_add: Mapping[str, str],
    parameters_add: Mapping[str, str] = MappingProxyType({}),
    parameters_log: Mapping[str, str] = MappingProxyType({}),
    warnings: Sequence[RunWarning] = (),
) -> Run:
    """Return the run with what its journal says: nobody is there to refuse it to, so a conflict becomes a warning."""
    new = {key: value for key, value in properties_add.items() if key not in run.properties}
    refused = [key for key, value in properties_add.items() if run.properties.get(key, value) != value]
    left = change_tags(run.tags, None, tags_remove)
    room = LabelRoom(left, run.properties, run.parameters)
    tags = room.fit(left, tags_set)
    properties = {key: value for key, value in room.fit({}, new).items() if value is not None}
    unlogged = {key: value for key, value in parameters_log.items() if key not in run.logged_parameters}
    logged = {key: value for key, value in room.fit(run.parameters, unlogged).items() if value is not None}
    unset = {key: value for key, value in parameters_add.items() if key not in run.parameters and key not in logged}
    parameters = {key: value for key, value in room.fit({}, unset).items() if value is not None}
    notes: list[RunWarning] = [
        *warnings,
        *(_property_note(key, run.properties[key], properties_add[key]) for key in refused),
        *room.notes(),
    ]
    fresh = without_known(run.warnings, notes)
    change = RunChange(
        tags_set=tags,
        tags_remove=tags_remove,
        properties_add=properties,
        parameters_add=parameters,
        parameters_log=logged,
        warnings_add=fresh,
    )
    return _apply(run, change)


def change_tags(
    tags: Mapping[str, str | None], tags_set: Mapping[str, str | None] | None, tags_remove: Sequence[str]
) -> dict[str, str | None]:
    """Return the tags without those removed, then with those set."""
    removed = frozenset(tags_remove)
    left = {key: value for key, value in tags.items() if key not in removed}
    return {**left, **(tags_set or {})}


def change_experiment(
    experiment: Experiment,
    *,
    now: datetime,
    archived: bool | None,
    tags_set: Mapping[str, str | None] | None,
    tags_remove: Sequence[str],
    title: str | None,
) -> Experiment:
    """Return the experiment as a request changes it. See RunStore.update_experiment."""
    at = experiment.archived_at
    if archived is not None:
        at = (at or now) if archived else None
    tags = change_tags(experiment.tags, tags_set, tags_remove)
    if tags_set:
        check_labels(f"The experiment `{experiment.name}`", tags)
    shown = experiment.shown_name if title is None else title
    is_changed = (at, shown) != (experiment.archived_at, experiment.shown_name)
    return replace(
        experiment,
        archived_at=at,
        tags=tags,
        title=None if shown == experiment.name else shown,
        changed_at=now if is_changed else experiment.changed_at,
    )


def title_is_taken(title: str) -> Conflict:
    """Return the error for a title by which another experiment is shown."""
    return Conflict(
        f"There is an experiment `{title[:500]}` already.",
        why="An experiment is found by its title, so no two of a workspace have the same, archived ones included.",
        hint="Choose another, or rename that one.",
    )


def recreate_experiment(experiment: Experiment, *, now: datetime, owner: str | None) -> Experiment:
    """Return a deleted experiment as the new one of its name. Its id stays: deleted runs may come back into it."""
    return replace(
        experiment,
        created_at=now,
        archived_at=None,
        tags={},
        owner=owner,
        changed_at=None,
        artifact_location=None,
    )


def check_file(run_id: str, old: RunFile | None, new: RunFile, *, replace_it: bool, now: datetime) -> RunFile:
    """Return the file to store, or raise Conflict when it would replace other content and must not."""
    if old is not None and not replace_it and not _same_content(old, new):
        raise Conflict(
            f"Run `{run_id}` already has a file `{new.name}` with other content.",
            why=f"It has {old.size} bytes; the new one has {new.size}.",
            hint="Give the new file another name.",
        )
    return new if new.updated_at is not None else replace(new, updated_at=now)


def without_chunks(file: RunFile) -> RunFile:
    """Return a file without the places of its content; a log's stream stays named."""
    return replace(file, chunks=[]) if file.kind == "blob" else file


def _stamped(run: Run, status: RunStatus, now: datetime, *, error: Mapping[str, Any] | None, waits_for: str) -> Run:
    starts = status is RunStatus.RUNNING and run.started_at is None
    return replace(
        run,
        status=status,
        started_at=now if starts else run.started_at,
        ended_at=now if status.is_terminal else run.ended_at,
        error=run.error if error is None else short_error(error),
        waits_for=waits_for[:MOST_WAIT_TEXT],
        timeline=[*run.timeline, Phase(status, now, waits=_with_wait([], waits_for, now))],
    )


def _waiting(run: Run, waits_for: str, now: datetime) -> Run:
    """Return the run with what it waits for now; its present phase remembers it."""
    waits_for = waits_for[:MOST_WAIT_TEXT]
    if not run.timeline:
        return replace(run, waits_for=waits_for)
    last = run.timeline[-1]
    phase = replace(last, waits=_with_wait(last.waits, waits_for, now))
    return replace(run, waits_for=waits_for, timeline=[*run.timeline[:-1], phase])


def _with_wait(waits: Sequence[Wait], text: str, now: datetime) -> list[Wait]:
    """Add one unless it is the last already; of too many, what it waited for first and the newest stay.

    How far an activity is belongs to the moment: the timeline has the activity alone.
    """
    text = text.partition(PROGRESS)[0]
    if not text or (waits and waits[-1].text == text[:MOST_WAIT_TEXT]):
        return [*waits]
    more = [*waits, Wait(text[:MOST_WAIT_TEXT], now)]
    return more if len(more) <= MOST_WAITS else [more[0], *more[2:]]


def _parameter_note(key: str, stays: str, refused: str, rank: int) -> RunWarning:
    message = f"The parameter `{key}` is {stays[:200]!r}; rank {rank} logged {refused[:200]!r}, which was left out."
    return {"source": "parameters", "message": message}


def _property_note(key: str, old: str, new: str) -> RunWarning:
    message = f"Property `{short_text(key)}` stays {short_text(old)!r}; {short_text(new)!r} was left out."
    return {"source": "properties", "message": message}


def _same_content(old: RunFile, new: RunFile) -> bool:
    if old.sha256 is not None and new.sha256 is not None:
        return (old.kind, old.size, old.sha256) == (new.kind, new.size, new.sha256)
    return (old.kind, old.size, old.chunks) == (new.kind, new.size, new.chunks)


def check_ended(run: Run) -> None:
    """Raises: Conflict: the run goes on, so it cannot be deleted."""
    if not run.status.is_terminal:
        raise Conflict(
            f"Run `{run.id}` cannot be deleted.",
            why=f"It has not ended: its status is {run.status.value}.",
            hint=f"Cancel it (`runyard runs cancel {run.id}`), wait for its end, then delete it again.",
        )


def is_hidden(run_id: str) -> Conflict:
    """Return the error for a run id or key that a hidden run has."""
    return Conflict(
        f"The run id `{run_id}` is taken.",
        why="A run that was deleted has it, and can still be restored.",
        hint=f"Submit again: a new id is made. Or free it: `runyard runs delete --now {run_id}`.",
    )


def not_hidden(run_id: str) -> NotFound:
    """Return the error for a run that cannot be restored."""
    return NotFound(
        f"There is no deleted run `{run_id}`.",
        why="It was not deleted, or its time to be restored is over.",
        hint="`runyard runs list --view deleted` shows those that can be restored.",
    )


def parent_is_hidden(run_id: str, parent_id: str) -> Conflict:
    """Return the error for a run that cannot be restored without its parent."""
    return Conflict(
        f"Run `{run_id}` cannot be restored alone.",
        why=f"It is below `{parent_id}`, which is deleted too.",
        hint=f"Restore that one: `runyard runs restore {parent_id}`.",
    )


def no_view(view: str) -> InvalidArgument:
    """Return the error for an unknown view of runs."""
    return InvalidArgument(f"There is no view {view[:40]!r} of runs.", hint=f"Known: {', '.join(VIEWS)}.")


def no_hidden_experiment(name: str) -> NotFound:
    """Return the error for an experiment that cannot be restored."""
    return NotFound(
        f"There is no deleted experiment `{name}`.",
        why="It was not deleted, or its time to be restored is over.",
        hint="`runyard experiments list --deleted` shows those that can be restored.",
    )


def has_runs(experiment: str) -> Conflict:
    """Return the error for an experiment that cannot be deleted because it has runs."""
    return Conflict(
        f"The experiment `{experiment}` cannot be deleted.",
        why="It has runs; one may have been submitted a moment ago.",
        hint="Delete it again once its runs have ended.",
    )


def has_experiments(workspace: str) -> Conflict:
    """Return the error for a workspace that cannot be deleted because it has experiments."""
    return Conflict(
        f"The workspace `{workspace}` cannot be deleted.",
        why="It has experiments; one may have been made a moment ago.",
        hint="Delete it again once its runs have ended.",
    )


def new_asset(
    workspace: str,
    kind: str,
    name: str,
    document: Mapping[str, Any],
    *,
    version: int,
    key: str,
    owner: str | None,
    now: datetime,
) -> Asset:
    """Return the version that a registration makes."""
    return Asset(workspace, kind, name, version, now, now, key=key, document=dict(document), owner=owner)


def change_asset(asset: Asset, document: Mapping[str, Any], *, now: datetime | None) -> Asset:
    """Return the version with another document; without `now`, with the time of its last change."""
    return replace(asset, document=dict(document), updated_at=now or asset.updated_at)


def rename_asset(asset: Asset, name: str, *, now: datetime) -> Asset:
    """Return the version under another name."""
    return replace(asset, name=name, updated_at=now)


def asset_name_is_taken(kinds: Sequence[str], name: str) -> Conflict:
    """Return the error for a new name that has versions."""
    return Conflict(f"There is a {kinds[0]} `{name}` already.", hint="Choose another name.")


def chunks_of(asset: Asset) -> set[str]:
    """Return the content that an asset is made of, such as a model's files."""
    files = asset.document.get("files") if asset.kind in KINDS_WITH_FILES else None
    return {chunk for file in files or () for chunk in file.get("chunks", ())}


def snapshots_of(asset: Asset) -> set[str]:
    """Return the snapshots that an asset is made from: those of a service's revisions, or of an image."""
    document = asset.document
    record = document.get("record", document)
    revisions = [one.get("spec", {}) for one in record.get("revisions", ())] if asset.kind == SERVICE_KIND else []
    if asset.kind == IMAGE_KIND:
        revisions.append(document.get("revision") or {})
    return {str(one["snapshot_id"]) for one in revisions if one.get("snapshot_id")}


def no_asset(kind: str, name: str, version: int | None) -> NotFound:
    """Return the error for an unknown asset, or version of it."""
    which = f" with version {version}" if version is not None else ""
    return NotFound(f"There is no {kind} `{name}`{which}.")


def check_next_event(run_id: str, *, last: int, after: int) -> None:
    """Raise Conflict unless who appends knows every event that the run's journal holds."""
    if last != after:
        raise Conflict(
            f"The journal of run `{run_id}` has {last} events; the writer knows {after}.",
            why="Somebody else wrote to it meanwhile.",
        )
