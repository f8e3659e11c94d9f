"""Sends a node's part of a run to the server: journals, logs, files and heartbeats, across outages and refusals.

May enter: lifecycle, gang, external_run and supervisor.
Loads: at the start; the rare parts (`salvage`, `refusals`, `tensorboard`) when there is something for them.
"""
