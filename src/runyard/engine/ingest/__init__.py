"""What supervisors ship becomes stored data: sort it, decode journals, store columns, apply events.

May enter: engine.
Loads: with the server; numpy with the first journal.
"""
