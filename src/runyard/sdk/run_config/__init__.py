"""`ScriptRunConfig` and `RunConfiguration`: resources and distribution.

May enter: submit, estimators, sweeps.
Loads: with the first run configuration.
"""
