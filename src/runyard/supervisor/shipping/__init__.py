"""What a node sends to the server while a run lives: journals, logs, files, heartbeats; what to do when it is
refused or away.

May enter: lifecycle, gang, external_run and supervisor.
Loads: at the start, and the rare parts (`salvage`, `refusals`, `tensorboard`) when there is something for them.
"""
