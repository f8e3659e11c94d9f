"""Several nodes as one job: their supervisors wait for each other, share facts, and agree on the end.

May enter: supervisor, external_run and node.
Loads: for jobs with more than one supervisor; `peers` always.
"""
