"""`Model`: register, find, download.

May enter: workspaces, runs, cli.
Loads: when a model is named.
"""
