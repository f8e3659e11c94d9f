"""Parts of others (`azureml.contrib.…`) still import."""

from runyard.sdk.names import absent_names

__path__ = __import__("pkgutil").extend_path(__path__, __name__)
__getattr__ = absent_names(__name__)
