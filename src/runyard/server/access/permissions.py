"""Authorization: one table of verbs, and one function over (principal, verb, object).

`route_rights.py` lists the verbs that each route asks for; `docs/security.md` and the tests are made from both.
`ContentAccess` limits a run's token to the content of its own snapshot and its own files, so that a guessed hash gives
nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from runyard.artifacts.content import ContentStore
from runyard.core.errors import NotAllowed, NotFound
from runyard.core.records import Run
from runyard.core.users import ADMIN, READER, ROLES, USER
from runyard.engine.context import is_launched
from runyard.store.base import RunRecords, RunStore

# Beside `ship` and `put_content`, what a process that logs on a run from outside may (`POST /runs/{id}/writers`).
_WRITER_VERBS = frozenset({"read_run", "add_file", "heartbeat", "state"})
MAX_KNOWN_IDS = 500_000


@dataclass(frozen=True)
class Owner:
    """The holder of the server's own token, or a browser that signed in with a link made by it."""


@dataclass(frozen=True)
class UserPrincipal:
    """A user of a team's server, by one of their tokens or by a browser that signed in with it."""

    name: str
    role: str
    token_id: int


@dataclass(frozen=True)
class RunPrincipal:
    """The code of one attempt of a run, or the external writer of that number. `user` answers for the run ("": the
    server's owner); `role` is what that user has now, None after the user was removed.
    """

    run_id: str
    attempt: int
    workspace: str
    user: str = ""
    role: str | None = None
    external_writer: int = 0

    @property
    def is_backed(self) -> bool:
        """Whether the user of the run may still submit runs; otherwise the token only delivers and reads its own."""
        return not self.user or self.role in (USER, ADMIN)


Principal = Owner | UserPrincipal | RunPrincipal


class Reach(Enum):
    """Which objects a run's token reaches with a verb. *Live*: until the run's end, and while its user may submit."""

    NEVER = ""
    SERVER = "yes"
    CONTENT = "what its own run and files name"
    WORKSPACE = "its own workspace, while live"
    WORKSPACE_OWN = "what its user owns in its own workspace, while live"
    SHIP = "its own run and those below, in old attempts too"
    NODE = "its own run, in old attempts too"
    REPORT = "its own run"
    FILES = "its own run and those below; while live, the run above"
    CHANGE = "its own run and those below until its end; while live, the run above"
    CHILD = "as its own child or below, while live"
    READ = "its own run and those below; while live, all runs of its tree"


@dataclass(frozen=True)
class Right:
    """`role` is the least one that may; with `own`, a user needs to be the object's owner, or an admin."""

    words: str  # after "may"
    of: str
    role: str
    run: Reach = Reach.NEVER
    own: bool = False


RIGHTS: Final[dict[str, Right]] = {
    "read_server": Right("see what the server is", "server", READER, Reach.SERVER),
    "sign_in": Right("sign in a browser", "server", READER),
    "list_environments": Right("list the environments built on the server's machine", "server", READER),
    "manage_environments": Right("remove environments built on the server's machine", "server", ADMIN),
    "collect": Right("free the server's disk space", "server", ADMIN),
    "stop_server": Right("stop the server", "server", ADMIN),
    "manage_users": Right("manage users and their tokens", "user", ADMIN),
    "read_workspace": Right(
        "look at workspaces, experiments, assets, models, data and compute targets",
        "workspace",
        READER,
        Reach.WORKSPACE,
    ),
    "put_workspace": Right("make workspaces", "workspace", USER),
    "delete_workspace": Right("delete a workspace with all that is in it", "workspace", USER, own=True),
    "put_experiment": Right("make experiments", "experiment", USER, Reach.WORKSPACE),
    "update_experiment": Right("archive and tag an experiment", "experiment", USER, own=True),
    "delete_experiment": Right("delete and restore an experiment with its runs", "experiment", USER, own=True),
    "put_asset": Right("register environments, datasets, datastores and models", "asset", USER, Reach.WORKSPACE),
    "change_asset": Right("change and delete environments, datasets and datastores", "asset", USER, own=True),
    "change_model": Right("change, alias and delete models", "model", USER, Reach.WORKSPACE_OWN, own=True),
    "put_service": Right("deploy web services", "web service", USER, Reach.WORKSPACE),
    "change_service": Right(
        "change and delete web services, and read their keys", "web service", USER, Reach.WORKSPACE_OWN, own=True
    ),
    "put_data": Right("write files of a datastore", "datastore", USER, Reach.WORKSPACE),
    "read_secret": Right("read secrets that name them as a reader", "secret", USER, Reach.WORKSPACE),
    "change_secret": Right("set and delete a secret, and say who reads it", "secret", USER, own=True),
    "change_target": Right("change compute targets", "compute target", ADMIN),
    "create_run": Right("submit runs", "run", USER, Reach.CHILD),
    "import_runs": Right("import runs of another tracker, with their ids and times", "run", ADMIN),
    "plan_run": Right("plan a submit", "run", USER),
    "resubmit_run": Right("submit a run again, as their own", "run", USER),
    "change_runs": Right("change many runs at once, each as far as it may be", "run", USER),
    "read_run": Right("read runs with their metrics, logs and files", "run", READER, Reach.READ),
    "list_runs": Right("list runs", "run", READER, Reach.READ),
    "write_run": Right("tag, name, describe and archive a run", "run", USER, Reach.CHANGE, own=True),
    "add_file": Right("add files to a run", "run", USER, Reach.FILES, own=True),
    "cancel_run": Right("cancel a run", "run", USER, Reach.CHANGE, own=True),
    "fail_run": Right("end a run as failed, or log on it from outside", "run", USER, own=True),
    "delete_run": Right("delete and restore a run", "run", USER, own=True),
    "ship": Right("ship journals and logs of a run", "run", ADMIN, Reach.SHIP),
    "node": Right("speak for a node of a run", "run", ADMIN, Reach.NODE),
    "heartbeat": Right("send a run's heartbeats", "run", ADMIN, Reach.REPORT),
    "state": Right("report a run's state", "run", ADMIN, Reach.REPORT),
    "join": Right("take a node's part of a run", "run", ADMIN, Reach.REPORT),
    "put_content": Right("upload content", "content", USER, Reach.SERVER),
    "read_content": Right("read content", "content", READER, Reach.CONTENT),
}


