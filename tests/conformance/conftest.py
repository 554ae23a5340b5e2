"""The network of the conformance tests: one for each backend and module."""

import pytest

from lib.topology import Network


@pytest.fixture(scope="module")
def network(backend, request):
    """Router and hosts with the backend running."""
    network = Network(backend, over=request.config.getoption("over"))
    yield network
    network.close()


@pytest.fixture
def net(network):
    """The network for one test. Afterwards: configuration undone, Bora alive, every packet accounted for."""
    bora = network.bora
    if bora is not None and not bora.alive():
        bora.stop()
        bora.start()
        network.wait_until_forwarding()
    yield network
    network.undo()
    if bora is not None:
        assert bora.alive(), f"bora died during this test:\n{bora.output()}"
        bora.check_conservation()
