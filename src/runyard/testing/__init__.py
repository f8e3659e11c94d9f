"""Fakes and conformance suites for authors of a backend, a store or an artifact store.

May enter: tests, here and in plug-ins.
Loads: in tests.
"""
