"""Whether a search starts from its conditions or from its order, it finds what a look at all runs finds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from runyard.core.formats.filters import PRESENT, Comparison, Field
from runyard.core.formats.run_inputs import DatasetInput, dataset_property
from runyard.core.records import MLFLOW_RUN, USER_TAG, RunChange
from runyard.core.statuses import RunStatus
from runyard.store import open_store
from runyard.store.base import RunSearch, RunStore, SearchOrder
from runyard.store.memory.store import MemoryRunStore
from runyard.store.sql.search import search_runs
from runyard.store.sql.store import SqlStore
from runyard.testing.runs import Journal, a_run, points
from tests.store.postgres import new_schema

BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
WORDS = ("adam", "sgd", "x" * 300, "x" * 299 + "y", "")
NUMBERS = (0.0, 0.25, 0.5, 1.0, math.nan, math.inf)
MANY = (0, 4, 20_000)  # no condition is narrow, some are, all are
CONDITIONS = (
    [Comparison("metrics", op, value, "loss") for op in ("<", "<=", "=", "!=", ">", ">=") for value in (0.25, 0.5)]
    + [Comparison("metrics", op, None, "acc") for op in (PRESENT, "absent")]
    + [Comparison("metrics", ">", 0.1, "acc")]
    + [Comparison(field, op, word, "key") for field in ("params", "tags") for op in ("=", "!=") for word in WORDS[:3]]
    + [Comparison("params", op, pattern, "key") for op in ("like", "ilike") for pattern in ("%d%", "A%", "x%y", "")]
    + [Comparison(field, op, None, "key") for field in ("params", "properties") for op in (PRESENT, "absent")]
    + [Comparison("status", "in", (RunStatus.RUNNING.value,)), Comparison("status", "in", ())]
    + [
        Comparison("id", "in", ("run-3", "run-9", "nobody")),
        Comparison("id", "=", "run-7"),
        Comparison("id", "!=", "a"),
    ]
    + [Comparison("id", "=", "uri:/run-7", "uri:/"), Comparison("user", "=", ""), Comparison("user", "=", "me")]
    + [Comparison("name", op, value) for op in ("=", "!=", "like") for value in ("bee", "")]
    + [Comparison("start", op, at) for op in ("<", "<=", "=", "!=", ">", ">=") for at in (1767225603000.0, 0.0)]
    + [Comparison("parent", "absent"), Comparison("parent", "=", "run-0"), Comparison("start", "absent")]
    + [Comparison("datasets", "=", "iris", "name"), Comparison("datasets", "like", "w%", "name")]
)
FIELDS = [Field("metrics", "loss"), Field("metrics", "none"), Field("params", "key"), Field("tags", "key")]
FIELDS += [Field(name) for name in ("start", "end", "name", "user", "status", "id")]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    place = f"sqlite:{tmp_path / 'runyard.db'}"
    if request.param == "postgres":
        place = new_schema(request.getfixturevalue("postgres"))
    found = open_store(place)
    assert isinstance(found, SqlStore)
    yield found
    found.close()


@pytest.mark.long
def test_every_plan_finds_what_a_look_at_all_runs_finds(store: SqlStore) -> None:
    plain = MemoryRunStore()
    for each in (plain, store):
        fill(each)
    ids = {each: [found.id for found in each.list_experiments("default", view="All")] for each in (plain, store)}
    draw = random.Random(11)
    count = 0
    for _ in range(100):
        fields: dict[str, object] = {
            "conditions": draw.sample(CONDITIONS, draw.choice((0, 1, 1, 2, 2, 3))),
            "orders": [SearchOrder(each, draw.random() < 0.5) for each in draw.sample(FIELDS, draw.randrange(3))],
            "view": draw.choice(("active", "active", "archived", "all")),
            "limit": draw.choice((1, 3, 100)),
            "offset": draw.choice((0, 0, 2)),
        }
        experiments = slice(draw.choice((0, 1)), None)
        wanted = [run.id for run in plain.search_runs(search_of(ids[plain][experiments], fields))]
        count += len(wanted)
        for many in MANY:
            search = search_of(ids[store][experiments], fields)
            with store._database.reading() as session:
                found = [run.id for run in search_runs(session, search, many=many)]

            assert found == wanted, (many, fields)
    assert count > 200  # most searches find something


def search_of(experiment_ids: list[str], fields: dict[str, object]) -> RunSearch:
    return RunSearch("default", experiment_ids, **fields)  # type: ignore[arg-type]  # drawn above, each of its type


def fill(store: RunStore) -> None:
    """Make the same 40 runs in any store."""
    draw = random.Random(5)
    for at in range(40):
        run_id = f"run-{at}"
        word = draw.choice((*WORDS, None, "Adam"))
        labels = {} if word is None else {"key": word, USER_TAG: draw.choice(("me", "she"))}
        started = BEGAN + timedelta(seconds=at // 4, milliseconds=draw.choice((0, 0, 1)))
        has_started = draw.random() < 0.8
        a_run(
            store,
            run_id,
            experiment=draw.choice("efg"),
            tags=labels,
            parameters={"key": word} if word is not None and at % 3 else {},
            display_name=draw.choice(("", "bee", "ant")),
            submitted_by=draw.choice(("me", "you")),
            type=draw.choice((MLFLOW_RUN, "script")),
            status=RunStatus.RUNNING if has_started else RunStatus.QUEUED,
            **({"started_at": started} if has_started else {}),
        )
        journal = Journal(store, run_id)
        for name in ("loss", "acc"):
            if draw.random() < 0.8:
                journal.ship(points(name, [draw.choice(NUMBERS)]))
        if at % 10 == 0:
            dataset = DatasetInput(draw.choice(("iris", "wine")), "d")
            store.update_run(run_id, RunChange(properties_add=dict([dataset_property(dataset)])))
        if at % 13 == 0:
            store.update_run(run_id, RunChange(archived=True))
    store.update_experiment("default", "g", archived=True)
