"""The `azureml` façade of Runyard. Other parts of `azureml` that are installed elsewhere still import."""

import sys

from runyard.sdk.names import absent_names

__path__ = __import__("pkgutil").extend_path(__path__, __name__)
__getattr__ = absent_names(__name__)  # also `import azureml` and then `azureml.core.VERSION`, as notebooks do


class _LastFinder:
    """Asked when nobody has a module: those of Azure's SDK that Runyard lacks are refused with words."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]  # the import system's own signature
        if not name.startswith("azureml."):
            return None
        from runyard.sdk.absent import find_module

        return find_module(name)


sys.meta_path.append(_LastFinder)
