"""Private parts of Azure's runs that libraries around the SDK import."""

from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)