class _Unowned(Enum):
    """The verb is not about an object with an owner."""

    UNOWNED = 0


UNOWNED: Final = _Unowned.UNOWNED
ObjectOwner = str | None | _Unowned  # a user; "": the server's owner; None: made before owners were recorded


def authorize(
    principal: Principal,
    verb: str,
    run_id: str | None = None,
    *,
    workspace: str | None = None,
    owner: ObjectOwner = UNOWNED,
    store: RunStore,
) -> None:
    """Return when `principal` may do `verb` to the object: a run, a workspace or what is in it, or what `owner` owns.

    For `create_run` the run is the parent.

    Raises:
        NotAllowed: it may not. A run's token gets the same answer for another user's run and for a missing one.
    """
    right = RIGHTS.get(verb)
    if right is None:
        raise ValueError(f"{verb!r} is not a verb of permissions.py")
    if isinstance(principal, RunPrincipal):
        is_foreign = right.run is Reach.WORKSPACE_OWN and owner is not UNOWNED and owner != principal.user
        if is_foreign or not _run_may(principal, verb, right.run, run_id, workspace, store):
            raise _not_for_run(principal, verb, run_id or workspace)
    elif isinstance(principal, UserPrincipal):
        if ROLES.index(principal.role) > ROLES.index(right.role):
            raise _not_for_role(principal, right)
        if right.own and principal.role != ADMIN:
            _check_owner(principal, right, run_id, owner, store)


def _check_owner(
    principal: UserPrincipal, right: Right, run_id: str | None, owner: ObjectOwner, store: RunRecords
) -> None:
    if run_id is not None:
        run = store.find_run(run_id) or store.find_hidden(run_id)
        if run is None:
            return  # there is nothing to protect; the call itself says so
        owner = run.owning_user
    if owner is UNOWNED:
        raise ValueError(f"whose {right.of} it is, was not said")
    if owner != principal.name:
        raise _not_the_owner(principal, right, run_id, owner)


def _run_may(
    principal: RunPrincipal, verb: str, reach: Reach, run_id: str | None, workspace: str | None, store: RunRecords
) -> bool:
    if reach is Reach.NEVER:
        return False
    if reach is Reach.SHIP:
        return run_id is not None and _is_family(run_id, principal, store)
    if principal.external_writer:
        may = verb in _WRITER_VERBS and run_id is not None and _is_family(run_id, principal, store)
        return may or verb == "put_content"
    if reach is Reach.NODE:
        return run_id == principal.run_id
    own = store.find_run(principal.run_id)
    if own is None or own.attempt != principal.attempt:
        return False
    if reach in (Reach.SERVER, Reach.CONTENT):
        return True
    if reach in (Reach.WORKSPACE, Reach.WORKSPACE_OWN):
        return workspace == principal.workspace and _is_live(own, principal, store)
    if run_id is None:
        return False
    if reach is Reach.REPORT or (own.status.is_terminal and reach is Reach.CHANGE):
        return run_id == own.id and (reach is Reach.REPORT or verb == "cancel_run")
    if reach is Reach.CHILD:
        return _is_family(run_id, principal, store) and _is_live(own, principal, store)
    if _is_family(run_id, principal, store):
        return True
    relative = store.find_run(run_id)
    if relative is None or not _is_live(own, principal, store):
        return False
    return relative.root_id == own.root_id if reach is Reach.READ else relative.id == own.parent_id


