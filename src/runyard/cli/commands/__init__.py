"""One module per noun of the command line, but for runs, which have a room of their own.

May enter: `cli.app`, by name.
Loads: when its command is typed.
"""
