"""Interfaces disappear while packets flow: all their frames must be returned."""

import functools
import time

import pytest

from lib.bora import Bora, binary
from lib.netns import Namespace
from lib.port import Port
from lib.topology import Network
from lib.traffic import both_families, load
from lib.waiting import until

pytestmark = pytest.mark.bora
ROUNDS = 3
SECONDS = 20
wait_for = functools.partial(until, seconds=SECONDS)
SLOW = """path = "engine"
[workers]
cores = [0, 1]
[[port]]
name = "r0"
[[port]]
name = "r1"
[port.queues]
rate = "100kbit"
"""


@pytest.fixture
def net():
    """The engine on three ports."""
    network = Network("engine")
    yield network
    network.close()


@pytest.fixture
def elsewhere():
    """Another namespace."""
    namespace = Namespace("e")
    yield namespace
    namespace.close()


def is_forwarding(net):
    """Whether packets leave by r1, and not through Linux."""
    before = net.bora.totals()["sent"]
    return net.probe(4, 0.5) and net.bora.totals()["sent"] > before


def frames(net):
    return net.bora.show("frames")


def make_again(net):
    """A new cable to host 1."""
    host = net.namespaces[2]
    net.hosts[1].close()
    net.router.ip("link", "add", "r1", "address", net.router_mac(1), "type", "veth",
                  "peer", "name", "h1", "address", net.host_mac(1), "netns", host.name)
    host.exec("ethtool", "-K", "h1", "gro", "on")
    host.ip("link", "set", "h1", "arp", "off", "up")
    net.hosts[1] = Port(host.name, "h1")


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["down", "deleted", "moved"])
def test_an_interface_goes_under_load(net, elsewhere, fate):
    """Each time, all frames of its sockets are back in the pool before the interface is made again."""
    for _ in range(ROUNDS):
        with load(net, both_families(net), 0):
            time.sleep(0.5)
            net.router.ip("link", "set", "r1", "down")
            time.sleep(0.1)
            if fate == "deleted":
                net.router.ip("link", "del", "r1")
            elif fate == "moved":
                net.router.ip("link", "set", "r1", "netns", elsewhere.name)
            if fate != "down":
                wait_for("its sockets are closed", lambda: frames(net)["rings"].get("r1", 0) == 0)
        net.bora.check_conservation(5)
        if fate == "deleted":
            make_again(net)
        elif fate == "moved":
            elsewhere.ip("link", "set", "r1", "netns", net.router.name)
        net.configure_link(1)
        wait_for("it forwards again", lambda: is_forwarding(net))
    net.bora.check_conservation(5)


def test_an_interface_goes_while_its_queues_send(elsewhere, tmp_path):
    """A slow port that is being closed when its interface goes: its frames come back, once."""
    net = Network(queues=2)
    try:
        net.router.exec("ethtool", "-L", "r1", "rx", "1")
        (tmp_path / "bora.toml").write_text(SLOW)
        net.bora = Bora(net.router, [], None, ["--config", str(tmp_path / "bora.toml")])
        net.bora.start()
        net.wait_until_forwarding()
        with load(net, both_families(net, fill=b"x" * 1000), 20_000):
            time.sleep(0.5)
            net.router.exec("ethtool", "-L", "r1", "rx", "2")
            wait_for("it is being closed", lambda: "still send" in net.bora.output())
            net.router.ip("link", "set", "r1", "netns", elsewhere.name)
            wait_for("its sockets are closed", lambda: frames(net)["rings"].get("r1", 0) == 0)
        net.bora.check_conservation(5)
    finally:
        net.close()


def test_frames_are_shown(net):
    """The table has a row for each place, and their sum."""
    text = net.router.exec(binary(), "show", "frames").stdout
    for place in ("reserve", "workers' pools", "rings of r0", "held by workers", "of closed sockets", "all"):
        assert place in text, text
    rings = frames(net)["rings"]
    assert set(rings) == {"r0", "r1", "r2"} and min(rings.values()) >= 1024, rings
