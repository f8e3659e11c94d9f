"""`runyard server repair`: what can be read of a damaged SQLite file becomes a consistent new one.

May enter: server/storage/repair.
Loads: for that command only.
"""
