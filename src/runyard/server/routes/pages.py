"""Routes of the studio: one page for all its addresses, and the files that it loads. Its data come from the API."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from runyard.core.errors import NotFound
from runyard.server.http.calls import call_of
from runyard.studio.built import NOT_BUILT, find_file, find_page

router = APIRouter(include_in_schema=False)
# A file's name changes with its content, so a browser may keep it; only its owner's, for pages need a session.
KEEP = "private, max-age=31536000, immutable"
PAGES = (
    "/",
    "/runs",
    "/runs/{name}",
    "/experiments",
    "/compare",
    "/sweeps/{name}",
    "/environments",
    "/environments/{name}",
    "/compute",
    "/compute/{name}",
    "/datasets",
    "/datasets/{name}",
    "/models",
    "/models/{name}",
    "/services",
    "/services/{name}",
)


@router.get("/static/{name}")
def static_file(name: str, request: Request) -> Response:
    call_of(request).require("read_server")
    file = find_file(name)
    if file is None:
        raise NotFound(
            "The page has no such file.", why="Another version of it was built meanwhile.", hint="Reload it."
        )
    headers = {"Cache-Control": "no-cache" if name == "icon.svg" else KEEP, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.body, media_type=file.media_type, headers=headers)


@router.get("/api/docs")
def api_page(request: Request) -> Response:
    """Show the OpenAPI document to people."""
    from runyard.server.http import api_page  # loaded when it is first asked for

    call_of(request).require("list_runs")
    headers = {"Content-Security-Policy": api_page.POLICY}
    return Response(api_page.page(request.app.openapi()), media_type="text/html; charset=utf-8", headers=headers)


def page(request: Request) -> Response:
    call_of(request).require("list_runs")
    return _html(200)


def no_such_page() -> Response:
    """The page says so itself, with the way back."""
    return _html(404)


def _html(status: int) -> Response:
    found = find_page()
    return Response(found or NOT_BUILT, status_code=status if found else 503, media_type="text/html; charset=utf-8")


for _path in PAGES:
    router.add_api_route(_path, page, methods=["GET"])
