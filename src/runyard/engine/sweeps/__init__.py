"""Hyper-parameter sweeps: which children are made, stopped and waited for, from an event journal.

May enter: engine.
Loads: with the server; samplers with the first sweep.
"""
