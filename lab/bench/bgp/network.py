"""The network of the BGP benches: a router (FRR, Bora), a source, and two peers (BIRD), each with all routes."""

import contextlib
import fcntl
import ipaddress
import re
import socket
import struct
import time

from lib.bird import Bird
from lib.bora import Bora
from lib.frr import Frr
from lib.netns import Namespace, inside

PEERS = 2
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
SAMPLES = 50  # prefixes that are looked at for all
PATIENCE = 300  # seconds
SOURCE_MAC, ROUTER_MAC = "02:bc:00:00:00:02", "02:bc:00:00:00:01"
FRR = """router bgp 65000
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 bgp bestpath as-path multipath-relax
 neighbor 10.1.0.2 remote-as 65100
 neighbor 10.1.1.2 remote-as 65101
 address-family ipv4 unicast
  maximum-paths 2
"""
SPEAKER, SPEAKER_SYSTEM = "10.1.0.3", 65102  # speaker.py, beside peer 0
# The speaker's routes are preferred. Nobody gets the router's own: the peers have them all.
FRR_SPEAKER = f"""exit
exit
ip prefix-list nothing seq 5 deny any
router bgp 65000
 neighbor {SPEAKER} remote-as {SPEAKER_SYSTEM}
 address-family ipv4 unicast
  neighbor {SPEAKER} weight 100
  neighbor {SPEAKER} prefix-list nothing out
  neighbor 10.1.0.2 prefix-list nothing out
  neighbor 10.1.1.2 prefix-list nothing out
"""
BIRD = """router id 10.1.{peer}.2;
protocol device {{}}
protocol static all_routes {{
  ipv4;
  include "{routes}";
}}
protocol bgp bora {{
  local 10.1.{peer}.2 as 6510{peer};
  neighbor 10.1.{peer}.1 as 65000;
  ipv4 {{ import none; export all; next hop self; }};
}}
"""


def wait(what, done, every=0.05):
    """Until `done()` is true."""
    start = time.monotonic()
    while not done():
        if time.monotonic() - start > PATIENCE:
            raise TimeoutError(f"{what}: not within {PATIENCE} s")
        time.sleep(every)


class Network:
    """The router with its peers; `path` is Bora's tier, or None for Linux alone. `bgp`: more of bgpd's configuration."""

    def __init__(self, path, folder, routes, bgp=""):
        self.bgp = FRR + bgp
        self.stack = contextlib.ExitStack()
        self.bora = None
        try:
            self._make(path, folder, routes)
        except BaseException:
            self.stack.close()
            raise

    def _namespace(self, role):
        namespace = Namespace(role)
        self.stack.callback(namespace.close)
        return namespace

    def _make(self, path, folder, routes):
        self.router = self._namespace("r")
        for key, value in {"ip_forward": 1, "fib_multipath_hash_policy": 1, "conf/all/rp_filter": 0,
                           "conf/default/rp_filter": 0}.items():
            self.router.set_sysctl(f"net/ipv4/{key}", value)
        self.source = self._namespace("source")
        self._link("s", self.source, "10.0.0", ROUTER_MAC)
        self.peers = [self._namespace(f"p{peer}") for peer in range(PEERS)]
        for peer, namespace in enumerate(self.peers):
            self._link(f"p{peer}", namespace, f"10.1.{peer}", f"02:bc:00:00:01:0{peer}")
        self.peers[0].ip("address", "add", f"{SPEAKER}/24", "dev", "uplink")
        for peer, namespace in enumerate(self.peers):
            config = BIRD.format(peer=peer, routes=routes)
            self.stack.callback(Bird(namespace, config, folder, f"bird{peer}").close)
        if path:
            self.bora = Bora(self.router, ["s", *(f"p{peer}" for peer in range(PEERS))], path)
            self.stack.callback(self.bora.stop)
            self.bora.start()

    def _link(self, name, other, net, mac):
        self.router.ip("link", "add", name, "address", mac, "type", "veth", "peer", "name", "uplink", "netns", other.name)
        other.exec("ethtool", "-K", "uplink", "gro", "on")
        other.batch([f"address add {net}.2/24 dev uplink", "link set uplink up"])
        self.router.batch([f"address add {net}.1/24 dev {name}", f"link set {name} up"])

    def in_linux(self):
        """Prefixes in Linux's main table."""
        text = self.router.exec("cat", "/proc/net/fib_triestat").stdout
        return int(re.search(r"Prefixes:\s+(\d+)", text).group(1))

    def in_bora(self):
        """Prefixes in Bora's FIB."""
        return self.bora.show("fib")["ipv4"]["prefixes"]

    def converge(self, table):
        """Starts BGP; seconds until the routes are in Linux, and in Bora's FIB."""
        frr = Frr(self.router, {"bgpd": self.bgp})
        self.stack.callback(frr.close)
        start, count = time.monotonic(), len(table)
        wait("routes in Linux", lambda: self.in_linux() >= count)
        linux = time.monotonic() - start
        if self.bora:
            wait("routes in the FIB", lambda: self.in_bora() >= count)
        both = time.monotonic() - start
        # zebra changes single next hops to groups when the second peer's routes come
        wait("groups of two", lambda: self.has_groups(table), every=1)
        if self.bora:
            wait("Bora agrees with Linux", lambda: self.bora.show("sync")["in_sync"])
        return linux, both

    def has_groups(self, table):
        """Whether prefixes all over the table have two next hops."""
        # `ip route show PREFIX` would read the whole table each time
        sample = [str(ipaddress.ip_address(prefix)) for prefix, _ in table[:: len(table) // SAMPLES]]
        return all(self.router.ip("route", "get", "fibmatch", address).stdout.count("nexthop") == PEERS for address in sample)

    def take_down(self, peer):
        """Sets a peer's link down, without a process that would take milliseconds to start. Returns when it began."""
        with inside(self.peers[peer].name), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            request = fcntl.ioctl(link, SIOCGIFFLAGS, struct.pack("16sH14x", b"uplink", 0))
            flags = struct.unpack_from("H", request, 16)[0] & ~IFF_UP
            begin = time.monotonic()
            fcntl.ioctl(link, SIOCSIFFLAGS, struct.pack("16sH14x", b"uplink", flags))
        return begin

    def close(self):
        """Ends and removes everything."""
        self.stack.close()
