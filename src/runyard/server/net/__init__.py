"""Sockets: the unix socket and loopback port, the team's port with TLS, HTTP limits before a token is known.

May enter: lifecycle and loop.
Loads: with the server.
"""
