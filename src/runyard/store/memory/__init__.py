"""A RunStore in memory: for tests, and the simplest reading of the contract.

May enter: `store` finds it by name.
Loads: in tests.
"""
