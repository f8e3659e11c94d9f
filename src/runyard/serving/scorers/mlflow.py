"""Models that MLflow saved: the bodies that its own scoring server takes, answered with `predictions`."""

from __future__ import annotations

import io
import json
import os
from typing import Any, FrozenSet, Hashable, List, Optional

from runyard.serving.protocol import Json
from runyard.serving.scorers.base import INFER, METADATA, NoCodeModel, Question, object_of
from runyard.serving.worker.requests import BadRequest, ScoringRequest
from runyard.serving.worker.script import ScriptFault

_FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs", "input_data", "data")


class MlflowModel(NoCodeModel):
    """A folder with `MLmodel`, loaded as a Python function."""

    platform = "mlflow"
    paths: FrozenSet[str] = frozenset({INFER, METADATA, "/invocations"})

    def __init__(self, folder: str) -> None:
        import mlflow.pyfunc  # of the user's environment

        self._model = mlflow.pyfunc.load_model(_find_model(folder))
        self._columns: Optional[List[str]] = None
        schema = self._model.metadata.get_input_schema()
        if schema is not None and not schema.is_tensor_spec() and schema.has_input_names():
            self._columns = list(schema.input_names())

    def read_score(self, request: ScoringRequest) -> Question:
        if request.content_type().partition(";")[0].strip().lower() == "text/csv":
            return self._question(self._csv(request), {})
        body = object_of(request, *_FORMS)
        form = next(name for name in _FORMS if name in body)
        parameters = body.get("params") or {}
        return self._question(self._rows_of(form, body[form]), parameters)

    def read_tensors(self, inputs: Json) -> Question:
        rows: Any = inputs if len(inputs) > 1 else next(iter(inputs.values()))
        question = self._question(rows, {})
        return question._replace(write=lambda part: part if isinstance(part, dict) else {"predictions": part})

    def predict(self, key: Optional[Hashable], rows: Any) -> Any:
        parameters = json.loads(key[1]) if isinstance(key, tuple) and key[0] == "params" else {}
        return self._model.predict(rows, params=parameters) if parameters else self._model.predict(rows)

    def _rows_of(self, form: str, value: Any) -> Any:
        import numpy  # comes with mlflow
        import pandas  # as numpy

        try:
            if form == "dataframe_split" or (isinstance(value, dict) and {"columns", "data"} <= set(value)):
                return pandas.DataFrame(value["data"], columns=value.get("columns"), index=value.get("index"))
            if form == "dataframe_records":
                return pandas.DataFrame(value)
            if isinstance(value, list) and value and isinstance(value[0], dict):
                return pandas.DataFrame(value)
            if isinstance(value, dict):
                return {name: numpy.asarray(one) for name, one in value.items()}
            rows = numpy.asarray(value)
        except (ValueError, TypeError, KeyError) as error:
            raise BadRequest(f"`{form}` cannot be read: {error!r}.") from None
        if self._columns is not None and rows.ndim == 2 and rows.shape[1] == len(self._columns):
            return pandas.DataFrame(rows, columns=self._columns)
        return rows

    def _csv(self, request: ScoringRequest) -> Any:
        import pandas  # as above

        try:
            return pandas.read_csv(io.StringIO(request.text()))
        except ValueError as error:
            raise BadRequest(f"The body is no CSV: {error}.") from None

    def _question(self, rows: Any, parameters: Json) -> Question:
        is_table = hasattr(rows, "columns")
        if parameters:
            # Computed alone: what parameters mean for other rows is the model's.
            return Question(("params", json.dumps(parameters), object()), rows, _count(rows), _write)
        if is_table:  # a table may be cut anywhere; other values mean what the model takes them for
            key: Hashable = ("table", tuple(rows.columns), tuple(str(one) for one in rows.dtypes))
            return Question(key, rows.reset_index(drop=True), len(rows), _write)
        return Question(None, rows, _count(rows), _write)


def _find_model(folder: str) -> str:
    found = [root for root, _, names in sorted(os.walk(folder)) if "MLmodel" in names]
    if found and (len(found) == 1 or all(one.startswith(found[0]) for one in found)):
        return found[0]
    there = f"several: {', '.join(found[:5])}" if found else "none"
    raise ScriptFault(f"The model folder must hold one model of MLflow (MLmodel); there is {there}.")


def _write(part: Any) -> Json:
    if hasattr(part, "to_dict") and hasattr(part, "columns"):
        return {"predictions": part.to_dict(orient="records")}
    if isinstance(part, dict):
        return {"predictions": {name: _plain(one) for name, one in part.items()}}
    return {"predictions": _plain(part)}


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _count(rows: Any) -> int:
    return len(next(iter(rows.values()))) if isinstance(rows, dict) else len(rows)
