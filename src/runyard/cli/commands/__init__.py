"""One module per noun of the command line.

May enter: `cli.app`, by name.
Loads: when its command is typed.
"""
