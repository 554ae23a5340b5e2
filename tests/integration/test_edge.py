"""What an edge router needs besides forwarding stays with Linux and its daemons, and works on Bora's ports: OSPF, multicast
routing, DHCP relay, router advertisements. What they lead to is forwarded by Bora."""

import functools
import socket
import struct
import time

import pytest

from lib import required
from lib.dhcp import lease
from lib.frr import Frr
from lib.hosts import Hosts
from lib.netns import inside
from lib.ping import ping
from lib.waiting import until

pytestmark = pytest.mark.bora
SECONDS = 30  # daemons find each other within
wait = functools.partial(until, seconds=SECONDS)
COUNT = 50


@pytest.fixture(params=["engine", "express"])
def net(request):
    network = Hosts(request.param)
    network.daemons = []
    yield network
    for daemon in network.daemons:
        daemon.close()
    network.close()


class Daemon:
    """A program in the foreground in a namespace."""

    def __init__(self, namespace, *command):
        self.process = namespace.popen(*command)

    def close(self):
        """Kills it."""
        self.process.kill()
        self.process.wait(10)


def frr(net, namespace, config):
    """FRR for the test's time."""
    net.daemons.append(Frr(namespace, config))
    return net.daemons[-1]


def forwarded(net):
    """Packets that Bora itself has sent."""
    return net.bora.check_conservation()["sent"]


def check_by_bora(net, address, size=56):
    """All echoes and replies go by Bora."""
    assert ping(net.hosts[0], address, 1, size=size), f"{address} does not answer"
    net.bora.wait_in_sync()
    before = forwarded(net)
    assert len(ping(net.hosts[0], address, COUNT, size=size)) == COUNT, address
    assert forwarded(net) - before >= 2 * COUNT, f"{address}: {net.bora.show('drops')} {net.bora.show('sync')} {net.bora.output()}"


def test_ospf(net):
    """Adjacencies by multicast hellos and their replies; the routes that come and go."""
    networks = {4: ("198.19.0.1", "198.19.0.0/16", "-4"), 6: ("2001:db8:f1::1", "2001:db8:f1::/48", "-6")}
    net.hosts[1].batch(["address add 198.19.0.1/16 dev lo", "address add 2001:db8:f1::1/48 dev lo"])
    timers = " {0} ospf{1} hello-interval 1\n {0} ospf{1} dead-interval 4\n {0} ospf{1} network point-to-point\n"
    speak = {
        "ospfd": "interface {device}\n" + timers.format("ip", "") + "router ospf\n ospf router-id {id}\n network 10.0.1.0/24 area 0\n"
                 " redistribute connected\n",
        "ospf6d": "interface {device}\n ipv6 ospf6 area 0\n" + timers.format("ipv6", "6") + "router ospf6\n ospf6 router-id {id}\n redistribute connected\n",
    }
    for namespace, values in ((net.router, {"device": "r1", "id": "10.0.1.1"}), (net.hosts[1], {"device": "h1", "id": "10.0.1.2"})):
        far = frr(net, namespace, {name: text.format(**values) for name, text in speak.items()})
    for address, network, version in networks.values():
        wait(network, lambda: net.router.ip(version, "route", "show", network).stdout, far.logs)
        check_by_bora(net, address)
    far.configure("router ospf", "no redistribute connected", "router ospf6", "no redistribute connected")
    for address, network, version in networks.values():
        wait(f"without {network}", lambda: not net.router.ip(version, "route", "show", network).stdout, far.logs)
        assert not ping(net.hosts[0], address, 1, patience=0.3)


class Group:
    """A source-specific group (RFC 4607): h0 sends, h1 joins with IGMPv3 or MLDv2."""

    ADDRESS = {4: "232.1.2.3", 6: "ff3e::8000:1"}
    PORT = 5007
    # (level, IP_RECVTTL or IPV6_RECVHOPLIMIT, hops, interface) of <linux/in.h>, <linux/in6.h>
    OPTIONS = {4: (socket.IPPROTO_IP, 12, socket.IP_MULTICAST_TTL, socket.IP_MULTICAST_IF),
               6: (socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, socket.IPV6_MULTICAST_HOPS, socket.IPV6_MULTICAST_IF)}
    MCAST_JOIN_SOURCE_GROUP = 46
    TTL = 8

    def __init__(self, net, version):
        self.where = self.ADDRESS[version], self.PORT
        family = {4: socket.AF_INET, 6: socket.AF_INET6}[version]
        ends = []
        for host in net.hosts:
            with inside(host.name):
                ends.append((socket.socket(family, socket.SOCK_DGRAM), socket.if_nametoindex(f"h{net.hosts.index(host)}")))
        (self.sender, out), (self.sink, to) = ends
        level, show_hops, hops, device = self.OPTIONS[version]
        self.sender.setsockopt(level, hops, self.TTL)
        self.sender.setsockopt(level, device, out if version == 6 else socket.inet_aton(net.address(4, 0)))
        self.sender.bind((net.address(version, 0), 0))
        self.sink.setblocking(False)
        self.sink.bind(("", self.PORT))
        self.sink.setsockopt(level, show_hops, 1)
        addresses = [self._sockaddr(family, address) for address in (self.ADDRESS[version], net.address(version, 0))]
        self.sink.setsockopt(level, self.MCAST_JOIN_SOURCE_GROUP, struct.pack("=I4x", to) + b"".join(addresses))

    @staticmethod
    def _sockaddr(family, address):
        """A struct sockaddr_storage."""
        ports = struct.pack("=HH", family, 0) + bytes(4 if family == socket.AF_INET6 else 0)
        return (ports + socket.inet_pton(family, address)).ljust(128, b"\0")

    def send(self, number):
        """One packet."""
        self.sender.sendto(number.to_bytes(4, "big"), self.where)

    def come(self):
        """Numbers and TTLs of what has come."""
        found = []
        while True:
            try:
                data, more, _, _ = self.sink.recvmsg(100, 100)
            except BlockingIOError:
                return found
            found.append((int.from_bytes(data, "big"), struct.unpack("i", more[0][2])[0]))

    def arrives(self):
        """Whether one comes."""
        self.send(0)
        time.sleep(0.1)
        return self.come()

    def close(self):
        """Leaves."""
        self.sender.close()
        self.sink.close()


