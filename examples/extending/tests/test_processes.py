from runyard.testing.compute_backend import ComputeBackendSuite


class TestProcessBackend(ComputeBackendSuite):
    """Every test of the suite, with the fixture `bench` of conftest.py."""
