"""Requests and answers: parse bodies and queries, stream files and zips, the context of one call.

May enter: routes.
Loads: with the server.
"""