def _is_live(run: Run, principal: RunPrincipal, store: RunRecords) -> bool:
    """Whether the run's code is at work for a user who may submit.

    A run that is no program of ours could stay open for ever, so what was made below a run lives as long as that.
    """
    if not principal.is_backed:
        return False
    above: Run | None = run
    while above is not None and not above.status.is_terminal:
        if above.parent_id is None or is_launched(above):
            return True
        above = store.find_run(above.parent_id)
    return False


def _is_family(run_id: str, principal: RunPrincipal, store: RunRecords) -> bool:
    if run_id == principal.run_id:
        return True
    try:
        return store.is_descendant(run_id, principal.run_id)
    except NotFound:
        return False


def _not_for_run(principal: RunPrincipal, verb: str, what: str | None) -> NotAllowed:
    why = f"It belongs to run `{principal.run_id}`: it writes that run and those below, and reads their relatives."
    if RIGHTS[verb].run is Reach.WORKSPACE_OWN:
        why = f"It changes those of its user in workspace `{principal.workspace}`, until run `{principal.run_id}` ends."
    if RIGHTS[verb].run is Reach.WORKSPACE:
        why = f"It reaches workspace `{principal.workspace}` alone, until run `{principal.run_id}` ends."
    if not principal.is_backed:
        why = f"It belongs to run `{principal.run_id}` of user `{principal.user}`, who may not submit runs any more."
    return NotAllowed(
        f"This run's token may not {verb.replace('_', ' ')}{f' `{what[:80]}`' if what else ''}.",
        why=why,
        hint="Use the user's own token (outside of a run, the SDK does).",
    )


def _not_for_role(principal: UserPrincipal, right: Right) -> NotAllowed:
    able = ROLES[: ROLES.index(right.role) + 1][::-1]
    return NotAllowed(
        f"You may not {right.words}.",
        why=f"User `{principal.name}` has the role {principal.role}; that takes {' or '.join(able)}.",
        hint=f"Ask an admin of this server: `runyard users role {principal.name} {able[0]}`.",
    )


def _not_the_owner(principal: UserPrincipal, right: Right, run_id: str | None, owner: Any) -> NotAllowed:
    what = f"run `{run_id[:80]}`" if run_id else right.of
    if owner is None:
        why = f"This {right.of} was made before owners were recorded."
    else:
        why = f"This {what} belongs to {f'user `{owner}`' if owner else 'the owner of the server'}."
    return NotAllowed(
        f"You may not {right.words}: it is not yours.",
        why=why,
        hint=f"Ask {f'`{owner}` or ' if owner else ''}an admin of this server.",
    )


class ContentAccess:
    """Remembers the ids of the snapshots it was last asked about: a restore asks many times."""

    def __init__(self, store: RunStore, content: ContentStore) -> None:
        self._store = store
        self._content = content
        self._lock = threading.Lock()
        self._by_root: OrderedDict[str, frozenset[str]] = OrderedDict()

    def check(self, principal: Principal, ids: Sequence[str]) -> None:
        """Raise NotFound unless `principal` may read all of `ids` (chunks or trees)."""
        if not isinstance(principal, RunPrincipal):
            return
        left = set(ids) - self._snapshot_ids(principal)
        if left:
            left.difference_update(chunk for file in self._store.list_files(principal.run_id) for chunk in file.chunks)
        if left:
            raise NotFound(f"There is no stored content with the id {min(left)[:64]} in reach of this run.")

    def check_root(self, principal: Principal, root: str) -> None:
        """Raise NotFound unless `principal` may read the snapshot with that root tree."""
        if isinstance(principal, RunPrincipal) and root != self._root(principal):
            self.check(principal, [root])

    def _snapshot_ids(self, principal: RunPrincipal) -> frozenset[str]:
        root = self._root(principal)
        if root is None:
            return frozenset()
        with self._lock:
            known = self._by_root.get(root)
            if known is not None:
                self._by_root.move_to_end(root)
                return known
        known = frozenset(self._content.iter_content_ids(root))
        with self._lock:
            self._by_root[root] = known
            while len(self._by_root) > 1 and sum(map(len, self._by_root.values())) > MAX_KNOWN_IDS:
                self._by_root.popitem(last=False)
        return known

    def _root(self, principal: RunPrincipal) -> str | None:
        run = self._store.find_run(principal.run_id)
        return run.snapshot_root if run is not None else None
