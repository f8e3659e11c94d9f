"""Several nodes as one job: they wait for each other, share facts, and agree on the end.

May enter: supervisor, external_run and node.
Loads: for jobs of more than one supervisor; `peers` always.
"""
