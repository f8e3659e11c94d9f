"""The HTTP API as one ASGI app. `access` finds the principal before it; the functions in `routes/` answer."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

import runyard
from runyard.server import errors
from runyard.server.http.openapi import make_document
from runyard.server.mlflow.app import MlflowDoor
from runyard.server.routes import (
    assets,
    compute,
    content,
    events,
    files,
    imports,
    logs,
    metrics,
    models,
    pages,
    runs,
    supervisors,
    users,
    webservices,
    workspaces,
)
from runyard.server.services import Services

API = "/api/v1"
ROUTERS = tuple(
    module.router
    for module in (
        assets,
        compute,
        content,
        events,
        files,
        imports,
        logs,
        metrics,
        models,
        runs,
        supervisors,
        users,
        webservices,
        workspaces,
    )
)


def create_app(services: Services) -> FastAPI:
    """Return the app. `request.state.principal` must be set by the layer around it."""
    app = new_app()
    app.state.services = services
    app.include_router(pages.router)
    errors.add_handlers(app, pages.no_such_page)
    app.add_middleware(MlflowDoor)
    app.add_middleware(errors.LastResort)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            from runyard.server.routes import signin  # a server that is never asked starts without it

            app.openapi_schema = make_document(app, (*ROUTERS, signin.router), prefix=API)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
    return app


def new_app() -> FastAPI:
    """Return the API without the services that answer it."""
    app = FastAPI(
        title="Runyard",
        version=runyard.__version__,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router, prefix=API)
    return app
