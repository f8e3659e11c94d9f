"""Models of scikit-learn: `{"data": rows, "method": "predict"}` gives a list."""

from __future__ import annotations

import os
from typing import Any, Hashable, List, Optional, Tuple

from runyard.serving.protocol import Json
from runyard.serving.scorers.base import NoCodeModel, Question, object_of
from runyard.serving.scorers.tensors import TensorSpec
from runyard.serving.worker.requests import BadRequest, ScoringRequest
from runyard.serving.worker.script import ScriptFault

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score_samples")
_ENDINGS = (".joblib", ".pkl", ".pickle")


class SklearnModel(NoCodeModel):
    """An estimator or a pipeline that was saved with joblib or pickle."""

    platform = "sklearn"

    def __init__(self, folder: str) -> None:
        import joblib  # comes with scikit-learn

        self._model = joblib.load(find_file(folder, _ENDINGS, "a scikit-learn model"))
        self._width: Optional[int] = getattr(self._model, "n_features_in_", None)
        names = getattr(self._model, "feature_names_in_", None)
        self._names: Optional[List[str]] = list(names) if names is not None else None

    def read_score(self, request: ScoringRequest) -> Question:
        body = object_of(request, "data", "Inputs", "input_data")
        data = next(body[key] for key in ("data", "input_data", "Inputs") if key in body)
        if isinstance(data, dict) and "data" in data and set(data) <= {"data", "columns", "index"}:
            return self._question(self._frame_of(data["data"], data.get("columns")), body)
        return self._question(self._rows_of(data), body)

    def read_tensors(self, inputs: Json) -> Question:
        import numpy  # comes with scikit-learn

        arrays = list(inputs.values())
        if len(arrays) == 1 and arrays[0].ndim == 2:
            rows = self._named(arrays[0])
        elif self._names is not None and set(inputs) == set(self._names):
            rows = self._frame_of({name: inputs[name].reshape(-1).tolist() for name in self._names}, None)
        else:
            rows = self._named(numpy.column_stack([array.reshape(len(array), -1) for array in arrays]))
        question = self._question(rows, {})
        return question._replace(write=lambda part: {"predict": part})

    def predict(self, key: Optional[Hashable], rows: Any) -> Any:
        assert isinstance(key, tuple)
        return getattr(self._model, key[0])(rows)

    def inputs(self) -> List[TensorSpec]:
        return [TensorSpec("input", "FP64", (-1, self._width or -1))]

    def outputs(self) -> List[TensorSpec]:
        return [TensorSpec("predict", "FP64", (-1,))]

    def sample(self) -> Optional[Question]:
        import numpy  # as above

        if self._width is None or not hasattr(self._model, "predict"):
            return None
        return self._question(self._named(numpy.zeros((1, self._width))), {})

    def schemas(self) -> Tuple[Json, Json]:
        row = {"type": "array", "items": {}}
        known = [name for name in METHODS if hasattr(self._model, name)]
        method = {"type": "string", "enum": known}
        example = {"data": [[0.0] * (self._width or 1)], "method": known[0] if known else "predict"}
        properties = {"data": {"type": "array", "items": row}, "method": method}
        taken = {"type": "object", "required": ["data"], "properties": properties, "example": example}
        return taken, {"type": "array", "items": {}}

    def _question(self, rows: Any, body: Json) -> Question:
        method = body.get("method") or ("predict" if hasattr(self._model, "predict") else "transform")
        if method not in METHODS or not hasattr(self._model, method):
            known = ", ".join(name for name in METHODS if hasattr(self._model, name))
            raise BadRequest(f"The model has no method {method!r}; it has: {known}.")
        shape = tuple(rows.columns) if hasattr(rows, "columns") else rows.shape[1:]
        kind = "frame" if hasattr(rows, "columns") else rows.dtype.kind
        return Question((method, kind, shape), rows, len(rows), _to_lists)

    def _rows_of(self, data: Any) -> Any:
        import numpy  # as above

        if isinstance(data, dict) or (isinstance(data, list) and data and isinstance(data[0], dict)):
            return self._frame_of(data, None)
        try:
            rows = numpy.asarray(data, dtype=float)
        except (ValueError, TypeError):
            try:
                rows = numpy.asarray(data, dtype=object)
            except ValueError as error:
                raise BadRequest(f"`data` is no table: {error}.") from None
        if rows.ndim == 0:
            raise BadRequest("`data` must be a list of rows.")
        if self._width is not None and (rows.ndim < 2 or rows.shape[1] != self._width):
            raise BadRequest(f"`data` has the shape {rows.shape}; the model takes rows of {self._width} values.")
        return self._named(rows)

    def _named(self, rows: Any) -> Any:
        """Give the columns the names of the training data, when there were some: scikit-learn warns otherwise."""
        return rows if self._names is None else self._frame_of(rows, self._names)

    def _frame_of(self, data: Any, columns: Any) -> Any:
        try:
            import pandas  # models of named columns need it
        except ImportError:
            raise BadRequest("Rows with names need pandas, which the service's environment has not.") from None
        try:
            return pandas.DataFrame(data, columns=columns)
        except (ValueError, TypeError) as error:
            raise BadRequest(f"`data` is no table: {error}.") from None


def find_file(folder: str, endings: Tuple[str, ...], what: str) -> str:
    """Return the one file below `folder` with such an ending, or `folder` itself where it is a file.

    Raises:
        ScriptFault: there is none, or several.
    """
    if os.path.isfile(folder):
        return folder
    found = [
        os.path.join(root, name)
        for root, _, names in sorted(os.walk(folder))
        for name in sorted(names)
        if name.lower().endswith(endings)
    ]
    if len(found) == 1:
        return found[0]
    there = "several: " + ", ".join(found[:5]) if found else "none"
    raise ScriptFault(f"The model folder must hold one file of {what} ({', '.join(endings)}); there is {there}.")


def _to_lists(part: Any) -> Any:
    return part.tolist() if hasattr(part, "tolist") else part.values.tolist() if hasattr(part, "values") else part
