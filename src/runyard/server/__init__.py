"""The HTTP API: `app` puts routes together, `lifecycle` starts and ends the process, `services` is what routes
work with.

May enter: cli, only to start it.
Loads: in the server's process.
"""
