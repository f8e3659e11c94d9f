"""Who may do what: one function over (principal, verb, run), called wherever data is read or changed."""

from __future__ import annotations

from dataclasses import dataclass

from runyard.core.attempts import is_writer
from runyard.core.errors import NotAllowed, NotFound
from runyard.store.base import RunStore


@dataclass(frozen=True)
class Owner:
    """Who holds the server's own token, or signed in with a browser by a link that it made."""


@dataclass(frozen=True)
class RunPrincipal:
    """The code of one attempt of a run."""

    run_id: str
    attempt: int


Principal = Owner | RunPrincipal

# What a run's code may do beyond runs: workspace assets are its input, content is how its files and snapshots travel.
FREE_VERBS = frozenset({"read_server", "read_workspace", "put_experiment", "put_asset", "put_content", "read_content"})
# On its own run and that run's descendants.
FAMILY_VERBS = frozenset({"read_run", "write_run", "create_run", "cancel_run", "list_runs"})  # the last: of a parent
# On the run above as well: scripts log their result on `run.parent`, tag it, and stop it.
PARENT_VERBS = frozenset({"write_run", "cancel_run"})
# On every run of the tree it belongs to: steps read what their parent and their siblings found.
TREE_VERBS = frozenset({"read_run", "list_runs"})
# On its own run, as the attempt that it is.
REPORT_VERBS = frozenset({"heartbeat", "state"})
# By a process that logs on a run from outside of it (`POST /runs/{id}/writers`), or on children that it made there: it
# adds and decides nothing.
WRITER_VERBS = frozenset({"put_content", "read_run", "write_run", "heartbeat", "state"})
# By an old attempt as well: its late points are kept under that attempt.
SHIP = "ship"
OWNER_VERBS = frozenset(
    {
        "stop_server",
        "sign_in",
        "put_workspace",
        "update_experiment",
        "change_asset",
        "manage_environments",
        "fail_run",
        "delete_run",
        "delete_experiment",
        "delete_workspace",
        "collect",
        "plan_run",
    }
)
VERBS = FREE_VERBS | FAMILY_VERBS | REPORT_VERBS | OWNER_VERBS | {SHIP}


def authorize(principal: Principal, verb: str, run_id: str | None = None, *, store: RunStore) -> None:
    """Return when `principal` may do `verb`, to the run where one is meant; for `create_run` that is the parent.

    Raises:
        NotAllowed: it may not. A run that does not exist answers the same as somebody else's.
    """
    if verb not in VERBS:
        raise ValueError(f"{verb!r} is not a verb of permissions.py")
    if isinstance(principal, RunPrincipal) and not _run_may(principal, verb, run_id, store):
        raise _not_allowed(principal, verb, run_id)


def require_owner(principal: Principal, verb: str) -> None:
    """Return when `principal` is the user; no run's code ever does `verb`."""
    if isinstance(principal, RunPrincipal):
        raise _not_allowed(principal, verb, None)


def _not_allowed(principal: RunPrincipal, verb: str, run_id: str | None) -> NotAllowed:
    return NotAllowed(
        f"This run's token may not {verb.replace('_', ' ')}{f' `{run_id[:80]}`' if run_id else ''}.",
        why=f"It belongs to run `{principal.run_id}`: it writes that run and those below, and reads their relatives.",
        hint="Use the user's own token (outside of a run, the SDK does).",
    )


def _run_may(principal: RunPrincipal, verb: str, run_id: str | None, store: RunStore) -> bool:
    if verb in OWNER_VERBS:
        return False
    if verb == SHIP:
        return run_id is not None and _is_family(run_id, principal, store)
    if is_writer(principal.attempt):
        return verb in WRITER_VERBS and (run_id is None or _is_family(run_id, principal, store))
    own = store.find_run(principal.run_id)
    if own is None or own.attempt != principal.attempt:
        return False
    if verb in FREE_VERBS:
        return True
    if run_id is None:
        return False
    if verb in REPORT_VERBS:
        return run_id == principal.run_id
    if verb in PARENT_VERBS and run_id == own.parent_id:
        return True
    if verb in TREE_VERBS:
        found = store.find_run(run_id)
        return found is not None and found.root_id == own.root_id
    return verb in FAMILY_VERBS and _is_family(run_id, principal, store)


def _is_family(run_id: str, principal: RunPrincipal, store: RunStore) -> bool:
    if run_id == principal.run_id:
        return True
    try:
        return store.is_descendant(run_id, principal.run_id)
    except NotFound:
        return False
