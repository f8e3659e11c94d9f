"""The search of logged models. What a filter says of a metric must hold for one of its points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runyard.core.errors import NotAllowed
from runyard.core.records import LOGGED_MODEL
from runyard.server.access.permissions import RunPrincipal
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import DEFAULT_ID, DEFAULT_NAME, milliseconds
from runyard.server.mlflow.errors import MlflowError
from runyard.server.mlflow.experiments import find_by_name
from runyard.server.mlflow.filters import ATTRIBUTE, LOGGED_MODELS, METRIC, PARAM, Clause, fits, parse_clauses
from runyard.server.mlflow.requests import Fields, missing
from runyard.server.mlflow.search import max_results, offset_of, page_of
from runyard.server.registry.logged_records import (
    STATUSES,
    LoggedModel,
    ModelMetric,
    logged_json,
    model_of,
)

DEFAULT_MODELS = 100
MOST_ORDERS = 30
_CREATED, _UPDATED = ("creation_timestamp", "creation_time"), ("last_updated_timestamp", "last_updated_time")
_STATUS_WORDS = {status: word for word, status in STATUSES.items()}
_ATTRIBUTES: dict[str, Callable[[LoggedModel], str | int | None]] = {
    "name": lambda model: model.name,
    "model_id": lambda model: model.id,
    "model_type": lambda model: model.document.model_type,
    "status": lambda model: _STATUS_WORDS.get(model.document.status),
    "source_run_id": lambda model: model.source_run_id,
    "experiment_id": lambda model: model.document.experiment_id,
    **dict.fromkeys(_CREATED, lambda model: milliseconds(model.created_at)),
    **dict.fromkeys(_UPDATED, lambda model: milliseconds(model.updated_at)),
}


@dataclass(frozen=True)
class MeasuredDataset:
    """The dataset that a metric was measured on; an empty digest is any."""

    name: str
    digest: str = ""

    def has(self, metric: ModelMetric) -> bool:
        """Whether the metric was measured on it."""
        return metric.dataset_name == self.name and self.digest in ("", metric.dataset_digest)


@dataclass(frozen=True)
class _Order:
    field: str
    ascending: bool
    dataset: MeasuredDataset | None

    @property
    def metric(self) -> str:
        return self.field.partition(".")[2]

    def value(self, model: LoggedModel) -> str | int | float | None:
        if not self.metric:
            return _ATTRIBUTES[self.field](model)
        points = [
            point
            for point in model.document.metrics
            if point.key == self.metric and (self.dataset is None or self.dataset.has(point))
        ]
        points.sort(key=lambda point: point.run_id)
        latest = max(points, key=lambda point: (point.timestamp, point.step), default=None)
        return None if latest is None or latest.number != latest.number else latest.number


@endpoint("POST", "mlflow/logged-models/search", "read_workspace", "read_run", "put_workspace")
def search_logged_models(call: Call) -> Document:
    """Return a page of the logged models of some experiments."""
    call.require("read_workspace")
    fields = call.fields
    experiments = set(fields.texts("experiment_ids"))
    if not experiments:
        raise missing("experiment_ids")
    limit = max_results(fields, DEFAULT_MODELS)
    datasets = [
        MeasuredDataset(one.text("dataset_name", ""), one.text("dataset_digest", ""))
        for one in fields.items("datasets")
    ]
    if any(not dataset.name for dataset in datasets):
        raise MlflowError("`dataset_name` in the `datasets` clause must be specified.")
    clauses = parse_clauses(fields.text("filter", ""), LOGGED_MODELS)
    orders = _orders(fields)
    offset = offset_of(fields.text("page_token", ""))
    default = find_by_name(call, DEFAULT_NAME)
    experiments |= {DEFAULT_ID} if default is not None and default.id in experiments else set()
    found = [
        model
        for model in _models(call, experiments)
        if all(_fits(clause, model, datasets) for clause in clauses) and _is_measured(model, datasets, clauses)
    ]
    found = [model for model in _sorted(found, orders) if _is_readable(call, model)]
    rows = found[offset : offset + limit + 1]
    return page_of("models", [logged_json(model) for model in rows[:limit]], len(rows), offset, limit)


def _models(call: Call, experiments: set[str]) -> list[LoggedModel]:
    models = [model_of(asset) for asset in call.store.list_assets(call.workspace, LOGGED_MODEL)]
    return [model for model in models if not model.document.deleted and model.document.experiment_id in experiments]


def _is_readable(call: Call, model: LoggedModel) -> bool:
    """Whether the principal may read it: others' runs are open to users, but not to a run's token."""
    if not model.folder or not isinstance(call.context.principal, RunPrincipal):
        return True
    try:
        call.require("read_run", model.source_run_id)
    except NotAllowed:
        return False
    return True


def _fits(clause: Clause, model: LoggedModel, datasets: Sequence[MeasuredDataset]) -> bool:
    document = model.document
    if clause.kind == METRIC:
        return any(
            fits(clause, point.number)
            for point in document.metrics
            if point.key == clause.key and _is_on(point, datasets)
        )
    if clause.kind == ATTRIBUTE:
        return fits(clause, _ATTRIBUTES[clause.key](model))
    return fits(clause, (document.params if clause.kind == PARAM else document.tags).get(clause.key))


def _is_measured(model: LoggedModel, datasets: Sequence[MeasuredDataset], clauses: Sequence[Clause]) -> bool:
    """Whether a model has a metric on one of the datasets, where no clause asks for metrics."""
    if not datasets or any(clause.kind == METRIC for clause in clauses):
        return True
    return any(_is_on(point, datasets) for point in model.document.metrics)


def _is_on(point: ModelMetric, datasets: Sequence[MeasuredDataset]) -> bool:
    return not datasets or any(dataset.has(point) for dataset in datasets)


def _orders(fields: Fields) -> list[_Order]:
    clauses = fields.items("order_by")
    if len(clauses) > MOST_ORDERS:
        raise MlflowError(f"`order_by` has {len(clauses)} fields; {MOST_ORDERS} is the most.")
    return [_order(clause) for clause in clauses]


def _order(clause: Fields) -> _Order:
    name = clause.text("field_name", "").strip()
    if not name:
        raise MlflowError("`field_name` in the `order_by` clause must be specified.")
    entity, dot, _ = name.partition(".")
    if dot and entity != "metrics":
        raise MlflowError(f"Invalid order by field name: {name[:300]}. Only metrics are supported.")
    if not dot and name not in _ATTRIBUTES:
        raise MlflowError(f"Invalid order by field name: {name[:300]}")
    dataset, digest = clause.text("dataset_name", ""), clause.text("dataset_digest", "")
    if digest and not dataset:
        raise MlflowError("`dataset_digest` can only be specified if `dataset_name` is also specified.")
    ascending = clause.value("ascending")
    return _Order(name, ascending is None or ascending is True, MeasuredDataset(dataset, digest) if dataset else None)


def _sorted(models: list[LoggedModel], orders: Sequence[_Order]) -> list[LoggedModel]:
    models.sort(key=lambda model: model.id)
    if not any(order.field in _CREATED for order in orders):
        models.sort(key=lambda model: milliseconds(model.created_at), reverse=True)
    for order in reversed(orders):
        values = {model.id: order.value(model) for model in models}
        having = [model for model in models if values[model.id] is not None]
        having.sort(key=lambda model: values[model.id], reverse=not order.ascending)  # type: ignore[arg-type, return-value]  # of one kind
        models = having + [model for model in models if values[model.id] is None]
    return models
