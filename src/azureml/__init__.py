"""The `azureml` façade of Runyard. Other parts of `azureml` that are installed elsewhere still import."""

__path__ = __import__("pkgutil").extend_path(__path__, __name__)
