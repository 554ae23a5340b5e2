"""Makes `run` importable from each bench, and runs the benches that ask for `simulator` on both of them."""

import pytest

from run import SIMULATORS


@pytest.fixture(params=SIMULATORS)
def simulator(request):
    return request.param
