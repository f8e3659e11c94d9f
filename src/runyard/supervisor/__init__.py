"""One pair of processes per node and run: the reaper owns the ranks, the supervisor talks to the server.

Entered by: nothing imports this package; a backend starts it with `python -m runyard.supervisor`. Loads: on nodes, so
it needs only Python 3.8 and the standard library.
"""
