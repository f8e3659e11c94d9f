"""The metrics of one run in memory: whole series, nothing packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.documents import RunWarning
from runyard.core.names import is_system_metric
from runyard.core.records import Mark, MetricInfo
from runyard.store.base import ALL_RANKS, ImportedPart, MetricSummary, Points, SegmentPart, SegmentState, Series
from runyard.store.metrics.arrivals import ARTIFACT, ROWS, SCALAR, TABLE, Arrivals, SeriesKey, accept, to_marks
from runyard.store.metrics.chunks import concatenate
from runyard.store.metrics.http import HTTP_WRITER, check_fits, http_part, without_known
from runyard.store.metrics.imported import SOURCE as IMPORT_SOURCE
from runyard.store.metrics.imported import ImportedPoints
from runyard.store.metrics.merge import Piece, Summary, combine, fill, merge, summarize
from runyard.store.text import clean

Source = tuple[int, int]  # external writer, attempt


@dataclass
class StoredMetrics:
    """The metrics of one run; the caller holds the store's lock."""

    run_id: str
    kinds: dict[str, str] = field(default_factory=dict)
    summaries: dict[tuple[str, str], Summary | None] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    file_counts: dict[str, int] = field(default_factory=dict)
    pieces: dict[tuple[Source, SeriesKey], Piece] = field(default_factory=dict)
    marks: dict[Source, dict[tuple[str, int], int]] = field(default_factory=dict)
    segments: dict[tuple[int, int, str, int], SegmentState] = field(default_factory=dict)
    quarantine: list[Mapping[str, Any]] = field(default_factory=list)

    def ingest(
        self, source: Source, parts: Sequence[SegmentPart]
    ) -> tuple[list[Mark], list[SegmentPart], list[RunWarning]]:
        """Apply parts; return the marks of their segments, the parts that were new, and warnings for the run."""
        marks = self.marks.setdefault(source, {})
        accepted = list(accept(parts, marks))
        arrivals = Arrivals(self.kinds.get, lambda key: self._count(source, key))
        for part in accepted:
            arrivals.add(part)
            place = (*source, part.writer, part.segment)
            old = self.segments.get(place)
            names = {**({} if old is None else old.names), **{key: clean(name) for key, name in part.names.items()}}
            self.segments[place] = SegmentState(part.end, names, part.rank, part.role, part.wall_offset_ns)
            self.quarantine += part.quarantine
        self._store(source, arrivals)
        named = {(part.writer, part.segment) for part in parts}
        moved = to_marks({place: mark for place, mark in marks.items() if place in named})
        return moved, accepted, arrivals.warnings

    def log(self, points: Sequence[Points]) -> None:
        """Add points of a client without a journal, each once."""
        arrivals = Arrivals(self.kinds.get, lambda key: self._count((HTTP_WRITER, 0), key))
        arrivals.add(http_part(points))
        check_fits(self.run_id, arrivals)
        self._store((HTTP_WRITER, 0), arrivals, once=True)

    def add_imported(self, parts: Sequence[ImportedPart]) -> tuple[int, list[str]]:
        """Add the points that an imported run lacks; return how many they were, and notes."""
        arrivals = Arrivals(self.kinds.get, lambda key: self._count(IMPORT_SOURCE, key))
        imported = ImportedPoints(
            arrivals,
            lambda key: self._count(IMPORT_SOURCE, key),
            lambda key: self.pieces[IMPORT_SOURCE, key].columns,
            lambda metric: self.file_counts.get(metric, 0),
        )
        imported.add(parts)
        self._store(IMPORT_SOURCE, arrivals)
        return imported.added, imported.notes

    def list_metrics(self, name: str | None) -> list[MetricInfo]:
        """Describe the metrics in the order of first logging, or the one of that name."""
        cleaned = None if name is None else clean(name)
        return [self._info(metric, kind) for metric, kind in self.kinds.items() if cleaned in (None, metric)]

    def summarize(self, names: Sequence[str] | None) -> dict[str, MetricSummary]:
        """Return scalar metrics in four values each; without names all but the machine's own."""
        cleaned = None if names is None else {clean(name) for name in names}
        return {
            name: MetricSummary(
                summary.last_value,
                summary.minimum,
                summary.maximum,
                summary.count,
                summary.latest,
                summary.latest_step,
                summary.latest_ms,
            )
            for (name, column), summary in self.summaries.items()
            if summary is not None and column == "" and self.kinds[name] == SCALAR
            if (not is_system_metric(name) if cleaned is None else name in cleaned)
        }

    def read_series(self, metric: str, column: str, rank: int | None, *, fill_gaps: bool = True) -> Series:
        """Return a series; `fill_gaps` puts None where a row of a table has no such cell."""
        name, kind = clean(metric), self.kinds.get(clean(metric))
        if kind is None:
            raise NotFound(f"Run `{self.run_id}` has no metric `{metric}`.")
        if kind == ARTIFACT:
            raise InvalidArgument(f"Metric `{metric}` of run `{self.run_id}` is a file, not a series.")
        if (name, clean(column)) not in self.summaries:
            raise NotFound(f"Metric `{metric}` of run `{self.run_id}` has no column {column!r}.")
        is_column = kind == TABLE and column != ROWS and fill_gaps
        keyed = self._pieces(name, ROWS if is_column else clean(column), rank)
        pieces = [piece for _, piece in keyed]
        if is_column:
            pieces = [
                fill(self.pieces.get((at, replace(key, column=clean(column)))), piece) for (at, key), piece in keyed
            ]
        ranks = {(key.server, key.rank): key.rank for (_, key), _ in keyed}
        return merge(pieces, metric=metric, column=column, rank=ALL_RANKS if len(ranks) > 1 else keyed[0][0][1].rank)

    def _store(self, source: Source, arrivals: Arrivals, *, once: bool = False) -> None:
        for name, column in arrivals.columns:
            self.kinds.setdefault(name, arrivals.kinds[name])
            self.summaries.setdefault((name, column), None)
        for key, arrival in arrivals.series.items():
            old = self.pieces.get((source, key))
            columns = arrival.columns(self._count(source, key))
            if once:
                columns = without_known(columns, [] if old is None else [old.columns])
                if not len(columns):
                    continue
            grown = columns if old is None else concatenate([old.columns, columns])
            numbered = arrival.numbered and (old is None or old.numbered)
            offset = arrival.wall_offset_ns if old is None else old.wall_offset_ns
            self.pieces[source, key] = Piece(*source, key.writer, key.segment, offset, numbered, grown)
            new = summarize(
                columns,
                server=key.server,
                rank=key.rank,
                source=source,
                wall_offset_ns=offset,
                numbered=arrival.numbered,
            )
            if self.kinds[key.metric] == TABLE and key.column == ROWS:
                new = new.without_numbers()
            self.summaries[key.metric, key.column] = combine(self.summaries[key.metric, key.column], new)
        for item in arrivals.files:
            self.files[clean(item.metric)] = clean(item.file)
            self.file_counts[clean(item.metric)] = self.file_counts.get(clean(item.metric), 0) + 1

    def _count(self, source: Source, key: SeriesKey) -> int:
        found = self.pieces.get((source, key))
        return 0 if found is None else len(found.columns)

    def _pieces(self, metric: str, column: str, rank: int | None) -> list[tuple[tuple[Source, SeriesKey], Piece]]:
        pieces = [
            (place, piece)
            for place, piece in self.pieces.items()
            if (place[1].metric, place[1].column) == (metric, column) and rank in (None, ALL_RANKS, place[1].rank)
        ]
        if not pieces:
            raise NotFound(f"Rank {rank} logged nothing under `{metric}`.")
        if rank == ALL_RANKS:
            return pieces
        lowest = min((place[1].server, place[1].rank) for place, _ in pieces)
        return [(place, piece) for place, piece in pieces if (place[1].server, place[1].rank) == lowest]

    def _info(self, metric: str, kind: str) -> MetricInfo:
        summary = self.summaries.get((metric, ""))
        ranks = {(place[1].server, place[1].rank): None for place in self.pieces if place[1].metric == metric}
        columns = [column for name, column in self.summaries if name == metric and (kind != TABLE or column != ROWS)]
        return MetricInfo(
            name=metric,
            kind=kind,
            columns=columns,
            ranks=[rank for _, rank in sorted(ranks)],
            count=self.file_counts.get(metric, 0) if summary is None else summary.count,
            last=None if summary is None else summary.last_value,
            minimum=None if summary is None else summary.minimum,
            maximum=None if summary is None else summary.maximum,
            artifact=self.files.get(metric),
        )
