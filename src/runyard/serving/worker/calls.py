"""Ways to call a script: each gets the requests of one frame and gives an outcome for each."""

from __future__ import annotations

import inspect
import json
import sys
import time
import traceback
from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence

from runyard.serving.protocol import Json
from runyard.serving.scripts import Batching
from runyard.serving.worker.answers import ScoringOutcome, error_outcome, outcome_of
from runyard.serving.worker.raw_http import AMLRequest, is_raw
from runyard.serving.worker.requests import BadRequest, ScoringRequest
from runyard.serving.worker.script import Script, ScriptFault, data_parameters, takes_headers
from runyard.serving.worker.typed import convert, hints_of

FAILED_TEXT = "The scoring script failed. Its log has the error, beside the id of this request: "


class ScoringCall(ABC):
    """Answers requests with a script. Used by one thread at a time, unless the replica asked for several."""

    batching: Optional[Batching] = None
    takes_all_methods = False
    paths: FrozenSet[str] = frozenset()  # beside `/score`

    @abstractmethod
    def answer(self, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
        """Return an outcome for each request, in their order. Never raises for what a script or a client did."""


class PlainCall(ScoringCall):
    """An undecorated `run`: its first parameter gets the body as text, or the query's parameters as JSON text."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._name = data_parameters(run)[0].name
        self._wants_headers = takes_headers(run)

    def answer(self, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
        return [self._answer_one(request) for request in requests]

    def _answer_one(self, request: ScoringRequest) -> ScoringOutcome:
        try:
            arguments = {self._name: text_of(request)}
        except BadRequest as fault:
            return error_outcome(fault.status, str(fault))
        if self._wants_headers:
            arguments["request_headers"] = request.headers()  # type: ignore[assignment]  # a mapping of texts
        return timed_call(self._run, arguments, request)


class RawCall(ScoringCall):
    """`@rawhttp`: the first parameter gets the request."""

    takes_all_methods = True

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._name = data_parameters(run)[0].name
        self._wants_headers = takes_headers(run)

    def answer(self, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
        outcomes = []
        for request in requests:
            arguments: Json = {self._name: AMLRequest(request)}
            if self._wants_headers:
                arguments["request_headers"] = request.headers()
            outcomes.append(timed_call(self._run, arguments, request))
        return outcomes


class SchemaCall(ScoringCall):
    """`@input_schema` of inference-schema: each parameter is a key of the body, and the decorator converts it."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._parameters = data_parameters(run)
        self._wants_headers = takes_headers(run)

    def answer(self, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
        return [self._answer_one(request) for request in requests]

    def _answer_one(self, request: ScoringRequest) -> ScoringOutcome:
        try:
            arguments = self.arguments_of(request)
        except BadRequest as fault:
            return error_outcome(fault.status, str(fault))
        return timed_call(self._run, arguments, request)

    def run_with(self, array: Any) -> Any:
        """Return what `run` says to one value that is converted already."""
        return self._run(**{self._parameters[0].name: array})

    def parameter_names(self) -> List[str]:
        return [*(one.name for one in self._parameters), *(["request_headers"] if self._wants_headers else ())]

    def parameter_types(self) -> Json:
        """Return inference-schema's type of each parameter, which its decorators keep in their closures."""
        found: Json = {}
        function: Any = self._run
        while function is not None:
            wrapper = getattr(function, "_self_wrapper", None)
            code = getattr(wrapper, "__code__", None)
            closure = getattr(wrapper, "__closure__", None)
            if code is not None and closure:
                cells = dict(zip(code.co_freevars, closure))
                if {"param_name", "param_type"} <= set(cells):
                    found.setdefault(cells["param_name"].cell_contents, cells["param_type"].cell_contents)
            function = getattr(function, "__wrapped__", None)
        return found

    def arguments_of(self, request: ScoringRequest) -> Json:
        arguments = named_values(object_of(request), self._parameters)
        if self._wants_headers:
            arguments["request_headers"] = request.headers()
        return arguments


class TypedCall(ScoringCall):
    """`predict` of a `Scorer`: parameters are keys of the body, converted as their annotations say."""

    def __init__(self, predict: Callable[..., Any]) -> None:
        self._predict = predict
        self._parameters = data_parameters(predict)
        self._hints = hints_of(predict)
        self._wants_headers = takes_headers(predict)

    def answer(self, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
        return [self._answer_one(request) for request in requests]

    def _answer_one(self, request: ScoringRequest) -> ScoringOutcome:
        try:
            values = typed_values(request, self._parameters)
            arguments = {
                name: convert(value, self._hints.get(name, Any), f"`{name}`") for name, value in values.items()
            }
        except BadRequest as fault:
            return error_outcome(fault.status, str(fault))
        if self._wants_headers:
            arguments["request_headers"] = request.headers()
        return timed_call(self._predict, arguments, request)


class BatchedCall(ScoringCall):
    """`@batched`: one call with a list of items, or one for each where the batch as a whole fails."""

    def __init__(self, run: Callable[..., Any], batching: Batching, read_item: Callable[[ScoringRequest], Any]) -> None:
        self.batching = batching
        self._run = run
        self._name = data_parameters(run)[0].name
        self._read_item = read_item

    def answer(self, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
        outcomes: Dict[int, ScoringOutcome] = {}
        good: List[ScoringRequest] = []
        items: List[Any] = []
        for at, request in enumerate(requests):
            try:
                items.append(self._read_item(request))
                good.append(request)
            except BadRequest as fault:
                outcomes[at] = error_outcome(fault.status, str(fault))
        answered = iter(self._answer_items(good, items) if good else ())
        return [outcomes[at] if at in outcomes else next(answered) for at in range(len(requests))]

    def _answer_items(self, requests: List[ScoringRequest], items: List[Any]) -> List[ScoringOutcome]:
        started = time.perf_counter()
        try:
            values = self._run(**{self._name: list(items)})
            taken_us = int((time.perf_counter() - started) * 1e6)
            return [outcome_of(value, taken_us) for value in check_length(values, len(items))]
        except Exception:
            if len(requests) == 1:
                log_failure(requests[0])
                return [failed_outcome(requests[0])]
        outcomes = []
        for request, item in zip(requests, items):
            outcomes += self._answer_items([request], [item])
        return outcomes


def make_call(script: Script) -> ScoringCall:
    """Return the way this script wants to be called.

    Raises:
        ScriptFault: its decorators exclude each other.
    """
    batching = script.batching
    if script.scorer is not None:
        if batching is None:
            return TypedCall(script.run)
        return BatchedCall(script.run, batching, _typed_item_reader(script.run))
    has_schema = _has_schema(script.run)
    if is_raw():
        if has_schema or batching is not None:
            other = "@input_schema" if has_schema else "@batched"
            raise ScriptFault(f"run() has both @rawhttp and {other}. Keep one of them.")
        return RawCall(script.run)
    if batching is not None:
        if has_schema:
            raise ScriptFault("run() has both @batched and @input_schema. Use the property batching=auto in its place.")
        return BatchedCall(script.run, batching, text_of)
    return SchemaCall(script.run) if has_schema else PlainCall(script.run)


def timed_call(run: Callable[..., Any], arguments: Json, request: ScoringRequest) -> ScoringOutcome:
    """Return the outcome of one call; what it raises goes to the log."""
    started = time.perf_counter()
    try:
        value = run(**arguments)
        return outcome_of(value, int((time.perf_counter() - started) * 1e6))
    except Exception as error:
        refusal = _find_refused_parameter(error, arguments)
        if refusal is not None:
            return error_outcome(400, refusal)
        log_failure(request)
        return failed_outcome(request)


def failed_outcome(request: ScoringRequest) -> ScoringOutcome:
    return error_outcome(500, f"{FAILED_TEXT}{request_id(request)}.", failed=True)


def log_failure(request: ScoringRequest) -> None:
    """Write the present exception into the replica's log, beside the id of the request."""
    print(f"Request {request_id(request)} failed:\n{traceback.format_exc()}", file=sys.stderr, end="", flush=True)


def request_id(request: ScoringRequest) -> str:
    return str(request.headers().get("x-request-id", "-"))


def text_of(request: ScoringRequest) -> str:
    """Return what an undecorated `run` gets."""
    if request.method == "GET":
        return json.dumps(request.query_values())
    return request.text()


def object_of(request: ScoringRequest) -> Json:
    """Return the request's values by name.

    Raises:
        BadRequest: the body is no JSON object, or is not said to be JSON.
    """
    if request.method == "GET":
        return request.query_values()
    if not request.is_json():
        raise BadRequest("The Content-Type must be application/json.", 415)
    found = request.json()
    if not isinstance(found, dict):
        raise BadRequest(f"The body must be a JSON object, not {type(found).__name__}.")
    return found


def named_values(found: Json, parameters: Sequence[inspect.Parameter]) -> Json:
    """Return the value of each parameter, or its default.

    Raises:
        BadRequest: one has neither.
    """
    values = {}
    for parameter in parameters:
        value = found.get(parameter.name, parameter.default)
        if value is inspect.Parameter.empty:
            raise BadRequest(f"The body has no {parameter.name!r}, which run() needs.")
        values[parameter.name] = value
    return values


def typed_values(request: ScoringRequest, parameters: Sequence[inspect.Parameter]) -> Json:
    """Return the values of `predict`: by name, or the whole body where it has one parameter."""
    if request.method == "GET":
        return named_values(request.query_values(), parameters)
    found = request.json()
    if len(parameters) == 1 and not (isinstance(found, dict) and parameters[0].name in found):
        return {parameters[0].name: found}
    if not isinstance(found, dict):
        names = ", ".join(parameter.name for parameter in parameters)
        raise BadRequest(f"The body must be a JSON object with {names}.")
    return named_values(found, parameters)


def check_length(values: Any, count: int) -> List[Any]:
    """Return the answers of a batch as a list.

    Raises:
        TypeError, ValueError: they are no list, or not as many as the requests.
    """
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__len__"):
        raise TypeError(f"A batched run() must return a list with one answer for each item, not {type(values)}.")
    if len(values) != count:
        raise ValueError(f"A batched run() got {count} items and returned {len(values)} answers.")
    return list(values)


def _typed_item_reader(predict: Callable[..., Any]) -> Callable[[ScoringRequest], Any]:
    parameters = data_parameters(predict)
    if len(parameters) != 1:
        raise ScriptFault("A batched predict() has one parameter beside `self`: the list of items.")
    name = parameters[0].name
    kinds = getattr(hints_of(predict).get(name), "__args__", None) or (Any,)
    kind = Any if type(kinds[0]).__name__ == "TypeVar" else kinds[0]

    def read(request: ScoringRequest) -> Any:
        return convert(typed_values(request, parameters)[name], kind, f"`{name}`")

    return read


def _has_schema(run: Callable[..., Any]) -> bool:
    util = sys.modules.get("inference_schema.schema_util")  # loaded by the script's own import of the decorators
    return util is not None and bool(util.is_schema_decorated(run))


def _find_refused_parameter(error: Exception, arguments: Json) -> Optional[str]:
    """Return what to tell the client when inference-schema could not convert a value: the script never saw it."""
    names: List[str] = []
    step = error.__traceback__
    while step is not None:
        module = str(step.tb_frame.f_globals.get("__name__", ""))
        code = step.tb_frame.f_code.co_name
        if module == "inference_schema.schema_decorators" and code == "_deserialize_input_argument":
            names.append(str(step.tb_frame.f_locals.get("param_name", "")))
        elif names and not module.startswith(("inference_schema", "numpy", "pandas")):
            return None
        step = step.tb_next
    return f"{names[-1]!r} cannot be read: {error}" if names else None
