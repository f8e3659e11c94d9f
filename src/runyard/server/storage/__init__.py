"""The server's disk and database as things that can fill, fail or be swapped: health, quotas, collection, repair.

May enter: lifecycle, services and routes.
Loads: with the server; `repair` for its command only.
"""
