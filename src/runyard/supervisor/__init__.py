"""One process pair per node and run: the reaper owns the processes, the supervisor talks to the server."""
