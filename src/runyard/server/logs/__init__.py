"""Reading log files of runs: index of lines, pages, search.

May enter: routes.
Loads: with the first log that is read.
"""
