"""Arrays on the way in and out: the Open Inference Protocol, joining rows and splitting results. Needs numpy."""

from __future__ import annotations

import sys
from typing import Any, List, NamedTuple, Sequence, Tuple

from runyard.serving.protocol import Json
from runyard.serving.worker.requests import BadRequest

_TYPES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BYTES": "object",
}
_NAMES = {name: datatype for datatype, name in _TYPES.items()}


class TensorSpec(NamedTuple):
    """A tensor of a model; -1 stands for any size."""

    name: str
    datatype: str
    shape: Tuple[int, ...]

    def to_plain(self) -> Json:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


class InferBody(NamedTuple):
    id: str
    inputs: Json
    wanted: List[str]


def read_infer(body: Any) -> InferBody:
    """Return the arrays of an inference request of the protocol, version 2; raises BadRequest."""
    if not isinstance(body, dict) or not isinstance(body.get("inputs"), list) or not body["inputs"]:
        raise BadRequest("The body must have `inputs`: a list of tensors with name, shape, datatype and data.")
    inputs = {}
    for one in body["inputs"]:
        if not isinstance(one, dict) or not {"name", "shape", "datatype", "data"} <= set(one):
            raise BadRequest("Each of `inputs` needs name, shape, datatype and data.")
        inputs[str(one["name"])] = _read_tensor(one)
    outputs = body.get("outputs") or []
    wanted = [str(one.get("name", "")) for one in outputs if isinstance(one, dict)]
    return InferBody(str(body.get("id") or ""), inputs, wanted)


def write_infer(body: InferBody, outputs: Json) -> Json:
    """Return the answer of the protocol; the gateway puts the model's name there.

    Raises:
        BadRequest: an output is wanted that the model has not.
    """
    unknown = [name for name in body.wanted if name not in outputs]
    if unknown:
        raise BadRequest(f"The model has no output {unknown[0]!r}; it has: {', '.join(outputs)}.")
    chosen = {name: value for name, value in outputs.items() if not body.wanted or name in body.wanted}
    answer: Json = {"outputs": [_write_tensor(name, value) for name, value in chosen.items()]}
    return {"id": body.id, **answer} if body.id else answer


def join(parts: Sequence[Any]) -> Any:
    """Return the rows of several requests as one value of their kind."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, dict):
        return {name: join([part[name] for part in parts]) for name in first}
    if is_frame(first):
        return sys.modules["pandas"].concat(list(parts), ignore_index=True)
    return sys.modules["numpy"].concatenate(list(parts))


def split(result: Any, counts: Sequence[int]) -> List[Any]:
    """Return the part of each request.

    Raises:
        ValueError: the result has not one item for each row.
    """
    if len(counts) == 1:
        return [result]
    if isinstance(result, dict):
        parts = {name: split(value, counts) for name, value in result.items()}
        return [{name: values[at] for name, values in parts.items()} for at in range(len(counts))]
    if len(result) != sum(counts):
        raise ValueError(f"the model gave {len(result)} results for {sum(counts)} rows")
    rows = result.iloc if hasattr(result, "iloc") else result
    found, at = [], 0
    for count in counts:
        found.append(rows[at : at + count])
        at += count
    return found


def is_frame(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series))


def datatype_of(name: str) -> str:
    """Return the protocol's name of a numpy type."""
    return _NAMES.get(name, "BYTES")


def _read_tensor(tensor: Json) -> Any:
    import numpy  # of the user's environment

    datatype = str(tensor["datatype"])
    if datatype not in _TYPES:
        raise BadRequest(f"Tensor {tensor['name']!r}: no datatype {datatype!r}; there are: {', '.join(_TYPES)}.")
    try:
        flat = numpy.array(tensor["data"], dtype=_TYPES[datatype]).reshape(-1)
        return flat.reshape([int(size) for size in tensor["shape"]])
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRequest(f"Tensor {tensor['name']!r} cannot be read: {error}.") from None


def _write_tensor(name: str, value: Any) -> Json:
    import numpy  # as above

    array = numpy.asarray(value)
    if array.dtype.kind in "SUO":
        data = [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in array.reshape(-1)]
        return {"name": name, "datatype": "BYTES", "shape": list(array.shape), "data": data}
    datatype = datatype_of(array.dtype.name)
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": array.reshape(-1).tolist()}
