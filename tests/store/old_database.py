"""A database as the program of revision 0008 left it, and what it must hold after the upgrade.

`made_by_0008.json` has its rows, bytes as hexadecimal text. That program wrote them: the journals of attempt 1 of run
`r` (one of them without a HEADER), and those of two external writers, which were attempts from 2**20 on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from runyard.core.records import Mark
from runyard.core.users import RunAccess
from runyard.store import migrations
from runyard.store.base import RunStore, SegmentState
from runyard.testing.runs import Journal, points

FIRST, SECOND = 608430397, 1051092227  # the external writers' numbers


def make_database_of_0008(connection: sa.Connection) -> None:
    """Make the tables of revision 0008 and fill them."""
    migrations.upgrade(connection, "0008")
    tables = json.loads(Path(__file__).with_name("made_by_0008.json").read_text())
    for name, rows in tables.items():
        table = sa.Table(name, sa.MetaData(), autoload_with=connection)
        for row in rows:
            connection.execute(sa.insert(table).values({key: _value(value) for key, value in row.items()}))
        if connection.dialect.name == "postgresql" and name in ("run_metrics", "series"):  # ids were given by hand
            connection.execute(sa.text(f"SELECT setval('{name}_id_seq', {max(row['id'] for row in rows)})"))


def _value(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def check_external_writers(store: RunStore) -> None:
    """Check tokens, marks, names, origins and points, and that a journal goes on where it was."""
    assert store.find_token("own") == RunAccess("r", 1, "default")
    assert store.find_token("guest") == RunAccess("r", 0, "default", external_writer=FIRST)
    assert store.find_token("other") == RunAccess("r", 0, "default", external_writer=SECOND)

    first = store.find_segment("r", 0, "r0-11-cccccccc", 0, external_writer=FIRST)
    second = store.find_segment("r", 0, "r0-11-dddddddd", 0, external_writer=SECOND)
    assert first is not None and second is not None
    assert first == SegmentState(first.mark, {1: "late"}, 0, "worker", 4_000)
    assert second == SegmentState(second.mark, {1: "late"}, 0, "worker", 8_000)
    with_header, without = (store.find_segment("r", 1, mark.writer, 0) for mark in store.list_marks("r", 1))
    assert with_header is not None and without is not None
    assert with_header == SegmentState(with_header.mark, {1: "loss"}, 2, "ps", 4_000)
    assert without == SegmentState(without.mark, {7: "acc"}, 3, "worker", 0)

    assert store.read_series("r", "loss").values.tolist() == [1.0, 2.0]
    assert store.read_series("r", "late").values.tolist() == [5.0, 6.0, 4.0]
    goes_on = Journal(store, "r", attempt=0, external_writer=FIRST, writer="r0-11-cccccccc", wall_offset_ns=4_000)
    goes_on.offset = first.mark
    goes_on.ship(points("late", [7.0], times=[60]))
    Journal(store, "r", attempt=2).ship(points("late", [3.0], times=[70]))
    assert store.list_marks("r", 0, external_writer=FIRST) == [Mark("r0-11-cccccccc", 0, first.mark + 32)]
    assert store.read_series("r", "late").values.tolist() == [3.0, 5.0, 6.0, 7.0, 4.0]
    assert store.summarize_metrics(["r"])["r"]["late"].last == 4.0
