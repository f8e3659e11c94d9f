"""One function per route: parse, ask for the right, call one function, answer.

May enter: app.
Loads: with the server.
"""
