"""The life of a run as the server decides it: submit, schedule, dispatch, watch, retry, cancel, end.

May enter: engine, sweeps, compute and ingest.
Loads: with the server.
"""
