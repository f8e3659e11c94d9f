"""A real private server in a home of its own, and ways to give it something to show."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace
from runyard.client.client import Client
from runyard.client.private_server import connect
from runyard.core.config.paths import database_file
from runyard.core.config.settings import read_settings
from runyard.store.sqlite import SqliteStore
from tests.server import private

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Page

KEY = "runyard-session"
BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


def ask(page: Page, path: str) -> APIResponse:
    """Get a path of the API as the signed-in page would."""
    return page.request.get(path, headers={"Runyard-Session": page_key(page)})


def ticketed(page: Page, path: str) -> str:
    """Return the address of a download, as the page would follow it now."""
    parts = urlsplit(page.url)
    headers = {"Runyard-Session": page_key(page), "Origin": f"{parts.scheme}://{parts.netloc}"}
    answer = page.request.post("/api/v1/download-tickets", headers=headers, data={"path": path})
    assert answer.ok, answer.text()
    return f"{path}?ticket={answer.json()['ticket']}"


def page_key(page: Page) -> str:
    return page.evaluate("(name) => localStorage.getItem(name)", KEY) or ""


class Studio:
    def __init__(self, home: Path, project: Path) -> None:
        self.home = home
        self.project = project
        self.client: Client = connect(read_settings())
        self.client.workspaces.put("default")
        self.url = (self.client.address.web_url or "").rstrip("/")  # http://127.0.0.1:PORT, over restarts too
        assert self.url

    def link(self, path: str = "/") -> str:
        """Return an address that signs a browser in, once, and leads on to `path`."""
        return self.url + self.client.server.signin_path(path)

    @property
    def workspace(self) -> Workspace:
        return Workspace.from_config()

    def submit(self, script: str, *arguments: Any, experiment: str = "browser", **config: Any) -> Run:
        """Submit `script` as train.py, with the interpreter of the tests, to `local`."""
        (self.project / "train.py").write_text(textwrap.dedent(script))
        environment = config.pop("environment", None) or Environment("user-managed-env")
        environment.python.user_managed_dependencies = True
        source = ScriptRunConfig(
            source_directory=str(self.project),
            script="train.py",
            compute_target=config.pop("compute_target", "local"),
            environment=environment,
            arguments=list(arguments),
            **config,
        )
        return Experiment(self.workspace, experiment).submit(source)

    @contextmanager
    def store(self) -> Iterator[SqliteStore]:
        """Stop the server, give its database, and start it again. Browsers stay signed in."""
        private.stop(self.home)
        store = SqliteStore(database_file(self.home))
        try:
            yield store
        finally:
            store.close()
        private.start(self.home)

    def fill(self, count: int) -> None:
        """Have the server know `count` finished runs of 20 experiments, with 5 parameters and 5 metrics each.

        Only for a home without runs.
        """
        sys.path.insert(0, str(BENCHMARKS))
        try:
            import store_100k  # type: ignore[import-not-found]  # a script, not a package
        finally:
            sys.path.remove(str(BENCHMARKS))
        with self.store() as store:
            store_100k.fill(store, count)
