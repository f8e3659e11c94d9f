"""The web page as it was built from `web/`; it gets its data from the HTTP API like everyone else."""
