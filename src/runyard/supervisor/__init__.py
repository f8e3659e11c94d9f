"""One pair of processes per node and run: the reaper owns the ranks, the supervisor talks to the server.

May enter: nobody imports it; `python -m runyard.supervisor` starts it.
Loads: on nodes, so only the standard library and Python 3.8.
"""
