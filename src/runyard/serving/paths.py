"""Which part of a service a path names: the same behind the gateway and in a packaged model."""

from __future__ import annotations

_TENSORFLOW = {"predict": "/predict", "classify": "/classify", "regress": "/regress"}


def inner_path(path: str, name: str) -> str:
    """Return the path inside the service `name`, with its own name left out."""
    if path in ("/score", "/", "/swagger.json"):
        return path
    models = f"/v2/models/{name}"
    if path == models or path.startswith(models + "/"):
        rest = path[len(models) :].split("/")[1:]
        if rest[:1] == ["versions"]:
            rest = rest[2:]
        return {"": "/v2/metadata", "infer": "/v2/infer", "ready": "/v2/ready"}.get("/".join(rest), path)
    for place in (f"/v1/models/{name}", "/score"):
        if path.startswith(place + ":"):
            return _TENSORFLOW.get(path[len(place) + 1 :], path)
    return path
