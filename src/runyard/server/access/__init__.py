"""Authentication and authorization: tokens, sessions, sign-in, the table of rights, limits per caller.

May enter: every other room of the server.
Loads: with the server.
"""
