"""Typed HTTP client of the server: finds or starts the private one, sends requests, raises the server's errors
again.

May enter: sdk, supervisor, cli (through sdk).
Loads: in user processes and on nodes, so only the standard library.
"""
