"""`Datastore`, `Dataset` and how a script is given them.

May enter: submit, runs, workspaces.
Loads: when data is named.
"""
