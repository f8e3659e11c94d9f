"""Who may do what: one function over (principal, verb, run), called wherever data is read or changed."""

from __future__ import annotations

from dataclasses import dataclass

from runyard.core.attempts import is_writer
from runyard.core.errors import NotAllowed, NotFound
from runyard.core.users import ADMIN, READER, USER
from runyard.store.base import RunStore


@dataclass(frozen=True)
class Owner:
    """Who holds the server's own token, or signed in with a browser by a link that it made."""


@dataclass(frozen=True)
class RunPrincipal:
    """The code of one attempt of a run."""

    run_id: str
    attempt: int


@dataclass(frozen=True)
class UserPrincipal:
    """A user of a team's server, by one of their tokens or by a browser that signed in with it."""

    name: str
    role: str
    token_id: int


Principal = Owner | UserPrincipal | RunPrincipal

# What a run's code may do beyond runs: workspace assets are its input, content is how its files and snapshots travel.
FREE_VERBS = frozenset(
    {"read_server", "read_workspace", "put_experiment", "put_asset", "put_content", "read_content", "read_secret"}
)
# On its own run and that run's descendants.
FAMILY_VERBS = frozenset({"read_run", "write_run", "create_run", "cancel_run", "list_runs"})  # the last: of a parent
# On the run above as well: scripts log their result on `run.parent`, tag it, and stop it.
PARENT_VERBS = frozenset({"write_run", "cancel_run"})
# On every run of the tree it belongs to: steps read what their parent and their siblings found.
TREE_VERBS = frozenset({"read_run", "list_runs"})
# On its own run, as the attempt that it is.
REPORT_VERBS = frozenset({"heartbeat", "state", "join"})
# Not after the run's end: a token that leaked into its log starts no program then, and reads no secret.
UNTIL_END_VERBS = frozenset({"create_run", "read_secret"})
# By a process that logs on a run from outside of it (`POST /runs/{id}/writers`), or on children that it made there: it
# adds and decides nothing.
WRITER_VERBS = frozenset({"put_content", "read_run", "write_run", "heartbeat", "state"})
# By an old attempt as well: its late points are kept under that attempt.
SHIP = "ship"
# By an old attempt as well: the answer tells it to stop.
NODE = "node"
OWNER_VERBS = frozenset(
    {
        "stop_server",
        "sign_in",
        "put_workspace",
        "update_experiment",
        "change_asset",
        "change_secret",
        "manage_environments",
        "fail_run",
        "delete_run",
        "change_runs",
        "resubmit_run",
        "delete_experiment",
        "delete_workspace",
        "collect",
        "plan_run",
        "list_environments",
        "change_target",
        "manage_users",
    }
)
VERBS = FREE_VERBS | FAMILY_VERBS | REPORT_VERBS | OWNER_VERBS | {SHIP, NODE}
ADMIN_VERBS = frozenset({"stop_server", "collect", "manage_users", "change_target"})
READER_VERBS = frozenset(
    {"read_server", "sign_in", "read_workspace", "read_content", "read_run", "list_runs", "list_environments"}
)
# Reports are a run's own: no user of a team speaks for it.
ROLE_VERBS = {ADMIN: VERBS, USER: VERBS - ADMIN_VERBS - REPORT_VERBS - {SHIP, NODE}, READER: READER_VERBS}


def authorize(principal: Principal, verb: str, run_id: str | None = None, *, store: RunStore) -> None:
    """Return when `principal` may do `verb`, to the run where one is meant; for `create_run` that is the parent.

    Raises:
        NotAllowed: it may not. A run that does not exist answers the same as somebody else's.
    """
    if verb not in VERBS:
        raise ValueError(f"{verb!r} is not a verb of permissions.py")
    if isinstance(principal, RunPrincipal) and not _run_may(principal, verb, run_id, store):
        raise _not_for_run(principal, verb, run_id)
    if isinstance(principal, UserPrincipal) and verb not in ROLE_VERBS.get(principal.role, frozenset()):
        raise _not_for_role(principal, verb)


def _not_for_run(principal: RunPrincipal, verb: str, run_id: str | None) -> NotAllowed:
    return NotAllowed(
        f"This run's token may not {verb.replace('_', ' ')}{f' `{run_id[:80]}`' if run_id else ''}.",
        why=f"It belongs to run `{principal.run_id}`: it writes that run and those below, and reads their relatives.",
        hint="Use the user's own token (outside of a run, the SDK does).",
    )


_IN_WORDS = {
    "put_content": "upload files",
    "write_run": "change runs",
    "create_run": "submit runs",
    "plan_run": "submit runs",
    "resubmit_run": "submit runs",
    "change_runs": "change runs",
    "put_workspace": "make workspaces",
    "put_experiment": "make experiments",
    "change_target": "change compute targets",
    "collect": "free the server's disk space",
    "read_secret": "read secrets",
}


def _not_for_role(principal: UserPrincipal, verb: str) -> NotAllowed:
    able = [role for role in (READER, USER, ADMIN) if verb in ROLE_VERBS[role]]
    return NotAllowed(
        f"You may not {_IN_WORDS.get(verb) or verb.replace('_', ' ')}.",
        why=f"User `{principal.name}` has the role {principal.role}; that takes {' or '.join(able)}.",
        hint=f"Ask an admin of this server: `runyard users role {principal.name} {able[0]}`.",
    )


def _run_may(principal: RunPrincipal, verb: str, run_id: str | None, store: RunStore) -> bool:
    if verb in OWNER_VERBS:
        return False
    if verb == SHIP:
        return run_id is not None and _is_family(run_id, principal, store)
    if verb == NODE:
        return run_id == principal.run_id and not is_writer(principal.attempt)
    if is_writer(principal.attempt):
        return verb in WRITER_VERBS and (run_id is None or _is_family(run_id, principal, store))
    own = store.find_run(principal.run_id)
    if own is None or own.attempt != principal.attempt:
        return False
    if own.status.is_terminal and (verb in UNTIL_END_VERBS or (verb == "cancel_run" and run_id != own.id)):
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
