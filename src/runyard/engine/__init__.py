"""Decides what happens to runs, sweeps and compute targets. `engine.Engine` is the door; `loop` calls it without a
request.

May enter: server.
Loads: with the server.
"""
