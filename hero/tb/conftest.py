"""Makes `run` importable from each bench, and runs the benches that ask for `simulator` on both of them."""

import pytest

from run import SIMULATORS


def pytest_configure(config):
    config.addinivalue_line("markers", "long: of `make hero-regress`, not of `make hero-test`")


@pytest.fixture(params=SIMULATORS)
def simulator(request):
    return request.param
