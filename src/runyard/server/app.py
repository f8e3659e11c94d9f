"""The HTTP API as one ASGI app. Who asks is decided before it, by `auth`; what is answered, in `routes/`."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import runyard
from runyard.server import errors
from runyard.server.http.openapi import describe_bodies
from runyard.server.routes import (
    assets,
    bulk,
    charts,
    compute,
    content,
    datastores,
    deletes,
    environments,
    events,
    experiments,
    file_zips,
    files,
    gang,
    logs,
    many_runs,
    metrics,
    models,
    nodes,
    pages,
    plans,
    runs,
    secrets,
    server,
    snapshot_files,
    snapshots,
    supervisors,
    sweeps,
    table,
    users,
    workspaces,
)
from runyard.server.services import Services

API = "/api/v1"
MODULES = (
    server,
    workspaces,
    experiments,
    assets,
    compute,
    datastores,
    environments,
    models,
    secrets,
    runs,
    table,
    many_runs,
    supervisors,
    nodes,
    gang,
    metrics,
    charts,
    events,
    files,
    file_zips,
    logs,
    content,
    snapshots,
    snapshot_files,
    deletes,
    bulk,
    plans,
    sweeps,
    users,
)


def create_app(services: Services) -> FastAPI:
    """Return the app. `request.state.principal` must be set by the layer around it."""
    app = FastAPI(
        title="Runyard",
        version=runyard.__version__,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    for module in MODULES:
        app.include_router(module.router, prefix=API)
    app.include_router(pages.router)
    errors.add_handlers(app)
    app.add_middleware(errors.LastResort)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            app.openapi_schema = describe_bodies(schema, [module.router for module in MODULES], prefix=API)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
    return app
