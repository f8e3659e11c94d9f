"""What the engine keeps in memory and on its disk: queue, slots, targets, backends, spool, leases of machines.

May enter: the engine's other rooms.
Loads: with the server; made anew from the store at its start.
"""
