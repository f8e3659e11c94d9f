"""Columns that `runyard runs list --columns` adds: the last value of a metric, a parameter, a tag, a property."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from runyard.cli.output import number
from runyard.cli.progress import Progress
from runyard.core.formats.filters import KEYED_FIELDS
from runyard.core.records import Run
from runyard.sdk.workspaces.server import Client

LABELS = {"params": "parameters", "tags": "tags", "properties": "properties"}  # field → field of Run


@dataclass(frozen=True)
class Column:
    field: str  # of core.filters.KEYED_FIELDS
    key: str

    @property
    def title(self) -> str:
        return f"{self.field}.{self.key}"


def read_columns(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[Column]:
    """Return the columns of `--columns metrics.loss,params.lr`, which may be repeated."""
    found = []
    for text in (part.strip() for value in values for part in value.split(",")):
        field, _, key = text.partition(".")
        if field not in KEYED_FIELDS or not key:
            known = ", ".join(f"{name}.<name>" for name in KEYED_FIELDS)
            raise click.BadParameter(f"{text!r} is no column. There are: {known}.", ctx, param)
        found.append(Column(field, key))
    return list(dict.fromkeys(found))


def read_cells(client: Client, runs: Sequence[Run], columns: Sequence[Column]) -> list[list[object]]:
    """Return the values for each run, None where it has none."""
    names = {column.key for column in columns if column.field == "metrics"}
    progress = Progress("read the metrics of", len(runs))
    rows = []
    for at, run in enumerate(runs):
        progress.step(at)
        readable = names and run.undo_until is None  # of a deleted run only the record is left to read
        metrics = {info.name: info.last for info in client.runs.metrics(run.id)} if readable else {}
        rows.append([_value(run, column, metrics) for column in columns])
    return rows


def shown(cell: object) -> str:
    return "" if cell is None else number(cell)


def _value(run: Run, column: Column, metrics: dict[str, object]) -> object:
    if column.field == "metrics":
        return metrics.get(column.key)
    labels = getattr(run, LABELS[column.field])
    return (labels[column.key] or "") if column.key in labels else None
