"""Stands in for Microsoft's package in the process of the export script: a service whose answers are written down."""
