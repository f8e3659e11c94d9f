"""Names of Azure's own that people's scripts set."""

from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)
