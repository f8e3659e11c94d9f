"""The ranks as processes: start, own, adopt, kill, and how each of them ended.

May enter: the supervisor's other rooms.
Loads: `reaper` and `ranks` at the start, `killing` and `exits` at the end.
"""
