"""The parts of the running server, opened once and handed to every route."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from runyard.artifacts.aside import Aside
from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.collect import Collector
from runyard.artifacts.content import ContentStore
from runyard.artifacts.filesystem import FilesystemStore
from runyard.core.config.paths import database_file, server_folder, spare_work_folder
from runyard.core.config.server_settings import ServerSettings
from runyard.core.config.settings import Settings
from runyard.core.machine.spare_work import drop_spares
from runyard.core.names import make_uuid
from runyard.core.records import DEFAULT_WORKSPACE, Workspace
from runyard.engine.engine import Engine
from runyard.engine.state.backends import BackendsByKind
from runyard.server.access.activity import Activity
from runyard.server.access.permissions import ContentAccess
from runyard.server.access.shares import Shares
from runyard.server.access.vault import Vault
from runyard.server.live import ChangeFeed, RunSignal, notifying
from runyard.server.logs.lines import LineIndexes
from runyard.server.net.gateway_listener import GatewayListener
from runyard.server.serving.deployer import Deployer
from runyard.server.serving.gateway import GatewayHandle
from runyard.server.serving.stored import ServiceStore
from runyard.server.storage.belonging import check_database, database_id, find_content_folder
from runyard.server.storage.collecting import Collecting
from runyard.server.storage.health import Health, health_of
from runyard.server.storage.quotas import Quotas
from runyard.server.storage.room import OWN_RESERVE_BYTES, TEAM_RESERVE_BYTES, Room
from runyard.store import open_store
from runyard.store.base import RunRecords, RunStore

GATEWAY_PORT = "gateway_port"  # the store's value: where services answer
MOST_LONG = 64  # long answers under way, of one user or run
MOST_BUILDING = 2  # of them, that are read from the store at the same time: each may need much memory

logger = logging.getLogger(__name__)

CHECKED_BYTES = 64 << 20  # of a snapshot's files, before a run of it is submitted again


def _stay() -> None:
    """The stop of a server without a process of its own, as in tests."""


@dataclass(frozen=True)
class Services:
    """One server's parts. `stop` asks the process to leave; live runs go on."""

    settings: Settings
    store: RunStore
    artifacts: ArtifactStore
    content: ContentStore
    engine: Engine
    address: Mapping[str, Any]  # client.address.Address as a dict: how supervisors reach this server
    server_id: str
    activity: Activity
    growth: RunSignal
    nodes: RunSignal  # nodes of a run that wait for news from each other
    news: ChangeFeed
    reach: ContentAccess
    collecting: Collecting
    vault: Vault
    deployer: Deployer
    room: Room
    quotas: Quotas
    health: Health
    long_answers: Shares = field(default_factory=lambda: Shares(MOST_LONG, "long answers", most_in_all=4 * MOST_LONG))
    building: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_BUILDING))
    stop: Callable[[], None] = _stay
    server_settings: ServerSettings = field(default_factory=ServerSettings)
    listens_on: Sequence[str] = ()  # all addresses, for people
    line_indexes: LineIndexes = field(default_factory=LineIndexes)
    started_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def close(self) -> None:
        """Stop the engine, let go of spare supervisors and close the store. Started runs go on."""
        self.news.close()
        self.collecting.stop()
        self.deployer.stop()
        self.engine.stop()
        self.store.close()


