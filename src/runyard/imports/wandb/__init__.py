"""Weights & Biases: the record files that its client writes, and the folders of its offline runs.

May enter: cli. Loads: when such a folder is imported.
"""
