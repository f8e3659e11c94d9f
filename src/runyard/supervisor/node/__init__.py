"""A node of a cluster joins a run: bootstrap, join, its part of the job.

May enter: main.
Loads: on cluster nodes. `bootstrap.py` is sent along as text and run there.
"""
