"""`ComputeTarget` and its kinds, and the test of a target's nodes.

May enter: workspaces, submit, cli.
Loads: when a target is made or looked at. `node_check.py` runs on the node.
"""
