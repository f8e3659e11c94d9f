"""The backend for machines over SSH.

May enter: `compute` finds it by name.
Loads: when a target names hosts. `host_script.py` is sent to the host and run there.
"""
