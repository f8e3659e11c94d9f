"""The calls of the API, one module per resource. A call is one request and its answer as a typed value.

May enter: `client.client.Client` only.
Loads: each module with the first use of its resource.
"""
