"""From a configuration to a submitted run: check, plan, snapshot, send.

May enter: workspaces (experiment), sweeps, estimators, cli.
Loads: with the first submit.
"""
