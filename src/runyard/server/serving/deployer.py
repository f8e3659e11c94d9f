"""Deploys web services: keeps what shall be served, and moves runs and gateway towards it, once a second.

Every change is stored before it is done, and everything that is done may be repeated, so a killed server's successor
goes on. The gateway and the replicas live on meanwhile.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from runyard import __version__
from runyard.core.errors import (
    Conflict,
    InvalidArgument,
    InvalidTransition,
    NotFound,
    RunyardError,
    StoreUnavailable,
)
from runyard.core.formats.documents import RunError
from runyard.core.names import make_run_id, make_uuid
from runyard.core.records import Run, RunChange
from runyard.core.webservices import (
    EXPERIMENT,
    FAILED,
    PRIMARY,
    READY,
    RUNNING,
    SECONDARY,
    STARTING,
    STOPPED,
    NewService,
    Operation,
    RevisionSpec,
    ServiceAnswer,
    ServiceChange,
    ServiceRevision,
    Webservice,
    check_revision,
    check_service_name,
)
from runyard.engine.engine import Engine
from runyard.engine.runs.resubmit import own_variables
from runyard.server.serving import figures
from runyard.server.serving.forwarding import Forwarded, forward
from runyard.server.serving.gateway import GatewayHandle
from runyard.server.serving.replicas import replica_request, service_request
from runyard.server.serving.rounds import Memory, Sight, look
from runyard.server.serving.stored import ServiceStore, Stored
from runyard.serving.config import ServiceConfig
from runyard.serving.protocol import Json
from runyard.serving.tokens import make_token
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)

TICK_S = 1.0
LINGER_S = 5.0
TOKEN_S = 12 * 3600
MOST_KEPT = 100  # revisions of a service
_KINDS = ("ACI", "AKS", "AKSENDPOINT", "Local")
Updated = Callable[[Stored], Stored]


class Deployer:
    """The face of web services. Thread-safe; its own thread works while there is a service."""

    def __init__(
        self, engine: Engine, store: RunStore, services: ServiceStore, gateway: GatewayHandle, *, is_team: bool = False
    ) -> None:
        self._engine = engine
        self._store = store
        self._services = services
        self._gateway = gateway
        self._empty_since: float | None = None  # when the last service went; the gateway ends a little later
        self._is_team = is_team
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._ids: set[str] = set()  # of the services that are there
        self._memory: dict[str, Memory] = {}
        self._told: dict[str, ServiceConfig] = {}  # what the gateway has, by id
        self._rows_at: dict[str, float] = {}

    def start(self) -> None:
        """Take up the services of the last server."""
        found = self._services.list_all()
        self._ids = {one.record.id for one in found}
        if found:
            self._begin()
        else:
            self._gateway.stop()  # of a server that was killed before it could

    def stop(self) -> None:
        """Stop deciding; services go on."""
        self._stopping = True
        self._wake.set()
        if self._empty_since is not None and not self._ids:
            self._gateway.stop()
        self._gateway.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)

    def is_serving(self) -> bool:
        """Whether there is a service: the server must not leave."""
        return bool(self._ids)

    def note_run(self, run_id: str) -> None:
        """A run changed; called on any thread."""
        if self._ids:
            self._wake.set()

    def create(self, workspace: str, name: str, wanted: NewService, *, owner: str, user: str) -> Webservice:
        """Deploy a service, or a new revision of one that may be overwritten.

        Raises:
            Conflict: the name is taken and `overwrite` is false, or another operation is under way.
            InvalidArgument: it cannot be served.
        """
        check_service_name(name)
        self._check_settings(workspace, wanted)
        with self._lock:
            self._gateway.control()  # its address is part of the answer
            known = self._services.find(workspace, name)
            if known is not None:
                if not wanted.overwrite:
                    raise Conflict(
                        f"There is a web service `{name}` in workspace `{workspace}` already.",
                        hint="Pass overwrite=True to deploy over it, choose another name, or delete it: "
                        f"`runyard services delete {name}`.",
                    )
                return self._overwrite(known, wanted)
            stored = self._make(workspace, name, wanted, owner=owner, user=user)
            try:
                self._tell_gateway(stored)  # whoever reads the address may ask there at once: requests wait
            except RunyardError as error:
                logger.warning("the gateway is told of %s later: %s", name, error)
        self._begin()
        return self._shown(stored.record)

    def list_services(self, workspace: str) -> list[Webservice]:
        return [self._shown(one.record) for one in self._services.list(workspace)]

    def get(self, workspace: str, name: str) -> Webservice:
        return self._shown(self._services.get(workspace, name).record)

    def change(self, workspace: str, name: str, wanted: ServiceChange) -> Webservice:
        """Change what is said of a service, or serve a new revision of it.

        Raises:
            Conflict: another operation is under way.
        """

        def edit(stored: Stored) -> Stored:
            stored = replace(stored, record=_with_facts(stored.record, wanted))
            if wanted.revision is not None:
                stored = self._with_revision(stored, wanted.revision, "Update")
            return replace(stored, record=_with_versions(stored.record, wanted))

        changed = self._edit(workspace, name, edit)
        if wanted.description is not None or wanted.tags is not None:
            self._describe(changed)
        return self._shown(changed)

    def rollback(self, workspace: str, name: str, number: int | None) -> Webservice:
        """Serve an earlier revision again: the one before, or that of the number.

        Raises:
            NotFound: there is no such revision.
        """

        def edit(stored: Stored) -> Stored:
            record = stored.record
            chosen = _earlier(record, number)
            _refuse_while_running(record)
            if chosen.state != READY or not chosen.workers:  # else it is warm, and answers already
                chosen = replace(chosen, state=STARTING, error=None, failed_starts=0, retire_at=None)
            operation = Operation("Rollback", RUNNING, chosen.number, _now())
            revisions = [chosen if one.number == chosen.number else one for one in record.revisions]
            return replace(stored, record=replace(record, revisions=revisions, operation=operation))

        return self._shown(self._edit(workspace, name, edit))

    def delete(self, workspace: str, name: str) -> None:
        """Answer what is under way, then end the service and all of its replicas. Twice is fine."""
        with self._lock:
            stored = self._services.find(workspace, name)
            if stored is None:
                return
            record = stored.record
            try:
                self._gateway.control().delete(record.route)
            except RunyardError as error:
                logger.warning("the gateway was not told that %s is deleted: %s", name, error)
                self._gateway.forget()
            self._services.delete(record)
            self._ids.discard(record.id)
            for kept in (self._memory, self._told, self._rows_at):
                kept.pop(record.id, None)
            try:
                self._engine.cancel(record.run_id)
            except (NotFound, InvalidTransition) as error:
                logger.debug("the run of %s was over: %s", name, error)
            if not self._ids:
                self._empty_since = time.monotonic()
                self._wake.set()

    def keys(self, workspace: str, name: str) -> tuple[str, str]:
        stored = self._services.get(workspace, name)
        return self._services.key(stored, PRIMARY), self._services.key(stored, SECONDARY)

    def set_key(self, workspace: str, name: str, which: str, value: str | None) -> None:
        """Replace one of the two keys; the other one goes on to work."""
        if which not in (PRIMARY, SECONDARY):
            raise InvalidArgument(f"There is no key {which[:40]!r}.", hint=f"The keys are {PRIMARY} and {SECONDARY}.")
        self._edit(workspace, name, lambda stored: self._services.with_key(stored, which, value))

    def token(self, workspace: str, name: str) -> tuple[str, datetime, datetime]:
        """Return a token for the service, when to ask for the next one, and when it ends.

        Raises:
            InvalidArgument: the service takes none.
        """
        stored = self._services.get(workspace, name)
        if not stored.record.settings.token_auth:
            raise InvalidArgument(
                f"The web service `{name}` takes no tokens.",
                why="token_auth_enabled is off.",
                hint="service.update(token_auth_enabled=True)" if stored.record.settings.compute_type != "ACI" else "",
            )
        now = _now()
        ends = now + timedelta(seconds=2 * TOKEN_S)
        text = make_token(self._services.token_secret(stored), stored.record.id, int(ends.timestamp()))
        return text, now + timedelta(seconds=TOKEN_S), ends

    def ask(self, workspace: str, name: str, request: Forwarded) -> ServiceAnswer:
        """Send a request to the service, with its key; blocks until it has answered."""
        stored = self._services.get(workspace, name)
        settings = stored.record.settings
        key = self._services.key(stored, PRIMARY) if settings.auth else ""
        if settings.token_auth and not key:
            key = self.token(workspace, name)[0]
        listener, port = self._gateway.listener
        return forward(listener, port, stored.record.route, key, request)

    def access_log(self, workspace: str, name: str, lines: int) -> list[str]:
        """Return the last lines that the gateway wrote about requests to the service."""
        path = self._gateway.folder / "logs" / f"{self._services.get(workspace, name).record.route}.log"
        try:
            with open(path, "rb") as file:
                file.seek(max(0, path.stat().st_size - (4 << 20)))
                found = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return found[-lines:]

    def tick(self) -> None:
        """Do one round over all services; by the thread, and by tests."""
        with self._lock:
            live = self._live()
            for stored in self._services.list_all():
                try:
                    self._advance(stored, live)
                except Exception:
                    # One service that cannot go on now must not stop the others.
                    logger.exception("service %s could not be moved on", stored.record.name)

    def _check_settings(self, workspace: str, wanted: NewService) -> None:
        check_revision(wanted.revision)
        settings = wanted.settings
        if settings.compute_type not in _KINDS:
            raise InvalidArgument(f"There is no kind of service {settings.compute_type!r}: {', '.join(_KINDS)}.")
        if not 0 <= settings.port <= 65535:
            raise InvalidArgument(f"Port {settings.port} cannot be: give one from 1 to 65535.")
        every = self._services.list_all() if settings.port else []
        taken = [one for one in every if one.record.settings.port == settings.port]
        self._check_reach(workspace, wanted.revision)
        if taken and not wanted.overwrite:
            raise Conflict(f"Port {settings.port} is that of the web service `{taken[0].record.name}`.")

    def _check_reach(self, workspace: str, spec: RevisionSpec) -> None:
        if not self._engine.is_local(workspace, spec.target) and not self._gateway.worker_address(is_local=False):
            raise InvalidArgument(
                f"Replicas on `{spec.target}` could not reach the gateway.",
                why="This server listens on its own machine only.",
                hint="Start it for a team: `runyard server start --host ADDRESS --port 8787`; or deploy without a "
                "target, on this machine.",
            )

    def _make(self, workspace: str, name: str, wanted: NewService, *, owner: str, user: str) -> Stored:
        now, settings = _now(), wanted.settings
        if settings.auth is None:
            is_aks = settings.compute_type in ("AKS", "AKSENDPOINT")
            by_key = is_aks or (self._is_team and settings.compute_type != "Local")
            settings = replace(settings, auth=by_key and not settings.token_auth)
        record = Webservice(
            workspace=workspace,
            name=name,
            id=make_uuid(),
            run_id=make_run_id(EXPERIMENT),
            created_at=now,
            updated_at=now,
            settings=settings,
            revisions=[],
            default=wanted.revision.label,
            route=self._free_route(workspace, name),
            created_by=user,
            owner=owner,
        )
        stored = self._services.make(record, primary=wanted.primary_key, secondary=wanted.secondary_key)
        stored = self._with_revision(stored, wanted.revision, "Create")
        self._engine.register_external_run(service_request(stored.record, user))
        self._services.add(stored)
        self._ids.add(record.id)
        self._empty_since = None
        return stored

    def _overwrite(self, known: Stored, wanted: NewService) -> Webservice:
        def edit(stored: Stored) -> Stored:
            settings = wanted.settings
            if settings.auth is None:
                settings = replace(settings, auth=stored.record.settings.auth)
            for which, value in ((PRIMARY, wanted.primary_key), (SECONDARY, wanted.secondary_key)):
                stored = self._services.with_key(stored, which, value) if value else stored
            stored = replace(stored, record=replace(stored.record, settings=settings))
            return self._with_revision(stored, wanted.revision, "Update")

        return self._shown(self._edit(known.record.workspace, known.record.name, edit))

    def _with_revision(self, stored: Stored, spec: RevisionSpec, kind: str) -> Stored:
        record = stored.record
        check_revision(spec)
        self._check_reach(record.workspace, spec)
        _refuse_while_running(record)
        number = max((one.number for one in record.revisions), default=0) + 1
        idle = [one.number for one in record.revisions if one.state in (STOPPED, FAILED) and not one.replicas]
        surplus = set(idle[: max(0, len(record.revisions) + 1 - MOST_KEPT)])
        kept = [one for one in record.revisions if one.number not in surplus]
        stored, shown = self._services.seal_spec(stored, number, spec)
        revisions = [*kept, ServiceRevision(number, _now(), shown)]
        record = replace(record, revisions=revisions, operation=Operation(kind, RUNNING, number, _now()))
        return replace(stored, record=record)

    def _free_route(self, workspace: str, name: str) -> str:
        taken = {one.record.route for one in self._services.list_all()}
        return name if name not in taken else f"{name}.{workspace}"

    def _edit(self, workspace: str, name: str, edit: Updated) -> Webservice:
        with self._lock:
            changed = edit(self._services.get(workspace, name))
            changed = replace(changed, record=replace(changed.record, updated_at=_now()))
            changed = self._with_live_run(changed)
            self._services.save(changed)
            self._told.pop(changed.record.id, None)
            try:
                self._tell_gateway(changed)  # a key that was replaced opens nothing once that is answered
            except RunyardError as error:
                logger.warning("the gateway hears of %s in the next round: %s", name, error)
        self._wake.set()
        return changed.record

    def _with_live_run(self, stored: Stored) -> Stored:
        """Give a service a new run when somebody ended the one that it was."""
        record = stored.record
        run = self._store.find_run(record.run_id)
        if run is not None and not run.status.is_terminal:
            return stored
        record = replace(record, run_id=make_run_id(EXPERIMENT), last_replica=0)
        record = replace(record, revisions=[replace(one, replicas=[]) for one in record.revisions])
        self._engine.register_external_run(service_request(record, record.created_by))
        return replace(stored, record=record)

    def _describe(self, record: Webservice) -> None:
        run = self._store.find_run(record.run_id)
        if run is not None:
            settings = record.settings
            gone = [key for key in run.tags if key not in settings.tags]
            change = RunChange(description=settings.description, tags_set=dict(settings.tags), tags_remove=gone)
            self._store.update_run(run.id, change)

    def _begin(self) -> None:
        """Start the threads, once."""
        with self._lock:
            if not self._threads and not self._stopping:
                for name, work in (("services", self._run), ("gateway-events", self._listen)):
                    thread = threading.Thread(target=work, name=name, daemon=True)
                    self._threads.append(thread)
                    thread.start()
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                if self._ids:
                    self.tick()
                else:
                    self._end_gateway()
            except StoreUnavailable as error:
                logger.warning("services wait for the database: %s", error)
            except Exception:
                # The edge of a thread: the store may be full or locked now and well in a second.
                logger.exception("a round over the services failed")
            self._wake.wait(TICK_S if self._ids or self._empty_since is not None else None)

    def _end_gateway(self) -> None:
        """End the gateway some seconds after its last service: what is deployed again at once needs it."""
        with self._lock:
            if not self._ids and self._empty_since is not None and time.monotonic() - self._empty_since > LINGER_S:
                self._empty_since = None
                self._gateway.stop()

    def _listen(self) -> None:
        self._gateway.watch(self._on_event)

    def _on_event(self, event: Json) -> None:
        if event.get("event") != "row":
            self._wake.set()

    def _live(self) -> dict[str, Json]:
        """Return the gateway's state by route; the gateway is started when it is not there."""
        try:
            return self._gateway.control().state()
        except RunyardError as error:
            self._gateway.forget()
            self._told.clear()  # a new one is told everything
            logger.warning("the gateway does not answer: %s", error)
            return {}

    def _advance(self, stored: Stored, live: Mapping[str, Json]) -> None:
        before = stored.record
        self._ids.add(before.id)
        run = self._store.find_run(before.run_id)
        if run is None or run.status.is_terminal:
            self._end(stored, run)
            return
        memory = self._memory.setdefault(before.id, Memory())
        sight = Sight(live.get(before.route, {}), self._store.find_run, _now(), time.monotonic())
        record = look(before, sight, memory)
        stored = replace(stored, record=record)
        # The gateway first: who reads that a revision serves gets its answers from then on. A server that is killed in
        # between comes to the same decision again.
        self._tell_gateway(stored)
        if record != before:
            self._services.save(stored)
            if record.state != before.state or record.operation != before.operation:
                self._tell_run(record)
        stored = self._keep_rows(stored, live)
        for revision in record.revisions:
            self._match_replicas(stored, revision)

    def _end(self, stored: Stored, run: Run | None) -> None:
        """Somebody ended the service's run: it serves no more, and says why."""
        record = stored.record
        if record.state == FAILED and not any(one.replicas for one in record.revisions):
            return
        how = f"was ended as {run.status}" if run is not None else "was deleted"
        error: RunError = {"code": "Stopped", "message": f"The service's run `{record.run_id}` {how}.", "details": {}}
        revisions = [replace(one, state=STOPPED, replicas=[], workers=0) for one in record.revisions]
        operation = replace(record.operation, state=FAILED, error=error) if record.operation is not None else None
        ended = replace(record, state=FAILED, error=error, revisions=revisions, current={}, operation=operation)
        self._services.save(replace(stored, record=ended))
        self._tell_gateway(replace(stored, record=ended))

    def _tell_gateway(self, stored: Stored) -> None:
        config = self._services.gateway_config(stored, version=__version__)
        if self._told.get(stored.record.id) == config:
            return
        try:
            self._gateway.control().put(config)
        except RunyardError:
            self._gateway.forget()
            raise
        self._told[stored.record.id] = config

    def _match_replicas(self, stored: Stored, revision: ServiceRevision) -> None:
        record = stored.record
        for ref in revision.replicas:
            run = self._store.find_run(ref.run_id)
            if ref.is_wanted and run is None:
                is_local = self._engine.is_local(record.workspace, revision.spec.target)
                address = self._gateway.worker_address(is_local=is_local)
                token = self._services.worker_token(stored, revision.number)
                if not self._submit(stored, revision, ref.number, address, token, is_local=is_local):
                    return
            elif ref.is_wanted or run is None or run.status.is_terminal or run.desired is not None:
                continue
            elif ref.number not in self._memory[record.id].away_since:
                try:
                    self._engine.cancel(run.id)
                except InvalidTransition:
                    logger.debug("replica %s of %s ended by itself", ref.number, record.name)

    def _submit(
        self, stored: Stored, revision: ServiceRevision, number: int, address: str, token: str, *, is_local: bool
    ) -> bool:
        """Submit a replica's run. False: it was refused, which is the end of the revision."""
        whole = replace(revision, spec=self._services.whole_spec(stored, revision))
        request = replica_request(stored.record, whole, number, gateway=address, token=token)
        try:
            self._engine.submit(request, submitter=own_variables() if is_local else None)
            return True
        except StoreUnavailable:
            raise  # it is tried again
        except RunyardError as error:
            logger.warning("replica %d of %s was refused: %s", number, stored.record.name, error)
            plain: RunError = {"code": error.code, "message": str(error), "details": {}}
            revisions = [
                replace(one, state=FAILED, error=plain, replicas=[]) if one.number == revision.number else one
                for one in stored.record.revisions
            ]
            self._services.save(replace(stored, record=replace(stored.record, revisions=revisions)))
            return False

    def _tell_run(self, record: Webservice) -> None:
        """Show the state where runs are shown."""
        number = record.serving.number if record.serving is not None else 0
        tags: dict[str, str | None] = {"state": record.state, "revision": str(number)}
        self._store.update_run(record.run_id, RunChange(tags_set=tags))
        said = record.error["message"].partition("\n")[0] if record.error is not None else ""
        logger.info("service %s: %s, revision %d%s", record.name, record.state, number, said and f": {said}")

    def _keep_rows(self, stored: Stored, live: Mapping[str, Json]) -> Stored:
        """Take over rows of metrics that the gateway has closed."""
        record = stored.record
        last = int(live.get(record.route, {}).get("row", 0))
        if last == record.rows:
            return stored
        if last < record.rows:  # its folder was lost, and it counts anew
            stored = replace(stored, record=replace(record, rows=0))
            return stored
        rows = self._gateway.control().rows(record.route, record.rows)
        figures.keep(self._store, record.run_id, rows)
        stored = replace(stored, record=replace(record, rows=last))
        self._services.save(stored)
        return stored

    def _shown(self, record: Webservice) -> Webservice:
        """Return the record with its address."""
        base = f"{self._gateway.url}/api/v1/service/{record.route}"
        spec = record.revisions[-1].spec if record.revisions else RevisionSpec()
        if record.settings.compute_type == "Local" and record.settings.port:
            base = f"http://localhost:{record.settings.port}"
        last = "/score" if not _is_tensorflow(spec) else f"/v1/models/{spec.models[0].rpartition(':')[0]}:predict"
        return replace(record, scoring_uri=base + last)


