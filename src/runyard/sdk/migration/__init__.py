"""Moving from Azure ML: what `runyard check` reads in code and configuration files, and what it says of each use.

May enter: the command line and the scripts that write the reference pages. Loads: with `runyard check`; it loads every
module of the SDK, because it looks at what they have.
"""
