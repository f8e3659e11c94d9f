"""The control plane of web services: what shall be served, and the runs and the gateway that serve it.

May enter: what decides about services. Requests to services themselves never come here: see `runyard.serving`.
Loads: when the first service is asked for, or when a server starts that has some.
"""
