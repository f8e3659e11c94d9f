"""Metrics of logged models: the points of a run that name a model, kept with the model too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from runyard.core.records import Run
from runyard.server.mlflow.endpoints import Call
from runyard.server.mlflow.entities import number_json
from runyard.server.mlflow.requests import Fields
from runyard.server.registry.logged_records import LoggedDocument, ModelMetric, get_logged, note_logged

_Edit = Callable[[LoggedDocument], LoggedDocument]
MOST_METRICS = 1000  # points that one model keeps; the run has all


def models_of(call: Call, metrics: Sequence[Fields]) -> list[str]:
    """Return the ids of the models that points name.

    Raises:
        MlflowError: there is no such model.
    """
    ids = list(dict.fromkeys(point.text("model_id", "") for point in metrics))
    return [get_logged(call, model_id).id for model_id in ids if model_id]


def log_to_models(call: Call, run: Run, metrics: Sequence[Fields], model_ids: Sequence[str]) -> None:
    """Keep a request's points with the models that they name, once the run has them."""
    for model_id in model_ids:
        points = [_point(run, point) for point in metrics if point.text("model_id", "") == model_id]
        note_logged(call, get_logged(call, model_id), _adds(points), stamp=False)


def _adds(points: Sequence[ModelMetric]) -> _Edit:
    return lambda document: replace(document, metrics=_joined(document.metrics, points))


def _joined(old: Sequence[ModelMetric], new: Sequence[ModelMetric]) -> list[ModelMetric]:
    """Return the points, each once; of too many only the latest of each metric."""
    points = list(dict.fromkeys([*old, *new]))
    if len(points) <= MOST_METRICS:
        return points
    latest: dict[tuple[str, ...], ModelMetric] = {}
    for point in points:
        place = point.key, point.run_id, point.dataset_name, point.dataset_digest
        if place not in latest or (point.timestamp, point.step) >= (latest[place].timestamp, latest[place].step):
            latest[place] = point
    return list(latest.values())


def _point(run: Run, fields: Fields) -> ModelMetric:
    return ModelMetric(
        fields.text("key"),
        number_json(fields.number("value")),
        fields.integer("timestamp"),
        fields.integer("step", 0),
        run.id,
        fields.text("dataset_name", ""),
        fields.text("dataset_digest", ""),
    )