def open_services(
    settings: Settings,
    address: Mapping[str, Any],
    *,
    node_address: Mapping[str, Any] | None = None,
    server_settings: ServerSettings | None = None,
    listens_on: Sequence[str] = (),
    activity: Activity | None = None,
    stop: Callable[[], None] = _stay,
    store: RunStore | None = None,
    backends: BackendsByKind | None = None,
    gateway_address: GatewayListener | None = None,
) -> Services:
    """Open store, artifacts and engine below `settings.home` and start the engine's loop.

    The caller holds the home's lock. `address` needs no token: each run gets its own. `store` and `backends` are for
    tests.
    """
    ours = server_settings or ServerSettings()
    server_folder(settings.home).mkdir(mode=0o700, parents=True, exist_ok=True)
    place: str | Path = (server_settings or ServerSettings()).database or database_file(settings.home)
    bare = store if store is not None else open_database(settings.home, place)
    news = ChangeFeed(lambda run_id: _workspace_of(bare, run_id))
    opened = notifying(bare, news)
    artifacts = FilesystemStore(find_content_folder(settings.home, opened, place))
    content = ContentStore(artifacts, opened)
    _tidy(content)

    def horizon() -> datetime:
        return engine.horizon.observe()

    collecting = Collecting(
        opened,
        content,
        Collector(content, artifacts, opened),
        Aside(artifacts),
        horizon=horizon,
        drop_copies=partial(drop_spares, spare_work_folder(settings.home)),
    )
    growth, nodes = RunSignal(), RunSignal()

    def on_change(run_id: str) -> None:
        growth.notify(run_id)
        news.tell(run_id, "status")
        deployer.note_run(run_id)

    def on_log(run_id: str) -> None:
        growth.notify(run_id)
        news.tell(run_id, "log")

    engine = Engine(
        settings=settings,
        store=opened,
        artifacts=artifacts,
        backends=backends,
        address=address,
        node_address=node_address,
        on_change=on_change,
        on_log=on_log,
        on_node=nodes.notify,
        hold_snapshot=content.hold_snapshot,
        check_snapshot=partial(content.check_snapshot, most_bytes=CHECKED_BYTES),
        on_delete=collecting.note,
    )
    vault = Vault(opened, settings.home)
    gateway = GatewayHandle(
        settings.home,
        gateway_address or GatewayListener(),
        find_port=lambda: int(opened.find_value(GATEWAY_PORT) or 0),
        keep_port=lambda port: opened.set_value(GATEWAY_PORT, str(port)),
    )
    deployer = Deployer(engine, opened, ServiceStore(opened, vault), gateway, is_team=ours.is_team)
    services = Services(
        settings=settings,
        store=opened,
        artifacts=artifacts,
        content=content,
        engine=engine,
        address=address,
        server_id=database_id(opened),
        activity=activity or Activity(),
        growth=growth,
        nodes=nodes,
        news=news,
        reach=ContentAccess(opened, content),
        collecting=collecting,
        vault=vault,
        deployer=deployer,
        room=Room(settings.home, reserve_bytes=TEAM_RESERVE_BYTES if ours.is_team else OWN_RESERVE_BYTES),
        quotas=Quotas(opened, run_bytes=ours.quota_run_bytes, user_bytes=ours.quota_user_bytes),
        health=health_of(bare, settings.home),
        stop=stop,
        server_settings=ours,
        listens_on=listens_on,
    )
    opened.put_workspace(Workspace(id=make_uuid(), name=DEFAULT_WORKSPACE, created_at=services.started_at, owner=""))
    engine.start()
    deployer.start()
    collecting.start()
    return services


def open_database(home: Path, place: str | Path) -> RunStore:
    """Open the home's database.

    Raises:
        StoreUnavailable: it cannot be used, or is new although the home has stored content.
    """
    check_database(home, place)
    return open_store(place)


def _workspace_of(store: RunRecords, run_id: str) -> str | None:
    run = store.find_run(run_id) or store.find_hidden(run_id)  # a list is other when a run was deleted
    return None if run is None else run.workspace


def _tidy(content: ContentStore) -> None:
    found = content.tidy(datetime.now(timezone.utc))
    if found.restored:
        logger.warning("%d pack(s) that lay aside are in use, and were put back.", found.restored)
    if found.set_aside:
        logger.warning("%d pack(s) that the database does not know were set aside.", found.set_aside)
    if found.missing:
        logger.error(
            "%d pack(s) are missing, and with them files of runs. `runyard server repair` lists whose.", found.missing
        )
