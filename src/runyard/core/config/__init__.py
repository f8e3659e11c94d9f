"""Where settings come from and where files go: variables, settings files, folders, logins.

May enter: everybody.
Loads: at every start.
"""
