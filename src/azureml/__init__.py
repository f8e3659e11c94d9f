"""The `azureml` façade of Runyard. Other parts of `azureml` that are installed elsewhere still import."""

__path__ = __import__("pkgutil").extend_path(__path__, __name__)


def __getattr__(name: str) -> object:
    """`import azureml` and then `azureml.core.VERSION`: notebooks do, without importing azureml.core."""
    if name != "core":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module("azureml.core")
