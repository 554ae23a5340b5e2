"""One router with a host on a veth, and something else behind its other port:

    h0 -- r0 [router] b0 -- h1

10.0.N.0/24 and 2001:db8:N::/64 are host N's.
"""

import os
import socket

import pytest

from lib.bora import Bora
from lib.netns import inside
from lib.ping import ping
from lib.testbed import Testbed

COUNT = 300


class Router(Testbed):
    """h0 -- r0 [router] and a namespace h1 for what is behind the other port."""

    def __init__(self):
        super().__init__()
        self.router = self._router()
        self.host, self.other = (self._namespace(role) for role in ("h0", "h1"))
        self.router.ip("link", "add", "r0", "type", "veth", "peer", "name", "h0", "netns", self.host.name)
        self.address(self.router, "r0", 0, 1)
        self.address(self.host, "h0", 0, 2)
        self.default_route(self.host, 0)

    @staticmethod
    def address(namespace, device, link, end):
        namespace.batch([
            f"link set {device} up",
            f"address replace 10.0.{link}.{end}/24 dev {device}",
            f"address replace 2001:db8:{link}::{end}/64 dev {device} nodad",
        ])

    @staticmethod
    def default_route(namespace, link):
        namespace.batch([f"route add default via 10.0.{link}.1", f"route add default via 2001:db8:{link}::1"])

    def start(self, port, options=(), program=None):
        """Starts Bora with r0 and this port, whose twin is b0; `program` is another binary than usual."""
        self.bora = Bora(self.router, ["r0", port], "engine", options, program)
        self.bora.start()
        self.address(self.router, "b0", 1, 1)

    def give_veth(self):
        """Makes the veth p1 -- h1, with p1 for nobody but the port (docs/ports.md, af_packet)."""
        self.router.ip("link", "add", "p1", "type", "veth", "peer", "name", "h1", "netns", self.other.name)
        self.router.set_sysctl("net/ipv6/conf/p1/disable_ipv6", 1)
        self.router.set_sysctl("net/ipv4/conf/p1/rp_filter", 1)
        self.router.set_sysctl("net/ipv4/conf/p1/forwarding", 0)
        self.router.exec("ethtool", "-K", "p1", "gro", "off")
        self.other.exec("ethtool", "-K", "h1", "tso", "off", "gso", "off", "tx", "off")
        self.router.ip("link", "set", "p1", "arp", "off", "up")
        self.address(self.other, "h1", 1, 2)
        self.default_route(self.other, 1)

    def port(self):
        return self.bora.show("ports")[1]


@pytest.fixture
def network():
    """For tests, which import it."""
    router = Router()
    yield router
    router.close()


def check_traffic(network, say):
    """Pings the router itself through the twin, then tests transit in both directions, both families, all sizes."""
    for address in ("10.0.1.1", "2001:db8:1::1"):
        assert ping(network.other, address), "the router's own address, through the twin"
        assert len(ping(network.other, address, 100)) == 100
    for there, back in (("10.0.1.2", "10.0.0.2"), ("2001:db8:1::2", "2001:db8:0::2")):
        assert ping(network.host, there)
        network.bora.wait_in_sync()
        before = network.port()
        for size in (56, 1400):
            assert len(ping(network.host, there, COUNT, size=size)) == COUNT
            assert len(ping(network.other, back, COUNT, size=size)) == COUNT
        after = network.port()
        received, by_linux = (after[key] - before[key] for key in ("rx_packets", "from_linux"))
        say(f"{after['wire']}: {received} received, {by_linux} from Linux")
        assert received >= 4 * COUNT and by_linux < COUNT // 20
    network.bora.check_conservation()


def check_tcp(network, size=4 << 20):
    with inside(network.other.name):
        server = socket.create_server(("10.0.1.2", 5001))
    with inside(network.host.name):
        client = socket.socket()
    with server, client:
        client.settimeout(20)
        server.settimeout(20)
        client.connect(("10.0.1.2", 5001))
        connection, _ = server.accept()
        data = bytes(range(256)) * (size // 256)
        sender = os.fork()
        if sender == 0:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            os._exit(0)
        client.close()
        got = bytearray()
        with connection:
            connection.settimeout(20)
            while part := connection.recv(1 << 20):
                got += part
        os.waitpid(sender, 0)
    assert bytes(got) == data
