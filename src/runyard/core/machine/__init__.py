"""Facts of the machine and its disk: GPUs, processes, addresses, files that are written whole or kept private.

May enter: everybody.
Loads: each module with its first user.
"""
