"""One pair of processes per node and run: the reaper owns the ranks, the supervisor talks to the server.

May enter: no other package; backends start it with `python -m runyard.supervisor`.
Loads: on nodes, so only the standard library and Python 3.8.
"""
