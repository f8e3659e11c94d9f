"""The metrics of all runs of the store in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runyard.core.records import Mark, MetricInfo, Run, RunChange
from runyard.store.base import (
    STEP,
    Chart,
    History,
    MetricSeries,
    MetricSummary,
    Points,
    SegmentPart,
    SegmentState,
    Series,
)
from runyard.store.memory.tables import MemoryPart
from runyard.store.metrics.charts import Window, chart_of_series
from runyard.store.metrics.history import history_of
from runyard.store.rules import apply_change, apply_parts


class MemoryMetricSeries(MemoryPart, MetricSeries):
    """A StoredMetrics for each run."""

    def ingest(
        self, run_id: str, attempt: int, parts: Sequence[SegmentPart], *, external_writer: int = 0
    ) -> list[Mark]:
        with self._tables.lock:
            run = self._tables.get_run(run_id)
            marks, accepted, warnings = self._tables.metrics[run_id].ingest((external_writer, attempt), parts)
            self._tables.runs[run_id] = apply_parts(run, accepted, warnings)
            return marks

    def log(
        self,
        run_id: str,
        points: Sequence[Points],
        change: RunChange,
        *,
        check: Callable[[Run, bool], None] = lambda run, is_archived: None,
    ) -> Run:
        with self._tables.lock:
            run = self._tables.get_run(run_id)
            experiment = self._tables.hidden.find_experiment((run.workspace, run.experiment))
            check(run, experiment is not None and experiment.archived_at is not None)
            changed = apply_change(run, change, now=self._tables.clock())
            if points:
                self._tables.metrics[run_id].log(points)
            self._tables.runs[run_id] = changed
            return changed

    def list_marks(self, run_id: str, attempt: int, *, external_writer: int = 0) -> list[Mark]:
        with self._tables.lock:
            self._tables.get_run(run_id)
            marks = self._tables.metrics[run_id].marks.get((external_writer, attempt), {})
            return [Mark(writer, segment, offset) for (writer, segment), offset in sorted(marks.items())]

    def find_segment(
        self, run_id: str, attempt: int, writer: str, segment: int, *, external_writer: int = 0
    ) -> SegmentState | None:
        with self._tables.lock:
            self._tables.get_run(run_id)
            return self._tables.metrics[run_id].segments.get((external_writer, attempt, writer, segment))

    def list_metrics(self, run_id: str, *, name: str | None = None) -> list[MetricInfo]:
        with self._tables.lock:
            self._tables.get_run(run_id)
            return self._tables.metrics[run_id].list_metrics(name)

    def summarize_metrics(
        self, run_ids: Sequence[str], *, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, MetricSummary]]:
        with self._tables.lock:
            known = [run_id for run_id in run_ids if self._tables.find_run(run_id)]
            by_run = {run_id: self._tables.metrics[run_id].summarize(names) for run_id in known}
        return {run_id: summaries for run_id, summaries in by_run.items() if summaries}

    def read_series(self, run_id: str, metric: str, *, column: str = "", rank: int | None = None) -> Series:
        with self._tables.lock:
            self._tables.get_run(run_id)
            return self._tables.metrics[run_id].read_series(metric, column, rank)

    def read_history(self, run_id: str, metric: str, *, offset: int = 0, limit: int | None = None) -> History:
        end = None if limit is None else offset + limit
        return history_of(self.read_series(run_id, metric)).chosen(slice(offset, end))

    def chart(
        self,
        run_id: str,
        metric: str,
        *,
        column: str = "",
        rank: int | None = None,
        width: int = 1000,
        x: str = STEP,
        first: int | None = None,
        last: int | None = None,
    ) -> Chart:
        with self._tables.lock:
            self._tables.get_run(run_id)
            series = self._tables.metrics[run_id].read_series(metric, column, rank, fill_gaps=False)
        return chart_of_series(series, Window(x, first, last), width=width)
