"""The nouns of Runyard and the rules between them: specs, records, statuses, names, errors.

May enter: everybody.
Loads: everywhere, so only the standard library and Python 3.8.
"""
