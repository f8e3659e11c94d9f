"""`TabularDataset.get_profile()`: what the columns of a table hold, counted over all rows in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Iterable

from runyard.data.columns import kind_of, load_pyarrow


@dataclass
class ColumnProfile:
    name: str
    type: str
    min: Any = None
    max: Any = None
    count: int = 0
    missing_count: int = 0
    mean: Any = None
    std: Any = None
    _sum: float = field(default=0.0, repr=False)
    _squares: float = field(default=0.0, repr=False)

    @property
    def not_missing_count(self) -> int:
        return self.count - self.missing_count

    @property
    def percent_missing(self) -> float:
        return self.missing_count / self.count if self.count else 0.0

    def add(self, column: Any) -> None:
        compute = load_pyarrow("compute")
        self.count += len(column)
        self.missing_count += column.null_count
        if column.null_count == len(column):
            return
        if self.type in ("long", "float"):
            values = column.cast("float64")
            self._sum += compute.sum(values).as_py()
            self._squares += compute.sum(compute.multiply(values, values)).as_py()
        span = compute.min_max(column).as_py()
        self.min = span["min"] if self.min is None else min(self.min, span["min"])
        self.max = span["max"] if self.max is None else max(self.max, span["max"])

    def close(self) -> None:
        n = self.not_missing_count
        if self.type in ("long", "float") and n:
            self.mean = self._sum / n
            self.std = (max(0.0, self._squares - self._sum * self.mean) / (n - 1)) ** 0.5 if n > 1 else None


@dataclass
class DataProfile:
    columns: Dict[str, ColumnProfile]
    row_count: int = 0


def profile_of(batches: Iterable[Any]) -> DataProfile:
    found = DataProfile({})
    for batch in batches:
        found.row_count += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns):
            known = found.columns.setdefault(name, ColumnProfile(name, kind_of(column.type)))
            known.add(column)
    for known in found.columns.values():
        known.close()
    return found
