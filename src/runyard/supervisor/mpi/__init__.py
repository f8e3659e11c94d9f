"""mpirun on many nodes without SSH: finds Open MPI, and starts its daemons through our supervisors.

May enter: lifecycle and gang.
Loads: for MPI jobs. mpirun runs `agent.py` by path in place of ssh.
"""
