"""Command lines: commands, groups, options, arguments, their help and their completion; the standard library alone.

`runyard.cli` hands out what command modules need of it: `from runyard import cli`, then `@cli.option(...)`.

May enter: `cli`. Loads: with every command, but `help` and `completion` when they are asked for.
"""
