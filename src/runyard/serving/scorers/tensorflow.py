"""SavedModels of TensorFlow: `{"instances": […]}` or `{"inputs": …}`, as TensorFlow Serving takes them."""

from __future__ import annotations

import base64
import os
from typing import Any, FrozenSet, Hashable, List, Optional, Tuple

from runyard.serving.protocol import Json
from runyard.serving.scorers.base import INFER, METADATA, NoCodeModel, Question, object_of
from runyard.serving.scorers.tensors import TensorSpec, datatype_of
from runyard.serving.worker.requests import BadRequest, ScoringRequest
from runyard.serving.worker.script import ScriptFault

_DEFAULT = "serving_default"
_ANSWERS = {"/classify": "results", "/regress": "results"}


class TensorFlowModel(NoCodeModel):
    """A SavedModel and its signatures."""

    platform = "tensorflow_savedmodel"
    paths: FrozenSet[str] = frozenset({INFER, METADATA, "/predict", "/classify", "/regress"})

    def __init__(self, folder: str) -> None:
        import tensorflow  # of the user's environment

        self._tensorflow = tensorflow
        self._model = tensorflow.saved_model.load(_find_model(folder))
        self._signatures = dict(self._model.signatures)
        if not self._signatures:
            raise ScriptFault("The SavedModel has no signatures. Save it with `tf.saved_model.save(model, folder)`.")
        self._default = _DEFAULT if _DEFAULT in self._signatures else sorted(self._signatures)[0]

    def read_score(self, request: ScoringRequest) -> Question:
        body = object_of(request, "instances", "inputs", "examples")
        name = str(body.get("signature_name") or self._default)
        if name not in self._signatures:
            raise BadRequest(f"The model has no signature {name!r}; it has: {', '.join(sorted(self._signatures))}.")
        if "inputs" in body:
            return self._columns(name, body["inputs"])
        rows = body.get("instances", body.get("examples"))
        if not isinstance(rows, list) or not rows:
            raise BadRequest("`instances` must be a list with at least one instance.")
        return self._instances(name, rows, _ANSWERS.get(request.path, "predictions"))

    def read_tensors(self, inputs: Json) -> Question:
        return self._question(self._default, {name: self._tensor(self._default, name, inputs[name]) for name in inputs})

    def predict(self, key: Optional[Hashable], rows: Any) -> Any:
        name = rows["signature"]
        tensors = {one: self._tensorflow.constant(value) for one, value in rows["arrays"].items()}
        return {one: value.numpy() for one, value in self._signatures[name](**tensors).items()}

    def join(self, parts: Any) -> Any:
        return {"signature": parts[0]["signature"], "arrays": super().join([part["arrays"] for part in parts])}

    def inputs(self) -> List[TensorSpec]:
        return [_spec(name, one) for name, one in self._taken(self._default).items()]

    def outputs(self) -> List[TensorSpec]:
        given = self._signatures[self._default].structured_outputs
        return [_spec(name, one) for name, one in given.items()]

    def sample(self) -> Optional[Question]:
        import numpy  # comes with TensorFlow

        arrays = {}
        for name, one in self._taken(self._default).items():
            if one.dtype.as_numpy_dtype in (object, str, bytes) or one.shape.rank is None:
                return None
            arrays[name] = numpy.zeros([size or 1 for size in one.shape.as_list()], dtype=one.dtype.as_numpy_dtype)
        return self._question(self._default, arrays)

    def schemas(self) -> Tuple[Json, Json]:
        taken = {"type": "object", "properties": {"instances": {"type": "array", "items": {}}, "inputs": {}}}
        return taken, {"type": "object", "properties": {"predictions": {"type": "array", "items": {}}}}

    def _instances(self, name: str, rows: List[Any], answer: str) -> Question:
        taken = list(self._taken(name))
        rows = [_decoded(row) for row in rows]
        if all(isinstance(row, dict) for row in rows):
            columns = {key: [row[key] if key in row else _missing(key) for row in rows] for key in rows[0]}
        elif len(taken) == 1:
            columns = {taken[0]: rows}
        else:
            raise BadRequest(f"Each instance must be an object with {', '.join(taken)}.")
        question = self._question(name, {key: self._tensor(name, key, value) for key, value in columns.items()})

        def write(part: Json) -> Json:
            lists = {key: _encoded(key, value) for key, value in part.items()}
            if len(lists) == 1:
                return {answer: next(iter(lists.values()))}
            return {answer: [dict(zip(lists, row)) for row in zip(*lists.values())]}

        return question._replace(write=write)

    def _columns(self, name: str, inputs: Any) -> Question:
        taken = list(self._taken(name))
        inputs = _decoded(inputs)
        columns = inputs if isinstance(inputs, dict) else {taken[0]: inputs}
        question = self._question(name, {key: self._tensor(name, key, value) for key, value in columns.items()})

        def write(part: Json) -> Json:
            lists = {key: _encoded(key, value) for key, value in part.items()}
            return {"outputs": next(iter(lists.values())) if len(lists) == 1 else lists}

        return question._replace(write=write)

    def _question(self, name: str, arrays: Json) -> Question:
        taken = self._taken(name)
        missing = [key for key in taken if key not in arrays]
        if missing:
            raise BadRequest(f"There is no {missing[0]!r}; the signature {name!r} takes {', '.join(taken)}.")
        counts = {len(array) if array.ndim else 0 for array in arrays.values()}
        given = self._signatures[name].structured_outputs.values()
        is_free = all(one.shape.rank and one.shape[0] is None for one in [*taken.values(), *given])
        shapes = tuple((key, array.shape[1:]) for key, array in sorted(arrays.items()))
        can_join = is_free and len(counts) == 1 and 0 not in counts
        rows = {"signature": name, "arrays": arrays}
        return Question((name, shapes) if can_join else None, rows, min(counts), lambda part: part)

    def _tensor(self, name: str, key: str, value: Any) -> Any:
        import numpy  # as above

        taken = self._taken(name)
        if key not in taken:
            raise BadRequest(f"The signature {name!r} has no input {key!r}; it takes {', '.join(taken)}.")
        try:
            return numpy.asarray(value, dtype=taken[key].dtype.as_numpy_dtype)
        except (ValueError, TypeError) as error:
            raise BadRequest(f"Input {key!r} cannot be read: {error}.") from None

    def _taken(self, name: str) -> Json:
        return dict(self._signatures[name].structured_input_signature[1])


