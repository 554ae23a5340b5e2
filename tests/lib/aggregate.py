"""Several routers that act as one: N Boras between two edges, which share flows among them by BGP (FRR).

                    .--- r0: Bora ---.
    source --- edge 0 --- r1: Bora --- edge 1 --- sink        edge E and router R: 10.(1+E).R.0/24, edge .1, router .2
                    `--- r2: Bora ---'                        behind edge E: 198.(18+E).0.0/16

The edges are Linux. They learn each other's network from all routers, and choose one by the flow (RFC 2992). BFD tells
them of a router that is silent (RFC 5882).
"""

import re
import signal
import time

from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from lib import packets
from lib.bora import Bora
from lib.frr import Frr
from lib.load import Load, trailer
from lib.netns import Namespace
from lib.topology import IPV4_SYSCTLS
from lib.traffic import FILL

ROUTERS_AS = 65000
EDGE_AS = (65100, 65200)
TIMERS = "timers bgp 3 9"
# a neighbour is gone when nothing came for 3 times 100 ms
BFD = "bfd\n profile fast\n  receive-interval 100\n  transmit-interval 100\n"


def behind(edge):
    """The network behind an edge."""
    return f"198.{18 + edge}.0.0/16"


class Router:
    """One of the routers: a namespace, FRR, and Bora on both links."""

    def __init__(self, number, path):
        self.number = number
        self.path = path
        self.namespace = Namespace(f"r{number}")
        self.frr = None
        self.bora = None

    def start(self):
        """Starts Bora, then BGP, so that packets come when it can forward them."""
        self.bora = Bora(self.namespace, ["e0", "e1"], self.path)
        self.bora.start()
        neighbours = "".join(
            f" neighbor 10.{1 + edge}.{self.number}.1 remote-as {EDGE_AS[edge]}\n"
            f" neighbor 10.{1 + edge}.{self.number}.1 timers connect 1\n"
            f" neighbor 10.{1 + edge}.{self.number}.1 bfd profile fast\n" for edge in (0, 1))
        self.frr = Frr(self.namespace, {"bfdd": BFD, "bgpd": (
            f"router bgp {ROUTERS_AS}\n bgp router-id 10.0.0.{10 + self.number}\n no bgp ebgp-requires-policy\n"
            f" {TIMERS}\n{neighbours}")})

    def drain(self):
        """Asks the neighbours to prefer other routers (RFC 8326). Packets on their way are still forwarded."""
        self.frr.configure(f"router bgp {ROUTERS_AS}", "bgp graceful-shutdown")

    def stop(self):
        """Ends Bora and BGP in good order."""
        self.frr.close()
        self.frr = None
        self.bora.stop()

    def lose_power(self):
        """The machine is gone: the daemons without a word, and both links."""
        self.bora.kill()
        self.frr.kill()
        self.namespace.batch(["link set e0 down", "link set e1 down"])

    def hang(self):
        """The machine does nothing any more, and its links stay up."""
        self.frr.signal(signal.SIGSTOP)
        self.namespace.set_sysctl("net/ipv4/ip_forward", 0)
        self.bora.kill()

    def close(self):
        """Removes everything."""
        try:
            if self.frr:
                self.frr.close()
            if self.bora:
                self.bora.stop()
        finally:
            self.namespace.close()


