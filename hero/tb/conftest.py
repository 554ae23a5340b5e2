"""Makes `run` importable from each bench, and runs the benches that ask for `simulator` on both of them."""

import pytest

from run import SIMULATORS

QUICKER = "icarus"  # for small modules, because it compiles nothing


@pytest.fixture(params=[pytest.param(name, marks=[] if name == QUICKER else pytest.mark.slow) for name in SIMULATORS])
def simulator(request):
    return request.param
