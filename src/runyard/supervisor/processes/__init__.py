"""Owns the ranks of a run as processes: starts, adopts and kills them, and records how each ended.

May enter: the supervisor's other rooms.
Loads: `reaper` and `ranks` at the start, `killing` and `exits` at the end.
"""
