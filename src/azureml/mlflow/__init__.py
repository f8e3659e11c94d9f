"""`azureml.mlflow`: what Azure adds to MLflow. The plug-in itself is found by MLflow."""

from runyard.mlflow.azure import (
    get_mlflow_tracking_uri,
    get_mlflow_tracking_uri_v2,
    get_portal_url,
    register_model,
)
from runyard.sdk.names import absent_names

__path__ = __import__("pkgutil").extend_path(__path__, __name__)
__getattr__ = absent_names(__name__)

__all__ = ["get_mlflow_tracking_uri", "get_mlflow_tracking_uri_v2", "get_portal_url", "register_model"]
