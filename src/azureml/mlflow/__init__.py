"""Stands behind `ws.get_mlflow_tracking_uri()`, which is not there yet."""

__path__ = __import__("pkgutil").extend_path(__path__, __name__)
