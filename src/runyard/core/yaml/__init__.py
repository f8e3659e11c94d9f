"""YAML without a package: read run configurations, conda files and jobs, and write what others read the same.

May enter: everybody.
Loads: with the first YAML file that is read or written.
"""
