"""Small MLflow stores made by hand: what the importers must read, and what they must not trust."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

START_MS = 1_700_000_000_000
RUN, CHILD = "a" * 32, "b" * 32


def add_run(
    root: Path,
    run_id: str,
    *,
    experiment: str = "0",
    title: str = "Default",
    start_ms: int = START_MS,
    status: int = 3,
    stage: str = "active",
    metrics: Mapping[str, Sequence[str]] | None = None,
    params: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a run of a file store as MLflow does; return its folder."""
    place = root / experiment
    place.mkdir(parents=True, exist_ok=True)
    (place / "meta.yaml").write_text(
        f"artifact_location: file://{place}\nexperiment_id: '{experiment}'\nlifecycle_stage: active\nname: '{title}'\n"
    )
    folder = place / run_id
    for name in ("metrics", "params", "tags", "artifacts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "meta.yaml").write_text(
        f"artifact_uri: file://{folder}/artifacts\nend_time: {start_ms + 60_000}\nentry_point_name: ''\n"
        f"experiment_id: '{experiment}'\nlifecycle_stage: {stage}\nrun_id: {run_id}\nrun_name: run of {run_id[:1]}\n"
        f"run_uuid: {run_id}\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {start_ms}\n"
        f"status: {status}\ntags: []\nuser_id: ada\n"
    )
    for kind, values in (("metrics", metrics), ("params", params), ("tags", tags)):
        for key, value in (values or {}).items():
            path = folder / kind / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value if isinstance(value, str) else "".join(f"{line}\n" for line in value))
    for name, data in (files or {}).items():
        path = folder / "artifacts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def make_mlruns(root: Path) -> Path:
    """Return a store with a parent, its child and a run that was deleted."""
    lines = [f"{START_MS + step} {1 / (step + 1)} {step}" for step in range(300)]
    add_run(
        root,
        RUN,
        metrics={"train/loss": lines, "odd": [f"{START_MS} nan 0", f"{START_MS} inf 1", f"{START_MS + 1} 7"]},
        params={"lr": "0.1", "text": "two\nlines"},
        tags={"mlflow.runName": "first", "mlflow.note.content": "about it", "team": "x"},
        files={"model/MLmodel": b"flavors: {}\n", "plot.png": b"\x89PNG"},
    )
    add_run(
        root,
        CHILD,
        start_ms=START_MS - 5,
        status=4,
        tags={"mlflow.parentRunId": RUN},
        metrics={"x": [f"{START_MS} 3.0 0"]},
    )
    add_run(root, "c" * 32, experiment="1", title="Größe & Co: ein/zwei", stage="deleted", status=1)
    model = root / "models" / "net"
    for version in (1, 3):
        (model / f"version-{version}" / "tags").mkdir(parents=True)
        (model / f"version-{version}" / "meta.yaml").write_text(
            f"creation_timestamp: {START_MS}\ncurrent_stage: None\ndescription: v{version}\n"
            f"last_updated_timestamp: {START_MS}\nname: net\nrun_id: {RUN}\n"
            f"source: file://{root}/0/{RUN}/artifacts/model\nuser_id: null\nversion: {version}\n"
        )
    (model / "meta.yaml").write_text(f"creation_timestamp: {START_MS}\ndescription: null\nname: net\n")
    (model / "aliases").mkdir()
    (model / "aliases" / "best").write_text("3")
    return root


def make_database(path: Path, *, runs: int = 3, points: int = 100) -> Path:
    """Return a database with the tables of an old MLflow: columns that came later are missing."""
    with sqlite3.connect(str(path)) as db:
        db.executescript(
            """
            CREATE TABLE alembic_version (version_num VARCHAR(32));
            INSERT INTO alembic_version VALUES ('97727af70f4d');
            CREATE TABLE experiments (experiment_id INTEGER PRIMARY KEY, name TEXT, lifecycle_stage TEXT);
            INSERT INTO experiments VALUES (0, 'Default', 'active');
            CREATE TABLE runs (run_uuid VARCHAR(32) PRIMARY KEY, name VARCHAR(250), user_id VARCHAR(256),
                status VARCHAR(20), start_time BIGINT, end_time BIGINT, lifecycle_stage VARCHAR(20),
                artifact_uri VARCHAR(200), experiment_id INTEGER);
            CREATE TABLE metrics (key VARCHAR(250), value FLOAT, timestamp BIGINT, run_uuid VARCHAR(32), step BIGINT,
                is_nan BOOLEAN, PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan));
            CREATE INDEX index_metrics_run_uuid ON metrics (run_uuid);
            CREATE TABLE params (key VARCHAR(250), value VARCHAR(500), run_uuid VARCHAR(32));
            CREATE TABLE tags (key VARCHAR(250), value VARCHAR(5000), run_uuid VARCHAR(32));
            """
        )
        for number in range(runs):
            run_id = f"{number:032x}"
            start = START_MS + number * 1000
            uri = f"{path.parent}/mlruns/0/{run_id}/artifacts"
            db.execute(
                "INSERT INTO runs VALUES (?, ?, 'ada', 'FINISHED', ?, ?, 'active', ?, 0)",
                (run_id, f"run {number}", start, start + 500, uri),
            )
            db.execute("INSERT INTO params VALUES ('lr', '0.5', ?)", (run_id,))
            db.executemany(
                "INSERT INTO metrics VALUES ('loss', ?, ?, ?, ?, 0)",
                [(1 / (step + 1), start + step, run_id, step) for step in range(points)],
            )
    return path
