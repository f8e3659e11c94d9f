"""Datastores and datasets: where a workspace's data lies, and what a reference to it becomes on a node.

May enter: sdk, supervisor; the server for its own datastore.
Loads: when a run or a call has data; most runs load nothing of it.
"""
