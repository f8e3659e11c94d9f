"""Models of ONNX: tensors by name, with base64 data as Azure's examples send them, or as plain lists."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Hashable, List, Optional, Tuple

from runyard.serving.protocol import Json
from runyard.serving.scorers.base import NoCodeModel, Question, object_of
from runyard.serving.scorers.sklearn import find_file
from runyard.serving.scorers.tensors import TensorSpec, datatype_of
from runyard.serving.worker.requests import BadRequest, ScoringRequest

# TensorProto.DataType
_NUMPY = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "object",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
_NAMES = {
    "FLOAT": 1,
    "UINT8": 2,
    "INT8": 3,
    "UINT16": 4,
    "INT16": 5,
    "INT32": 6,
    "INT64": 7,
    "STRING": 8,
    "BOOL": 9,
    "FLOAT16": 10,
    "DOUBLE": 11,
    "UINT32": 12,
    "UINT64": 13,
}
_LISTS = ("floatData", "int32Data", "int64Data", "doubleData", "uint64Data", "stringData")
_SESSION_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(string)": "object"}


class OnnxModel(NoCodeModel):
    """A model in onnxruntime. Requests are joined when every tensor has a free first dimension."""

    platform = "onnx_onnxv1"

    def __init__(self, folder: str) -> None:
        import onnxruntime  # of the user's environment

        path = find_file(folder, (".onnx",), "an ONNX model")
        self._session = onnxruntime.InferenceSession(path, providers=onnxruntime.get_available_providers())
        self._inputs = {one.name: one for one in self._session.get_inputs()}
        self._outputs = {one.name: one for one in self._session.get_outputs()}
        tensors = [*self._inputs.values(), *self._outputs.values()]
        self._is_free = all(one.shape and not isinstance(one.shape[0], int) for one in tensors)

    def read_score(self, request: ScoringRequest) -> Question:
        body = object_of(request, "inputs", "data")
        given = body.get("inputs", body.get("data"))
        if not isinstance(given, dict):
            if len(self._inputs) != 1:
                raise BadRequest(f"`inputs` must be an object with {', '.join(self._inputs)}.")
            given = {next(iter(self._inputs)): given}
        is_proto = any(isinstance(one, dict) for one in given.values())
        wanted = body.get("outputFilter") or list(self._outputs)
        unknown = [name for name in wanted if name not in self._outputs]
        if unknown:
            raise BadRequest(f"The model has no output {unknown[0]!r}; it has: {', '.join(self._outputs)}.")
        arrays = {name: self._array_of(name, value) for name, value in given.items()}

        def write(part: Json) -> Json:
            chosen = {name: part[name] for name in wanted}
            return {"outputs": {name: to_proto(value) if is_proto else value for name, value in chosen.items()}}

        return self._question(arrays)._replace(write=write)

    def read_tensors(self, inputs: Json) -> Question:
        return self._question({name: self._array_of(name, value) for name, value in inputs.items()})

    def predict(self, key: Optional[Hashable], rows: Any) -> Any:
        names = list(self._outputs)
        return dict(zip(names, self._session.run(names, rows)))

    def inputs(self) -> List[TensorSpec]:
        return [_spec(one) for one in self._inputs.values()]

    def outputs(self) -> List[TensorSpec]:
        return [_spec(one) for one in self._outputs.values()]

    def sample(self) -> Optional[Question]:
        import numpy  # comes with onnxruntime

        arrays = {}
        for name, one in self._inputs.items():
            kind = _session_type(one.type)
            if kind is None or kind == "object":
                return None
            arrays[name] = numpy.zeros([size if isinstance(size, int) else 1 for size in one.shape], dtype=kind)
        return self._question(arrays)

    def schemas(self) -> Tuple[Json, Json]:
        properties: Json = {name: {} for name in self._inputs}
        taken = {"type": "object", "required": ["inputs"], "properties": {"inputs": {"properties": properties}}}
        return taken, {"type": "object", "properties": {"outputs": {"type": "object"}}}

    def _question(self, arrays: Json) -> Question:
        missing = [name for name in self._inputs if name not in arrays]
        unknown = [name for name in arrays if name not in self._inputs]
        if missing or unknown:
            fault = f"there is no {missing[0]!r}" if missing else f"the model has no input {unknown[0]!r}"
            raise BadRequest(f"`inputs`: {fault}. The model's inputs are {', '.join(self._inputs)}.")
        counts = {len(array) if array.ndim else 0 for array in arrays.values()}
        shapes = tuple((name, array.dtype.name, array.shape[1:]) for name, array in sorted(arrays.items()))
        can_join = self._is_free and len(counts) == 1 and 0 not in counts
        return Question(shapes if can_join else None, arrays, min(counts), lambda part: part)

    def _array_of(self, name: str, value: Any) -> Any:
        import numpy  # as above

        if isinstance(value, dict):
            return read_proto(name, value)
        if name not in self._inputs:
            return numpy.asarray(value)
        kind = _session_type(self._inputs[name].type)
        try:
            return numpy.asarray(value, dtype=kind)
        except (ValueError, TypeError) as error:
            raise BadRequest(f"Input {name!r} cannot be read: {error}.") from None


def read_proto(name: str, tensor: Json) -> Any:
    """Return the array of a TensorProto in JSON; raises BadRequest."""
    import numpy  # as above

    kind = tensor.get("dataType", 1)
    number = _NAMES.get(kind.upper()) if isinstance(kind, str) and not kind.isdigit() else int(kind)
    if number not in _NUMPY:
        raise BadRequest(f"Input {name!r}: no dataType {kind!r}.")
    dtype = numpy.dtype(_NUMPY[number])
    try:
        if "rawData" in tensor:
            raw = base64.b64decode(tensor["rawData"], validate=True)
            flat = numpy.frombuffer(raw, dtype=dtype.newbyteorder("<"))
        else:
            values: List[Any] = next((tensor[key] for key in _LISTS if key in tensor), [])
            is_text = number == 8
            flat = numpy.array([base64.b64decode(one).decode() if is_text else one for one in values], dtype=dtype)
        return flat.reshape([int(size) for size in tensor.get("dims", [len(flat)])])
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadRequest(f"Input {name!r} cannot be read: {error}.") from None


def to_proto(value: Any) -> Json:
    """Return an array as a TensorProto in JSON; what is no array, as it is."""
    import numpy  # as above

    array = numpy.asarray(value)
    numbers = {name: number for number, name in _NUMPY.items()}
    if array.dtype.kind in "SUO":
        texts = [base64.b64encode(str(one).encode()).decode() for one in array.reshape(-1)]
        return {"dims": [str(size) for size in array.shape], "dataType": 8, "stringData": texts}
    raw = numpy.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return {
        "dims": [str(size) for size in array.shape],
        "dataType": numbers[array.dtype.name],
        "rawData": base64.b64encode(raw).decode(),
    }


def _session_type(kind: str) -> Optional[str]:
    if kind in _SESSION_TYPES:
        return _SESSION_TYPES[kind]
    inner = kind[len("tensor(") : -1] if kind.startswith("tensor(") else ""
    return inner if inner in set(_NUMPY.values()) else None


def _spec(one: Any) -> TensorSpec:
    shape = tuple(size if isinstance(size, int) else -1 for size in one.shape or ())
    return TensorSpec(one.name, datatype_of(_session_type(one.type) or "object"), shape)
