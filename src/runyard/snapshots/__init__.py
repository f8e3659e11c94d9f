"""A source folder becomes a snapshot, and back. Standard library only; Python 3.8 and newer."""
