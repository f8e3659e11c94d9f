"""The web page as it was built from `web/`. It gets its data from the HTTP API like everyone else.

May enter: server.
Loads: with the server.
"""
