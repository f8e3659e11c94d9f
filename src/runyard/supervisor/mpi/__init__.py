"""mpirun on many nodes without SSH: find it, and start its daemons through our supervisors.

May enter: lifecycle and gang.
Loads: for MPI jobs. `agent.py` is run by path in place of ssh.
"""
