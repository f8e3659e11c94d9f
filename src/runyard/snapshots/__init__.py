"""A source folder becomes a snapshot, and a snapshot becomes a folder.

May enter: sdk, supervisor.
Loads: at a submit and when a node prepares a run; only the standard library.
"""