class Aggregate:
    """The network. `path` is the tier of all routers."""

    def __init__(self, count, path):
        self.namespaces = []
        self.routers = []
        self.edge_frrs = []
        try:
            self.hosts = [self._namespace(f"h{edge}") for edge in (0, 1)]
            self.edges = [self._namespace(f"edge{edge}") for edge in (0, 1)]
            for edge in (0, 1):
                self._connect_host(edge)
            for number in range(count):
                router = Router(number, path)
                self.routers.append(router)
                for edge in (0, 1):
                    self._connect_router(edge, router)
            for edge in (0, 1):
                self.edge_frrs.append(Frr(self.edges[edge], {"bfdd": BFD, "bgpd": self._edge_config(edge, count)}))
            for router in self.routers:
                forward(router.namespace)
                router.start()
            self.wait_for_paths(count)
        except BaseException:
            self.close()
            raise

    def _namespace(self, role):
        namespace = Namespace(role)
        self.namespaces.append(namespace)
        return namespace

    def _connect_host(self, edge):
        host, router = self.hosts[edge], self.edges[edge]
        forward(router)
        router.set_sysctl("net/ipv4/fib_multipath_hash_policy", 1)
        router.ip("link", "add", "hosts", "address", f"02:bc:00:00:0{edge}:01", "type", "veth", "peer", "name", "hosts",
                  "address", f"02:bc:00:00:0{edge}:02", "netns", host.name)
        host.set_sysctl("net/ipv6/conf/hosts/disable_ipv6", 1)
        host.ip("link", "set", "hosts", "arp", "off", "up")
        router.batch(["link set hosts up", f"address add 10.0.{edge}.1/24 dev hosts",
                      f"neighbour add 10.0.{edge}.2 lladdr 02:bc:00:00:0{edge}:02 dev hosts",
                      f"route add {behind(edge)} via 10.0.{edge}.2"])

    def _connect_router(self, edge, router):
        number, ours, theirs = router.number, self.edges[edge], router.namespace
        ours.ip("link", "add", f"r{number}", "type", "veth", "peer", "name", f"e{edge}", "netns", theirs.name)
        for namespace, device, last in ((ours, f"r{number}", 1), (theirs, f"e{edge}", 2)):
            # a veth takes redirected XDP frames only while its peer polls, which GRO turns on
            namespace.exec("ethtool", "-K", device, "gro", "on")
            namespace.batch([f"link set {device} up", f"address add 10.{1 + edge}.{number}.{last}/24 dev {device}"])

    @staticmethod
    def _edge_config(edge, count):
        neighbours = "".join(
            f" neighbor 10.{1 + edge}.{number}.2 remote-as {ROUTERS_AS}\n"
            f" neighbor 10.{1 + edge}.{number}.2 timers connect 1\n"
            f" neighbor 10.{1 + edge}.{number}.2 bfd profile fast\n" for number in range(count))
        return (f"router bgp {EDGE_AS[edge]}\n bgp router-id 10.0.{edge}.1\n no bgp ebgp-requires-policy\n"
                f" no bgp network import-check\n {TIMERS}\n{neighbours}"
                f" address-family ipv4 unicast\n  network {behind(edge)}\n  maximum-paths {count}\n")

    def paths(self, edge):
        """The routers that an edge sends the other's network to, by number."""
        shown = self.edges[edge].ip("route", "show", behind(1 - edge)).stdout
        shown = re.sub(r"nexthop[^\n]*(dead|linkdown)", "", shown)
        return sorted(int(number) for number in re.findall(r"dev r(\d+)", shown))

    def wait_for_paths(self, wanted, seconds=30):
        """Waits until both edges use these routers (a list), or this many (a number)."""
        wanted = list(range(wanted)) if isinstance(wanted, int) else wanted
        deadline = time.monotonic() + seconds
        while any(self.paths(edge) != wanted for edge in (0, 1)):
            if time.monotonic() > deadline:
                logs = "".join(frr.logs() for frr in self.edge_frrs)
                raise AssertionError(f"edges use {self.paths(0)} and {self.paths(1)}, not {wanted}\n{logs}")
            time.sleep(0.02)

    def load(self, flows, rate):
        """A load of UDP flows from behind edge 0 to behind edge 1."""
        ethernet = packets.mac("02:bc:00:00:00:01") + packets.mac("02:bc:00:00:00:02") + b"\x08\x00"
        frames = [
            ethernet + bytes(IP(src=f"198.18.{flow >> 8}.{flow & 255}", dst=f"198.19.7.{flow & 127}")
                             / UDP(sport=20_000 + flow, dport=5000) / Raw(FILL + trailer(flow)))
            for flow in range(flows)]
        return Load((self.hosts[0].name, "hosts"), (self.hosts[1].name, "hosts"), frames, rate)

    def close(self):
        """Removes everything."""
        for part in [*self.edge_frrs, *self.routers, *self.namespaces]:
            part.close()


def forward(namespace):
    """Makes a namespace a router of IPv4."""
    for scope in ("all", "default"):
        for key, value in IPV4_SYSCTLS.items():
            namespace.set_sysctl(f"net/ipv4/conf/{scope}/{key}", value)
    namespace.set_sysctl("net/ipv4/ip_forward", 1)
