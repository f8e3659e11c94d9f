"""A pytest plug-in for MLflow's own tests: their clients and stores talk to a server of ours.

It runs in MLflow's environment (`-p suite_plugin`), so it imports only pytest and MLflow. Three variables steer it:
`CONFORMANCE_URL` is the server (empty: MLflow's own, in this process: the control), `CONFORMANCE_LEFT_OUT` the list of
tests to leave out, `CONFORMANCE_REPORT` the file that gets the outcome of each test.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

URL = os.environ.get("CONFORMANCE_URL", "")
INSIDE = "looks into the database or the memory of the server"
OUTCOMES: dict[str, list[str]] = {}  # test: outcome, reason


def pytest_sessionstart() -> None:
    """Refuse servers that a test would start itself: its pass would say nothing about ours."""
    from tests.tracking import integration_test_utils

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("this test starts a server of its own")

    for name in ("ServerThread", "_init_server"):
        setattr(integration_test_utils, name, refuse)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the list names, and remember why. A third column names the release for which a line is."""
    import mlflow

    rows = [line.split("\t") for line in Path(os.environ["CONFORMANCE_LEFT_OUT"]).read_text().splitlines()]
    rules = [
        (re.compile(pattern), reason)
        for pattern, reason, *releases in rows
        if not releases or mlflow.__version__.startswith(releases[0])
    ]
    kept, left = [], []
    for item in items:
        reason = next((why for pattern, why in rules if pattern.search(item.nodeid)), None)
        if reason is None:
            kept.append(item)
        else:
            left.append(item)
            OUTCOMES[item.nodeid] = ["left out", reason]
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> object:
    """Give a test our server where MLflow's fixture would start one or open a database."""
    make = _replacement(fixturedef.argname, request.node.nodeid)
    if make is None:
        return None
    value = make(f"{URL}/mlflow/t{uuid.uuid4().hex}" if URL else StockServer.start(request))
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
    return value


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep one outcome for each test: of its call, or of the set-up that failed."""
    if report.when == "call" or report.outcome != "passed":
        outcome, reason = report.outcome, ""
        if hasattr(report, "wasxfail"):
            outcome = "failed as expected" if report.skipped else "passed"
        elif report.skipped:
            outcome, reason = "left out", str(report.longrepr[2]).removeprefix("Skipped: ")
        elif report.failed:
            reason = report.longreprtext.strip().rpartition("\nE  ")[2].splitlines()[0].strip()
        if OUTCOMES.get(report.nodeid, [""])[0] != "failed":
            OUTCOMES[report.nodeid] = [outcome, reason]


def pytest_sessionfinish() -> None:
    """Write the outcomes down."""
    Path(os.environ["CONFORMANCE_REPORT"]).write_text(json.dumps(OUTCOMES, indent=1))


def _replacement(fixture: str, test: str) -> Any:
    if fixture in ("client", "mlflow_client") and test.startswith("tests/tracking/"):
        return _client
    if fixture == "store" and test.startswith("tests/store/tracking/"):
        return _tracking_store
    return None


def _client(base: str) -> object:
    from mlflow import MlflowClient

    return MlflowClient(base)


def _tracking_store(base: str) -> object:
    """Return a REST store that takes what a database's store takes, and skips a test that looks inside."""
    from mlflow.store.tracking.rest_store import RestStore
    from mlflow.utils.rest_utils import MlflowHostCreds

    class Store(RestStore):  # type: ignore[misc]  # MLflow is not installed where types are checked
        def create_run(self, experiment_id: str, user_id: str, start_time: int, tags: Any, run_name: str) -> object:
            return super().create_run(experiment_id, user_id, start_time, tags or [], run_name)

        def search_experiments(self, *arguments: Any, **named: Any) -> object:
            if len(arguments) < 2:
                named.setdefault("max_results", 1000)
            return super().search_experiments(*arguments, **named)

        def __getattr__(self, name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            pytest.skip(INSIDE)

    return Store(lambda: MlflowHostCreds(base))


class StockServer:
    """MLflow's own server in a thread of this process, with a new database for each test."""

    template: Path | None = None  # a database with all its tables, which take seconds to make

    @classmethod
    def start(cls, request: Any) -> str:
        """Return the address of a server that ends with the test."""
        from mlflow.server import app, handlers
        from werkzeug.serving import make_server

        folder = Path(tempfile.mkdtemp())
        request.addfinalizer(lambda: shutil.rmtree(folder, ignore_errors=True))
        if cls.template is None:
            from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

            cls.template = Path(tempfile.mkdtemp()) / "mlflow.db"
            SqlAlchemyStore(f"sqlite:///{cls.template}", str(folder)).engine.dispose()
        shutil.copy(cls.template, folder / "mlflow.db")
        handlers._tracking_store = handlers._model_registry_store = None
        handlers.initialize_backend_stores(
            f"sqlite:///{folder}/mlflow.db", default_artifact_root=(folder / "files").as_uri()
        )
        server = make_server("127.0.0.1", 0, app, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        request.addfinalizer(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"
