"""Azure ML (SDK v1): the script that exports a workspace, and the reader of the folder that it writes.

May enter: cli. Loads: when a workspace is imported, or its script printed.
"""
