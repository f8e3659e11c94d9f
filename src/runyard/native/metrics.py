"""`run.metrics`: the metrics of a run as a mapping of last values, as points, and as a pandas DataFrame."""

from __future__ import annotations

import importlib
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from runyard.core.errors import InvalidArgument, MissingExtra, NotFound
from runyard.native.border import with_plain_errors
from runyard.sdk.runs.metrics import widen

if TYPE_CHECKING:
    import pandas

    from runyard.core.records import MetricInfo
    from runyard.sdk.runs.run import Run

Rank = Optional[int]


class NoSuchMetric(NotFound, KeyError):
    """Raised for a metric that the run did not log; also a KeyError."""

    __str__ = NotFound.__str__  # KeyError's would show the repr of one line


class MetricPoint(NamedTuple):
    """One value of a metric."""

    step: int
    value: Any
    time: datetime


@with_plain_errors
class Metrics(Mapping[str, Any]):
    """The metrics of a run. `metrics["loss"]` is the last value; every access asks the server for what is new.

    A table is a dict of columns, each a list. An image, or a chart that is kept as a file, is the file's name.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getitem__(self, name: str) -> Any:
        return self._last(self._info(name))

    def __iter__(self) -> Iterator[str]:
        return iter([info.name for info in self._infos()])

    def __len__(self) -> int:
        return len(self._infos())

    def __contains__(self, name: object) -> bool:
        return any(info.name == name for info in self._infos())

    def to_dict(self) -> Dict[str, Any]:
        """Return {name: last value} of all metrics."""
        return {info.name: self._last(info) for info in self._infos()}

    def history(self, name: str, *, rank: Rank = None) -> List[Any]:
        """Return all values of a metric, oldest first.

        Args:
            rank: of a run of several processes, only what this one logged.

        Raises:
            NotFound: the run has not logged it. It is a KeyError as well.
        """
        return [point.value for point in self.points(name, rank=rank)]

    def points(self, name: str, *, rank: Rank = None) -> List[MetricPoint]:
        """Return all points of a metric: step, value and time, oldest first. A metric without steps counts from 0.

        Raises:
            NotFound: the run has not logged it. It is a KeyError as well.
            InvalidArgument: it is a table.
        """
        info = self._info(name)
        if info.kind == "table":
            raise InvalidArgument(
                f"The metric `{name}` is a table, which has rows and no points.",
                hint=f"metrics[{name!r}] is a dict of its columns, metrics.to_pandas({name!r}) a DataFrame.",
            )
        return self._points(name, rank)

    def to_pandas(self, *names: str, rank: Rank = None) -> pandas.DataFrame:
        """Return metrics as a DataFrame: the index is the step, and each metric has a column.

        A step that has several values of one metric (of several processes, say) has as many rows. The name of one
        table gives that table.

        Args:
            names: the metrics; none: all that have points.

        Raises:
            MissingExtra: pandas is not installed.
        """
        pandas = _pandas()
        infos = (
            [self._info(name) for name in names] if names else [one for one in self._infos() if one.kind == "scalar"]
        )
        tables = [info.name for info in infos if info.kind == "table"]
        if tables and len(infos) > 1:
            raise InvalidArgument(f"`{tables[0]}` is a table.", hint=f"Ask for it alone: to_pandas({tables[0]!r}).")
        if tables:
            return pandas.DataFrame(self._table(tables[0]))
        cells: Dict[Any, Dict[str, object]] = {}
        for info in infos:
            seen: Dict[int, int] = {}
            for point in self._points(info.name, rank):
                nth = seen[point.step] = seen.get(point.step, -1) + 1
                cells.setdefault((point.step, nth), {})[info.name] = point.value
        order = sorted(cells)
        columns = {info.name: [cells[key].get(info.name) for key in order] for info in infos}
        return pandas.DataFrame(columns, index=pandas.Index([step for step, _ in order], name="step", dtype="int64"))

    def __repr__(self) -> str:
        return f"Metrics({self.to_dict()!r})"

    def _infos(self) -> List[MetricInfo]:
        self._run._flush_family()
        return self._run._client.runs.metrics(self._run.id)

    def _info(self, name: str) -> MetricInfo:
        infos = self._infos()
        found = next((info for info in infos if info.name == name), None)
        if found is not None:
            return found
        known = ", ".join(f"`{info.name}`" for info in infos[:20]) or "none"
        raise NoSuchMetric(
            f"Run `{self._run.id}` has no metric `{name}`.", why=f"Its metrics: {known}.", hint=_if_failed(self._run)
        )

    def _last(self, info: MetricInfo) -> Any:
        if info.kind == "table":
            return self._table(info.name)
        if info.kind == "artifact":
            return info.artifact
        return info.last

    def _table(self, name: str) -> Dict[str, List[Any]]:
        columns: Dict[str, List[Any]] = {}
        for series in self._run._client.runs.metric_values(self._run.id, name):
            columns[series.column] = widen(series.to_list())
        return columns

    def _points(self, name: str, rank: Rank) -> List[MetricPoint]:
        series = self._run._client.runs.metric_series(self._run.id, name, rank=rank)
        return [
            MetricPoint(int(step), value, datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc))
            for step, value, nanoseconds in zip(series.steps, series.values, series.times)
        ]


def _if_failed(run: Run) -> str:
    status = run.get_status()
    return (
        "" if status == "Completed" else f"The run is {status}. run.wait() waits for its end, run.logs() shows its log."
    )


def _pandas() -> Any:
    """Import pandas, which only DataFrames need."""
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise MissingExtra(
            "pandas is not installed here.", why="DataFrames are pandas' own.", hint="pip install pandas"
        ) from error
