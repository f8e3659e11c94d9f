"""`batching=auto`: requests of a run() that takes one numpy array are joined by rows, when that changes no answer."""

from __future__ import annotations

import sys
import time
from typing import Any, List, Optional, Sequence

from runyard.serving.scripts import Batching
from runyard.serving.worker.answers import ScoringOutcome, error_outcome, outcome_of
from runyard.serving.worker.calls import SchemaCall, ScoringCall
from runyard.serving.worker.requests import BadRequest, ScoringRequest

_CLOSE = 1e-5


class JoinedCall(ScoringCall):
    """Joins the arrays of several requests for one call, and splits the rows of its answer."""

    batching = Batching()

    def __init__(self, call: SchemaCall) -> None:
        self._call = call

    def answer(self, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
        if len(requests) == 1:
            return self._call.answer(requests)
        arrays = [self._array_of(request) for request in requests]
        outcomes: List[Optional[ScoringOutcome]] = [one if isinstance(one, ScoringOutcome) else None for one in arrays]
        good = [at for at, outcome in enumerate(outcomes) if outcome is None]
        joined = self._answer_joined([arrays[at] for at in good]) if good else None
        if joined is None:  # together it fails: each alone, so that the bad one fails alone
            joined = [self._call.answer([requests[at]])[0] for at in good]
        for at, outcome in zip(good, joined):
            outcomes[at] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def _array_of(self, request: ScoringRequest) -> Any:
        try:
            arguments = self._call.arguments_of(request)
        except BadRequest as fault:
            return error_outcome(fault.status, str(fault))
        name, kind = find_numpy_type(self._call)
        try:
            return kind.deserialize_input(arguments[name])
        except (ValueError, TypeError, KeyError, IndexError) as error:
            return error_outcome(400, f"{name!r} cannot be read: {error}")

    def _answer_joined(self, arrays: List[Any]) -> Optional[List[ScoringOutcome]]:
        started = time.perf_counter()
        try:
            values = run_joined(self._call, arrays)
        except Exception:
            return None
        taken_us = int((time.perf_counter() - started) * 1e6)
        return [outcome_of(value, taken_us) for value in values] if values is not None else None


def find_join_fault(call: SchemaCall) -> str:
    """Return why rows of several requests cannot be joined; "" when the sample shows that they can.

    The sample's rows are called alone, and together with other rows: twice the same rows would hide a script that
    compares them.
    """
    found = find_numpy_type(call, missing_ok=True)
    if found is None:
        return "run() must take one numpy array and nothing else"
    sample = found[1].sample_input
    if not getattr(sample, "ndim", 0) or not len(sample):
        return "the sample has no rows"
    other = _vary(sample)
    try:
        alone = [as_rows(call.run_with(array), len(array)) for array in (sample, other)]
        together = run_joined(call, [sample, other])
    except Exception as error:
        return f"run() fails with the sample: {error}"
    if together is None or any(rows is None for rows in alone):
        return "run() does not return one answer for each row"
    if not all(_is_close(one, two) for one, two in zip(alone, together)):
        return "rows give other answers together than alone"
    return ""


def find_numpy_type(call: SchemaCall, missing_ok: bool = False) -> Any:
    """Return (name, NumpyParameterType) of the one parameter."""
    kinds = call.parameter_types()
    numpy_kinds = [(name, kind) for name, kind in kinds.items() if type(kind).__name__ == "NumpyParameterType"]
    if len(numpy_kinds) == 1 and len(call.parameter_names()) == 1:
        return numpy_kinds[0]
    if missing_ok:
        return None
    raise LookupError("run() takes no single numpy array")


def run_joined(call: SchemaCall, arrays: List[Any]) -> Optional[List[Any]]:
    """Return one answer for each array; None when the rows of the answer are not those of the arrays."""
    counts = [len(array) for array in arrays]
    rows = as_rows(call.run_with(sys.modules["numpy"].concatenate(arrays)), sum(counts))
    if rows is None:
        return None
    answers, at = [], 0
    for count in counts:
        answers.append(rows[at : at + count])
        at += count
    return answers


def as_rows(value: Any, count: int) -> Any:
    """Return an answer that can be split; None when it has not one item for each row."""
    has_rows = hasattr(value, "__len__") and not isinstance(value, (str, bytes, dict))
    return value if has_rows and len(value) == count else None


def _vary(sample: Any) -> Any:
    numpy = sys.modules["numpy"]
    if sample.dtype.kind == "f":
        return (sample * 0.5 + 1).astype(sample.dtype)
    if sample.dtype.kind in "iu":
        return numpy.maximum(sample // 2 + 1, 0).astype(sample.dtype)
    return sample[::-1].copy()


def _is_close(one: Any, two: Any) -> bool:
    numpy = sys.modules["numpy"]
    first, second = numpy.asarray(one), numpy.asarray(two)
    if first.shape != second.shape:
        return False
    if first.dtype.kind in "fc" or second.dtype.kind in "fc":
        return bool(numpy.allclose(first, second, rtol=_CLOSE, atol=_CLOSE, equal_nan=True))
    return bool((first == second).all())
