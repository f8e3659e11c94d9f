"""As imports have it: a private server that all tests of a file share, and a workspace for each test."""

from tests.imports.conftest import client, shared_home, workspace

__all__ = ["client", "shared_home", "workspace"]
