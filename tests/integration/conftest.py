"""Networks of the integration tests."""

import pytest

from lib.bora import Bora
from lib.topology import Network


@pytest.fixture
def net(backend):
    """Router and hosts with the backend running, for one test."""
    network = Network(backend)
    yield network
    network.close()


@pytest.fixture
def kernel_net():
    """Router and hosts without Bora, for tests that start it themselves."""
    network = Network("kernel")
    yield network
    network.close()


@pytest.fixture
def engine(kernel_net):
    """Starts an engine with options on the kernel's network."""

    def start(*options):
        kernel_net.bora = Bora(kernel_net.router, ["r0", "r1", "r2"], "engine", options)
        kernel_net.bora.start()
        kernel_net.bora.wait_in_sync()
        return kernel_net

    return start


@pytest.fixture
def say(capsys):
    """Prints a line of results, bypassing pytest's capture, because the numbers are part of the result."""

    def say(line):
        with capsys.disabled():
            print(f"\n    {line}", end="", flush=True)

    return say
