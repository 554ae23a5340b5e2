"""Ports whose interface is moved to another network namespace and back."""

import functools

import pytest
from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6

from lib import packets
from lib.netns import Namespace
from lib.packets import udp4, udp6
from lib.topology import Network
from lib.waiting import until

SECONDS = 20
wait_for = functools.partial(until, seconds=SECONDS)


@pytest.fixture(params=["", "-generic"], ids=["driver", "generic"])
def net(request, bora_path):
    """A network with Bora running."""
    network = Network(bora_path + request.param)
    yield network
    network.close()


@pytest.fixture
def elsewhere():
    """Another namespace, in which r1 gets the same addresses but nothing is forwarded."""
    namespace = Namespace("e")
    namespace.set_sysctl("net/ipv6/conf/default/accept_dad", 0)
    yield namespace
    namespace.close()


def move_away(net, elsewhere):
    net.router.ip("link", "set", "r1", "netns", elsewhere.name)
    elsewhere.batch([
        "link set r1 up",
        f"address add {net.router4(1)}/24 dev r1",
        f"address add {net.router6(1)}/64 dev r1 nodad",
        f"neighbour replace {net.host4(1)} lladdr {net.host_mac(1)} dev r1",
        f"neighbour replace {net.host6(1)} lladdr {net.host_mac(1)} dev r1",
    ])


def is_answered(net, request):
    """Whether host 1 gets an answer to an echo request to the address of r1."""
    net.hosts[1].drain()
    net.hosts[1].send(net.frame(bytes(request), 1))
    answers = [frame for host, frame in net.collect(1, 2.0) if host == 1]
    return any(frame[6:12] == packets.mac(net.router_mac(1)) for frame in answers)


def test_moved_away(net, elsewhere):
    """In the other namespace it is an ordinary interface, and none of its packets are forwarded here."""
    move_away(net, elsewhere)
    echo4 = IP(src=net.host4(1), dst=net.router4(1)) / ICMP()
    echo6 = IPv6(src=net.host6(1), dst=net.router6(1)) / ICMPv6EchoRequest()
    for _ in range(5):
        assert is_answered(net, echo4) and is_answered(net, echo6), "packets to the interface itself are lost"
    for port in net.hosts:
        port.drain()
    for make, address in [(udp4, net.behind4), (udp6, net.behind6)] * 10:
        net.hosts[1].send(net.frame(make(address(1), address(0)), 1))
    assert net.probe(4, SECONDS, to=2) and net.probe(6, SECONDS, to=2), "the other ports still forward"
    leaked = [host for host, _ in net.extra + net.collect() if host != 1]
    assert not leaked, "packets of the other namespace were forwarded"


@pytest.mark.parametrize("number", ["the same", "another"])
def test_moved_back(net, elsewhere, number):
    """It is the port again, even if another interface has got its ifindex meanwhile."""
    index = net.router.ip("-o", "link", "show", "r1").stdout.split(":")[0]
    move_away(net, elsewhere)
    assert net.probe(4, SECONDS, to=2), "the other ports still forward"
    if number == "another":
        net.router.ip("link", "add", "other", "index", index, "up", "type", "veth", "peer", "name", "rehto")
    wait_for("the port is gone", lambda: port_state(net) != "up")
    elsewhere.ip("link", "set", "r1", "netns", net.router.name)
    net.configure_link(1)
    wait_for("the port is up", lambda: port_state(net) == "up")
    wait_for("IPv4 out of it", lambda: net.probe(4, 0.5))
    wait_for("IPv6 out of it", lambda: net.probe(6, 0.5))
    wait_for("IPv4 in by it", lambda: net.probe(4, 0.5, link=1, to=0))
    before = sent(net)
    wait_for("IPv6 in by it", lambda: net.probe(6, 0.5, link=1, to=0))
    assert sent(net) > before, "Linux forwards, Bora does not"
    net.bora.check_conservation()


def port_state(net):
    return {port["name"]: port["state"] for port in net.bora.show("ports")}.get("r1")


def sent(net):
    return net.bora.totals()["sent"]
