"""Datastores: where a workspace's data lies, and what a reference to it becomes on a node."""
