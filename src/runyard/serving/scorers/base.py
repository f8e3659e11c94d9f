"""What a model without code does: read a request, compute rows, say what its tensors are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, FrozenSet, Hashable, List, NamedTuple, Optional, Sequence, Tuple, Union

from runyard.serving.protocol import Json
from runyard.serving.scorers import tensors
from runyard.serving.worker.requests import BadRequest, ScoringRequest

SCORE, INFER, METADATA = "/score", "/v2/infer", "/v2/metadata"


class Question(NamedTuple):
    """What a request asks: rows of the same `key` may be computed together; key None: only alone."""

    key: Optional[Hashable]
    rows: Any
    size: int
    write: Callable[[Any], Any]  # the part of the result that belongs to these rows → JSON


class NoCodeModel(ABC):
    """A loaded model. `read` and `predict` are called by one thread at a time, unless the replica asked for several."""

    paths: FrozenSet[str] = frozenset({INFER, METADATA})  # beside /score
    platform = ""

    @abstractmethod
    def read_score(self, request: ScoringRequest) -> Question:
        """Return what a request to /score (or to another path of its own) asks; raises BadRequest."""

    @abstractmethod
    def read_tensors(self, inputs: Json) -> Question:
        """Return what arrays by name ask, as the Open Inference Protocol sends them; raises BadRequest.

        `write` of the question returns arrays by name.
        """

    @abstractmethod
    def predict(self, key: Optional[Hashable], rows: Any) -> Any:
        """Return one result for each row: an array, a DataFrame, or a dict of those."""

    def inputs(self) -> List[tensors.TensorSpec]:
        return []

    def outputs(self) -> List[tensors.TensorSpec]:
        return []

    def sample(self) -> Optional[Question]:
        """Return a row of zeros to try before the first request; None where nobody knows its shape."""
        return None

    def schemas(self) -> Tuple[Json, Json]:
        """Return the schemas of a request to /score and of its answer."""
        return {"type": "object"}, {}

    def read(self, request: ScoringRequest) -> Union[Question, Json]:
        """Return the question, or the answer where none is to be computed; raises BadRequest."""
        if request.path == METADATA:
            inputs, outputs = self.inputs(), self.outputs()
            return {
                "platform": self.platform,
                "inputs": [one.to_plain() for one in inputs],
                "outputs": [one.to_plain() for one in outputs],
            }
        if request.path != INFER:
            return self.read_score(request)
        body = tensors.read_infer(request.json())
        question = self.read_tensors(body.inputs)
        return question._replace(write=lambda part: tensors.write_infer(body, question.write(part)))

    def join(self, parts: Sequence[Any]) -> Any:
        return tensors.join(parts)

    def split(self, result: Any, counts: Sequence[int]) -> List[Any]:
        return tensors.split(result, counts)


def object_of(request: ScoringRequest, *keys: str) -> Json:
    """Return the body, a JSON object with one of `keys`; raises BadRequest."""
    found = request.query_values() if request.method == "GET" else request.json()
    if not isinstance(found, dict) or not any(key in found for key in keys):
        wanted = " or ".join(f"`{key}`" for key in keys)
        raise BadRequest(f"The body must be a JSON object with {wanted}.")
    return found
