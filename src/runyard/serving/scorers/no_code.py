"""Serve a model without an entry script: requests become rows, rows are joined, results are split again."""

from __future__ import annotations

import json
import sys
import time
import traceback
from typing import Callable, Dict, Hashable, List, Mapping, NamedTuple, Sequence, Tuple

from runyard.serving.scorers.base import NoCodeModel, Question
from runyard.serving.scripts import Batching
from runyard.serving.worker import swagger
from runyard.serving.worker.answers import ScoringOutcome, error_outcome, json_outcome
from runyard.serving.worker.calls import ScoringCall, failed_outcome, log_failure
from runyard.serving.worker.requests import BadRequest, ScoringRequest


class _AskedRows(NamedTuple):
    at: int
    request: ScoringRequest
    question: Question


class NoCodeCall(ScoringCall):
    """Answers with a model of a framework. Requests that ask alike are computed together."""

    batching = Batching()

    def __init__(self, model: NoCodeModel) -> None:
        self.model = model
        self.paths = self.model.paths
        self._warm_up()

    def answer(self, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
        outcomes: Dict[int, ScoringOutcome] = {}
        groups: Dict[Hashable, List[_AskedRows]] = {}
        for at, request in enumerate(requests):
            try:
                found = self.model.read(request)
            except BadRequest as fault:
                outcomes[at] = error_outcome(fault.status, str(fault))
                continue
            if isinstance(found, Question):
                key = (found.key, at) if found.key is None else found.key
                groups.setdefault(key, []).append(_AskedRows(at, request, found))
            else:
                outcomes[at] = json_outcome(found, 0)
        for group in groups.values():
            outcomes.update(self._answer_group(group))
        return [outcomes[at] for at in range(len(requests))]

    def _answer_group(self, group: List[_AskedRows]) -> Dict[int, ScoringOutcome]:
        started = time.perf_counter()
        try:
            rows = self.model.join([one.question.rows for one in group])
            result = self.model.predict(group[0].question.key, rows)
            parts = self.model.split(result, [one.question.size for one in group])
            taken_us = int((time.perf_counter() - started) * 1e6)
            return {one.at: json_outcome(one.question.write(part), taken_us) for one, part in zip(group, parts)}
        except BadRequest as fault:
            if len(group) == 1:
                return {group[0].at: error_outcome(fault.status, str(fault))}
        except Exception:
            if len(group) == 1:
                log_failure(group[0].request)
                return {group[0].at: failed_outcome(group[0].request)}
        outcomes: Dict[int, ScoringOutcome] = {}
        for one in group:  # together they fail: the bad one fails alone
            outcomes.update(self._answer_group([one]))
        return outcomes

    def _warm_up(self) -> None:
        try:
            question = self.model.sample()
            if question is not None:
                question.write(self.model.predict(question.key, question.rows))
        except Exception:
            print(
                f"runyard: the model did not answer a row of zeros:\n{traceback.format_exc()}", file=sys.stderr, end=""
            )


def load(
    kind: Callable[[str], NoCodeModel], folder: str, variables: Mapping[str, str]
) -> Tuple[NoCodeCall, Dict[str, str]]:
    """Return the way to call the model in `folder`, and its OpenAPI documents."""
    call = NoCodeCall(kind(folder))
    return call, _documents(call, variables)


def _documents(call: NoCodeCall, variables: Mapping[str, str]) -> Dict[str, str]:
    taken, given = call.model.schemas()
    return {
        name: json.dumps(swagger.document(version, taken, given, variables))
        for version, names in (("2", ("2", "2.0")), ("3", ("3", "3.0")), ("3.1", ("3.1",)))
        for name in names
    }
