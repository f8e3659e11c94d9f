"""`runyard import` and `runyard export`: histories of other trackers come in, and ours go out.

May enter: `cli.app`, by name.
Loads: when its command is typed.
"""
