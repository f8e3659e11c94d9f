"""The backend for Ray clusters.

May enter: `compute` finds it by name.
Loads: when a target names a Ray cluster. `bridge.py` is run by path under an interpreter that has the cluster's
Ray.
"""
