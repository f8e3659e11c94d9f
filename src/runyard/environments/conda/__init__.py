"""The conda builder: solve, install a prefix, translate names between conda and pip.

May enter: `environments` finds it by name.
Loads: when a run asks for conda packages. `solver.py` is run by path under an interpreter that has rattler.
"""