def _is_tensorflow(spec: RevisionSpec) -> bool:
    return spec.no_code == "tensorflow" and bool(spec.models)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _refuse_while_running(record: Webservice) -> None:
    operation = record.operation
    if operation is not None and operation.state == RUNNING:
        raise Conflict(
            f"The web service `{record.name}` is being changed: revision {operation.revision} is starting.",
            hint="service.wait_for_deployment() waits until that has ended; "
            f"`runyard services delete {record.name}` ends it now.",
        )


def _with_facts(record: Webservice, wanted: ServiceChange) -> Webservice:
    settings = record.settings
    given: Json = {
        name: getattr(wanted, name)
        for name in ("description", "tags", "auth", "token_auth")
        if getattr(wanted, name) is not None
    }
    if wanted.properties_add:
        taken = sorted(set(wanted.properties_add) & set(settings.properties))
        if taken:
            raise InvalidArgument(f"Properties cannot be changed: {', '.join(taken)}.", hint="Use a tag.")
        given["properties"] = {**settings.properties, **wanted.properties_add}
    if wanted.definition is not None:
        given["definition"] = {**settings.definition, **wanted.definition}
    record = replace(record, settings=replace(settings, **given))
    if wanted.scaling is not None:
        serving = record.current.values()
        revisions = [
            replace(one, spec=replace(one.spec, scaling=wanted.scaling)) if one.number in serving else one
            for one in record.revisions
        ]
        for one in revisions:
            if one.number in serving:
                check_revision(one.spec)
        record = replace(record, revisions=revisions)
    return record


