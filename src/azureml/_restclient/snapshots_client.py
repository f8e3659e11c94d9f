"""The limit that scripts raise before they submit a large folder. Snapshots have none here: setting it does nothing."""

from __future__ import annotations

from runyard.sdk.names import absent_names

SNAPSHOT_MAX_SIZE_BYTES = 300 * 1024 * 1024

__getattr__ = absent_names(__name__)

__all__ = ["SNAPSHOT_MAX_SIZE_BYTES"]
