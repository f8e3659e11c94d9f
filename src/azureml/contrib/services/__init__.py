"""Requests and answers as entry scripts with `@rawhttp` see them; here too, so that a script can be tried by itself."""

from __future__ import annotations

from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ()
