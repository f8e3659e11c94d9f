"""`Workspace`, `Experiment`, the server, the key vault, logging in.

May enter: every other room of the sdk; workspace and experiment import upwards inside functions.
Loads: with the first call.
"""