def _find_model(folder: str) -> str:
    found = [
        root for root, _, names in sorted(os.walk(folder)) if "saved_model.pb" in names or "saved_model.pbtxt" in names
    ]
    if len(found) == 1:
        return found[0]
    there = f"several: {', '.join(found[:5])}" if found else "none"
    raise ScriptFault(f"The model folder must hold one SavedModel (saved_model.pb); there is {there}.")


def _decoded(value: Any) -> Any:
    """Replace `{"b64": text}` by its bytes, at any depth."""
    if isinstance(value, dict):
        if set(value) == {"b64"}:
            try:
                return base64.b64decode(value["b64"], validate=True)
            except (ValueError, TypeError) as error:
                raise BadRequest(f"`b64` is no base64: {error}.") from None
        return {key: _decoded(one) for key, one in value.items()}
    return [_decoded(one) for one in value] if isinstance(value, list) else value


def _encoded(name: str, value: Any) -> Any:
    if value.dtype.kind not in "SO":
        return value.tolist()
    if name.endswith("_bytes"):  # as TensorFlow Serving has it: other texts are UTF-8
        return _mapped(value.tolist(), lambda one: {"b64": base64.b64encode(one).decode()})
    return _mapped(value.tolist(), lambda one: one.decode("utf-8", "replace") if isinstance(one, bytes) else one)


def _mapped(value: Any, change: Any) -> Any:
    return [_mapped(one, change) for one in value] if isinstance(value, list) else change(value)


def _missing(key: str) -> Any:
    raise BadRequest(f"An instance has no {key!r}.")


def _spec(name: str, one: Any) -> TensorSpec:
    import numpy  # as above

    shape = tuple(-1 if size is None else int(size) for size in one.shape) if one.shape.rank is not None else ()
    return TensorSpec(name, datatype_of(numpy.dtype(one.dtype.as_numpy_dtype).name), shape)
