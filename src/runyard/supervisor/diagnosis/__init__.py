"""Why a run failed or hangs: which rank failed first, its exception, its last lines, its stacks.

May enter: lifecycle, gang and supervisor.
Loads: at the end of a run that failed, and when ranks seem to hang.
"""
