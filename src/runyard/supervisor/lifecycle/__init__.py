"""The phases of a run on its node: prepare, lay out, watch, stop, outcome.

May enter: supervisor, gang and node.
Loads: phase by phase.
"""
