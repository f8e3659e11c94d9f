"""The statements are not SQLite's alone: each can be written for PostgreSQL, which is to pass the same suite."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from runyard.core.formats.filters import conjuncts, parse_field, parse_filter
from runyard.store.sql.database import Statement, Upsert
from runyard.store.sql.query import filter_condition, narrow_by_filter, span_of_times
from runyard.store.sql.schema import metadata, runs, server_values
from runyard.store.sql.table import numbers_in_order, select_matching, texts_in_order, values

MODULES = ["assets", "deletes", "files", "ingest", "metrics", "rows", "runs", "series", "store", "workspaces"]


def statements(module: ModuleType) -> dict[str, Statement]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Statement)}


@pytest.mark.parametrize("name", MODULES)
def test_every_statement_can_be_written_for_postgresql(name: str) -> None:
    found = statements(importlib.import_module(f"runyard.store.sql.{name}"))

    assert found
    for statement in found.values():
        assert "?" not in statement.text(postgresql.dialect()).sql


FILTER = (
    "name = x and target = gpu and created > 2026-01-01 and status = Completed and type != y and experiment = e "
    "and params.lr < 0.1 and tags.team = z and properties.git and not metrics.loss >= 2"
)


def test_every_comparison_of_a_filter_can_be_written_for_postgresql() -> None:
    wanted = parse_filter(FILTER)
    page = select(runs.c.serial).where(filter_condition(wanted))
    texts = [
        str(one.compile(dialect=postgresql.dialect()))
        for one in (page, *narrow_by_filter(wanted, 1), *span_of_times(wanted, 1))
    ]

    assert len(texts) == 7
    assert not [text for text in texts if "json" in text.lower() or "->" in text]


FIELDS = ("status", "experiment", "name", "number", "user", "metrics.loss", "params.lr")


def test_every_order_of_the_table_can_be_written_for_postgresql() -> None:
    fields = [parse_field(name) for name in FIELDS]
    found = [
        numbers_in_order(parse_field("duration"), 1, now_us=5),
        *(numbers_in_order(field, 1, now_us=5) for field in fields),
        *(texts_in_order(field, 1, product="postgresql") for field in fields),
        *(values(field, 1) for field in fields),
        *(select_matching(one, 1, now_us=5) for one in conjuncts(parse_filter(f"{FILTER} and duration > 2h"))),
    ]
    texts = [str(one.compile(dialect=postgresql.dialect())) for one in found if one is not None]

    assert len([text for text in texts if "ORDER BY" in text]) == 9
    assert len([text for text in texts if 'COLLATE "C"' in text]) == 5


def test_every_table_can_be_made_in_postgresql() -> None:
    made = [str(CreateTable(table).compile(dialect=postgresql.dialect())) for table in metadata.sorted_tables]

    assert any("serial BIGSERIAL" in text for text in made)
    assert all("ROWID" not in text for text in made)


def test_fixed_values_of_a_statement_are_filled_in() -> None:
    statement = Statement(select(server_values.c.value).where(server_values.c.key == "port").limit(5))
    text = statement.text(create_engine("sqlite://").dialect)

    assert text.arguments({}) == ("port", 5, 0)


def test_an_upsert_changes_only_what_it_names() -> None:
    engine = create_engine("sqlite://")
    put = Upsert(server_values, "key", "value", keys=("key",), change=("value",)).text(engine.dialect).sql
    keep = Upsert(server_values, "key", "value", keys=("key",)).text(engine.dialect).sql

    assert put.endswith('ON CONFLICT ("key") DO UPDATE SET value = excluded.value')
    assert keep.endswith('ON CONFLICT ("key") DO NOTHING')
