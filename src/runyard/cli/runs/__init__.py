"""Commands about runs: submit, list, show, follow, compare, export; sweeps and snapshots.

May enter: `cli.app`, by name.
Loads: when its command is typed.
"""
