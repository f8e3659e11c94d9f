"""Runyard: submit training runs, track them, tune them and scale them on machines you own."""

__version__ = "0.1.0"
