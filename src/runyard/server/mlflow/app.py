"""The door for MLflow's clients: every path below `/mlflow/`, found in the table of endpoints.

The base is `/mlflow/<workspace>`, or Azure's long form of it. All errors have MLflow's body; a path that is not in the
table is ENDPOINT_NOT_FOUND, which clients take as "this server is older".
"""

from __future__ import annotations

import re

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from runyard.server.access.hosts import is_unix
from runyard.server.errors import MLFLOW_PREFIX
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import RequestContext, services_of
from runyard.server.http.requests import read_body
from runyard.server.mlflow import artifacts, experiments, inputs, metrics, runs, search
from runyard.server.mlflow.endpoints import Call, Document, Endpoint, find_endpoint
from runyard.server.mlflow.errors import ENDPOINT_NOT_FOUND, MlflowError, answer_of
from runyard.server.mlflow.requests import Fields, fields_of
from runyard.server.registry import logged, logged_search, names, versions
from runyard.server.registry import search as registry_search

VERSION = "3.3.0"  # of MLflow's server: clients send a later one their spans by OTLP
BODY_LIMIT = 16 << 20
MODULES = (
    artifacts,
    experiments,
    inputs,
    metrics,
    runs,
    search,
    logged,
    logged_search,
    names,
    registry_search,
    versions,
)  # importing a module adds its endpoints
_AZURE = r"v[12]\.0/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.MachineLearningServices/workspaces/"
_PATH = re.compile(rf"(?P<base>/mlflow/(?:{_AZURE})?(?P<workspace>[^/]+))/(?P<rest>.+)")
_API = re.compile(r"(?:ajax-)?api/[23]\.0/(?P<path>.+)|(?P<page>get-artifact|model-versions/get-artifact)")


class MlflowDoor:
    """Answers the requests of MLflow's clients, and passes all others on to `app`.

    It stands before the app's own routes: to look a request up among them takes longer than to store a point.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(MLFLOW_PREFIX):
            await self._app(scope, receive, send)
            return
        try:
            answer = await _answer(Request(scope, receive, send))
        except ClientDisconnect:
            raise
        except Exception as error:  # the edge of this door: its clients read no other body
            answer = answer_of(error)
        await answer(scope, receive, send)


async def _answer(request: Request) -> Response:
    place = _PATH.fullmatch(request.scope["path"])
    if place is None:
        raise _no_endpoint(request)
    if request.method == "GET" and place["rest"] in ("health", "version"):
        return Response("OK" if place["rest"] == "health" else VERSION, media_type="text/plain")
    api = _API.fullmatch(place["rest"])
    found = None if api is None else find_endpoint(request.method, api["path"] or api["page"])
    if found is None:
        raise _no_endpoint(request)
    endpoint, parts = found
    context = RequestContext(services_of(request), request.state.principal, endpoint.verbs, is_unix(request.scope))
    if endpoint.streamed is not None:
        call = Call(context, place["workspace"], place["base"], parts, Fields(request.query_params), request)
        await run_in_threadpool(call.ensure_workspace)
        return await endpoint.streamed(call)
    fields = fields_of(await read_body(request, BODY_LIMIT), request.query_params)
    call = Call(context, place["workspace"], place["base"], parts, fields, request)
    return json_answer(await run_in_threadpool(_work, endpoint, call))


def _work(endpoint: Endpoint, call: Call) -> Document:
    assert endpoint.work is not None
    call.ensure_workspace()
    return endpoint.work(call)


def _no_endpoint(request: Request) -> MlflowError:
    return MlflowError(
        f"This server has no endpoint {request.method} {request.scope['path'][:200]} of MLflow's REST API.",
        ENDPOINT_NOT_FOUND,
    )
