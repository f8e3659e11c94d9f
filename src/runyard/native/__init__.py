"""Runyard's own API, for programs that never saw Azure: `runyard.run`, `init`, `log`, `runs`, `get` and `wait`.

It is a thin layer over `sdk`, typed throughout. Public names are loaded by `runyard/__init__.py` with their first use.
"""
