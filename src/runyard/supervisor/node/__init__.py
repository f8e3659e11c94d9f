"""A node of a cluster joins a run: it installs our code, asks the server for its part, and starts a supervisor.

May enter: main.
Loads: on the nodes of clusters. `bootstrap.py` is sent to the node as text and runs there.
"""
