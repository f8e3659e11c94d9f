"""Configuration objects and their files: checked attributes, YAML and JSON, tags.

May enter: the sdk's other rooms.
Loads: with the first configuration object.
"""