def _with_versions(record: Webservice, wanted: ServiceChange) -> Webservice:
    """Change the shares of an endpoint's versions, its default, or drop one."""
    if wanted.shares is not None:
        shares = {**record.shares, **wanted.shares}
        if any(not 0 <= share <= 100 for share in shares.values()) or sum(shares.values()) > 100.000001:
            raise InvalidArgument(
                f"The versions of `{record.name}` cannot get {json.dumps(shares)} percent of its requests.",
                why="Together they get 100 at most; what is left goes to the default version.",
            )
        record = replace(record, shares=shares)
    if wanted.default is not None:
        _check_label(record, wanted.default)
        operation = record.operation
        is_new = wanted.revision is not None and wanted.revision.label == wanted.default
        if operation is not None and is_new and record.current and wanted.default not in record.current:
            # Until it is ready the version before stays the default one.
            record = replace(record, operation=replace(operation, makes_default=True))
        else:
            record = replace(record, default=wanted.default)
    if wanted.drop is not None:
        _check_label(record, wanted.drop)
        if wanted.drop == record.default and len(record.current) > 1:
            raise InvalidArgument(
                f"The version `{wanted.drop}` of `{record.name}` is the default one.",
                hint="Make another one the default first: update_version(name, is_default=True).",
            )
        revisions = [
            replace(one, retire_at=_now()) if one.spec.label == wanted.drop and one.state == READY else one
            for one in record.revisions
        ]
        current = {label: number for label, number in record.current.items() if label != wanted.drop}
        shares = {label: share for label, share in record.shares.items() if label != wanted.drop}
        record = replace(record, revisions=revisions, current=current, shares=shares)
    return record


def _check_label(record: Webservice, label: str) -> None:
    if label not in {one.spec.label for one in record.revisions}:
        known = ", ".join(sorted(record.current)) or "none"
        raise NotFound(f"The endpoint `{record.name}` has no version `{label}`.", why=f"Its versions: {known}.")


def _earlier(record: Webservice, number: int | None) -> ServiceRevision:
    serving = record.current.get(record.default, 0)
    if number is not None:
        found = record.revision(number)
        if found is None:
            known = ", ".join(str(one.number) for one in record.revisions)
            raise NotFound(f"The web service `{record.name}` has no revision {number}.", why=f"It has: {known}.")
        return found
    worked = [one for one in record.revisions if one.number < serving and one.state in (READY, STOPPED)]
    if not worked:
        raise NotFound(f"The web service `{record.name}` has no revision before {serving} that ever answered.")
    return worked[-1]
