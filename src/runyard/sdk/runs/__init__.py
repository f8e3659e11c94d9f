"""`Run` inside and outside of a script: metrics, files, logs, children, notebooks.

May enter: workspaces, sweeps, submit, estimators, models.
Loads: `context` in every script that asks for its run; the rest with the first use.
"""