class StaticMulticast6:
    """A multicast route of IPv6 from r0 to r1 (<linux/mroute6.h>). Debian 12's FRR has no PIM for IPv6."""

    INIT, ADD_MIF, ADD_MFC = 200, 202, 204

    def __init__(self, net):
        with inside(net.router.name):
            self.socket = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
            links = [socket.if_nametoindex(device) for device in ("r0", "r1")]
        self._set(self.INIT, struct.pack("=i", 1))
        for number, link in enumerate(links):
            self._set(self.ADD_MIF, struct.pack("=HBBHxxI", number, 0, 1, link, 0))
        addresses = (net.address(6, 0), Group.ADDRESS[6])
        ends = [struct.pack("=HHI16sI", socket.AF_INET6, 0, 0, socket.inet_pton(socket.AF_INET6, address), 0) for address in addresses]
        self._set(self.ADD_MFC, b"".join(ends) + struct.pack("=Hxx8I", 0, 1 << 1, *[0] * 7))

    def _set(self, option, value):
        self.socket.setsockopt(socket.IPPROTO_IPV6, option, value)

    def close(self):
        """Linux removes the route."""
        self.socket.close()


@pytest.mark.parametrize("version", [4, 6])
def test_multicast_routing(net, version):
    """FRR's PIM and IGMP, or a static route: a host joins, Linux forwards the group, and each packet comes once, with a hop less."""
    if version == 4:
        lines = " ip pim\n ip igmp\n"
        frr(net, net.router, {"pimd": f"interface r0\n{lines}interface r1\n{lines}"})
    else:
        net.daemons.append(StaticMulticast6(net))
    group = Group(net, version)
    net.daemons.append(group)
    wait("the group", group.arrives)
    for number in range(1, COUNT + 1):
        group.send(number)
        time.sleep(0.002)
    time.sleep(0.5)
    assert group.come() == [(number, Group.TTL - 1) for number in range(1, COUNT + 1)]
    check_by_bora(net, net.address(version, 1))


def test_dhcp_relay(net, tmp_path):
    """A host gets its address from a server behind the router."""
    for program, package in (("dnsmasq", "dnsmasq-base"), ("busybox", "busybox-static")):
        required.program(program, package)
    common = ("dnsmasq", "--keep-in-foreground", "--port=0", "--conf-file=/dev/null", "--user=root", "--no-ping")
    net.daemons.append(Daemon(net.hosts[1], *common, "--dhcp-range=10.0.0.100,10.0.0.110,255.255.255.0,1h", "--dhcp-option=3,10.0.0.1",
                              f"--dhcp-leasefile={tmp_path}/leases", f"--pid-file={tmp_path}/server"))
    net.daemons.append(Daemon(net.router, *common, "--dhcp-relay=10.0.0.1,10.0.1.2", f"--pid-file={tmp_path}/relay",
                              f"--dhcp-leasefile={tmp_path}/none"))
    net.hosts[0].ip("-4", "address", "flush", "dev", "h0")
    address = lease(net.hosts[0], "h0", tmp_path)
    assert address.startswith("10.0.0.1"), address
    check_by_bora(net, net.address(4, 1))


def test_router_advertisements(net):
    """A host makes its address and default route from what FRR says."""
    net.hosts[0].ip("-6", "address", "flush", "dev", "h0", "scope", "global")
    net.hosts[0].ip("-6", "route", "flush", "default")
    net.hosts[0].set_sysctl("net/ipv6/conf/h0/accept_ra", 2)
    zebra = frr(net, net.router, {})
    zebra.configure("interface r0", "no ipv6 nd suppress-ra", "ipv6 nd ra-interval 1", "ipv6 nd prefix 2001:db8::/64")
    wait("an address", lambda: "2001:db8" in net.hosts[0].ip("-6", "address", "show", "dev", "h0", "scope", "global", "-tentative").stdout)
    wait("a default route", lambda: net.hosts[0].ip("-6", "route", "show", "default").stdout)
    check_by_bora(net, net.address(6, 1))
