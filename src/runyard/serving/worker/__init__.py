"""Runs an entry script or a model in the user's interpreter: the host starts worker processes, each answers requests.

May enter: serving's other rooms by command line alone. Loads: in replicas of services, so only the standard library.
"""
