"""Names of Azure's own that people's scripts set."""
