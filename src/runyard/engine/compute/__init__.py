"""Compute targets as users see them: make, attach, change, delete, how each of them stands.

May enter: engine.
Loads: with the server.
"""
