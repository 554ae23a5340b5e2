"""Runs in a guest: tunnels over IPv4. What Linux alone puts into them and takes out of them, Bora does.

    r0 ==== h0    10.0.0.1, 198.18.0.0/16 behind it
    r1 ==== h1    10.0.1.1, 192.0.2.0/24 behind it: the far ends
    r2 ==== h2    10.0.2.1

Each tunnel has a network of each IP version that it carries: 198.51.N.0/24 and 2001:db8:fN::/48. The far ends are no routers: the
tests send and receive the outer packets. Only the identification of outer headers and the UDP source port may differ.
"""

import dataclasses
import time
from pathlib import Path

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.packet import Raw

from lib import packets
from vm import topic_guest
from vm.topic_guest import FOLLOW_SECONDS, HOST, ROUTER

LINKS = 3
LOCAL = "10.0.1.1"
GRE, IPIP, IP6, VXLAN = 47, 4, 41, 17
VXLAN_PORT = 4789
OWN, STATION = "02:bc:00:00:{:02x}:01", "02:bc:00:00:{:02x}:02"  # Ethernet addresses inside VXLAN
SOURCE4, SOURCE6 = "198.18.0.9", "2001:db8:e0::9"
ANY = object()


@dataclasses.dataclass(frozen=True)
class Tunnel:
    """A tunnel of the router, and how its outer packets look."""

    number: int
    name: str
    options: str
    remote: str
    protocols: tuple  # IP protocol of IPv4 and of IPv6 inside; None: not carried
    key: int | None = None

    def wrap(self, packet, source=None, **header):
        """The outer packet that the far end sends."""
        v6 = packets.version(packet) == 6
        protocol = self.protocols[v6]
        gre = b""
        if protocol == GRE:
            flags = b"\x20\0" if self.key is not None else b"\0\0"
            gre = flags + (b"\x86\xdd" if v6 else b"\x08\0")
            gre += self.key.to_bytes(4, "big") if self.key is not None else b""
        if protocol == VXLAN:
            return self.vxlan(packet, source or self.remote, **header)
        return outer(protocol, gre + packet, source or self.remote, **header)

    def too_big(self, mtu):
        """What a router on the path says of an outer packet."""
        v6 = not self.protocols[0]
        there = IP(self.wrap(inner(v6, behind(self, v6, 9), size=1300), flags="DF"))
        there.src, there.dst, there.chksum = LOCAL, self.remote, None
        return bytes(IP(src="10.0.1.2", dst=LOCAL) / ICMP(type=3, code=4, nexthopmtu=mtu) / Raw(bytes(there)[:60]))

    def vxlan(self, packet, source, to=None, sport=50000, udp=None, bits=8, **header):
        """An outer packet of VXLAN. `to`: the station inside. `udp`: more of that header."""
        inside = packets.ethernet(to or OWN.format(self.number), STATION.format(self.number), packet, 0x86DD if packet[0] >> 4 == 6 else 0x0800)
        datagram = UDP(sport=sport, dport=VXLAN_PORT, **(udp or {})) / Raw(bytes([bits, 0, 0, 0]) + (self.key << 8).to_bytes(4, "big") + inside)
        return bytes(IP(src=source, dst=LOCAL, **{"ttl": 60, "id": 7, **header}) / datagram)


def outer(protocol, inside, source, **header):
    """An IPv4 packet from a far end."""
    header = {"ttl": 60, "id": 7, **header}
    return bytes(IP(src=source, dst=LOCAL, proto=protocol, **header) / Raw(inside))


def vxlan(number, remote, options):
    """A VXLAN device with a host behind it; its network identifier is its number."""
    where = f"type vxlan id {number} local {LOCAL} dstport {VXLAN_PORT} {options}"
    return Tunnel(number, f"vx{number}", f"address {OWN.format(number)} {where}", remote, (VXLAN, VXLAN), number)


TUNNELS = [
    Tunnel(1, "gre1", "type gre local 10.0.1.1 remote 10.0.1.2", "10.0.1.2", (GRE, GRE)),
    Tunnel(2, "gre2", "type gre local 10.0.1.1 remote 192.0.2.12 key 7 ttl 32 tos inherit", "192.0.2.12", (GRE, GRE), 7),
    Tunnel(3, "ipip3", "type ipip local 10.0.1.1 remote 192.0.2.13 ttl 0 nopmtudisc", "192.0.2.13", (IPIP, None)),
    Tunnel(4, "sit4", "type sit local 10.0.1.1 remote 192.0.2.14 ttl 64", "192.0.2.14", (None, IP6)),
    Tunnel(5, "any5", "type sit mode any local 10.0.1.1 remote 192.0.2.15 tos 0x40 dev r1", "192.0.2.15", (IPIP, IP6)),
    Tunnel(6, "late6", "type gre local 10.0.1.1 remote 192.0.2.16 ttl 255 tos inherit ignore-df nopmtudisc", "192.0.2.16", (GRE, GRE)),
    vxlan(10, "192.0.2.20", "remote 192.0.2.20 nolearning"),
    vxlan(11, "192.0.2.21", "nolearning noudpcsum ttl 9 tos inherit"),
    vxlan(12, "192.0.2.22", "remote 192.0.2.22 learning df set"),
]
# Bora leaves these to Linux, and says why.
LEFT_ALONE = {
    "gre7": "type gre local 10.0.1.1 remote 192.0.2.17 csum",
    "gre8": "type gre local 10.0.1.1 remote 192.0.2.18 seq",
    "ipip9": "type ipip local any remote 192.0.2.19",
    "vx13": f"type vxlan id 13 local {LOCAL} dstport {VXLAN_PORT}",
}
NOT_FAST = [Tunnel(7, "gre7", "", "192.0.2.17", (GRE, GRE)), Tunnel(9, "ipip9", "", "192.0.2.19", (IPIP, None))]


def networks(tunnel):
    """Routes and addresses of a tunnel."""
    number, name = tunnel.number, tunnel.name
    host = [f"10.9.{number}.2", f"2001:db8:9:{number}::2"] if VXLAN in tunnel.protocols else []
    via = [f"via {address} " for address in host] or ["", ""]
    made = [f"address add 10.9.{number}.1/24 dev {name}"]
    if tunnel.protocols[0]:
        made.append(f"route replace 198.51.{number}.0/24 {via[0]}dev {name}")
    if tunnel.protocols[1]:
        made += [f"address add 2001:db8:9:{number}::1/64 dev {name} nodad", f"-6 route replace 2001:db8:f{number}::/48 {via[1]}dev {name}"]
    made += [f"neighbour replace {address} lladdr {STATION.format(number)} dev {name}" for address in host]
    return made


def make(name, options):
    return [f"link add {name} {options}", f"link set {name} up"]


def commands(tunnels, left_alone, not_fast):
    """What makes the router: its addresses and routes, and these tunnels."""
    return [
        *(f"address add 10.0.{link}.1/24 dev r{link}" for link in range(LINKS)),
        *(f"address add 2001:db8:{link}::1/64 dev r{link} nodad" for link in range(LINKS)),
        *(f"neighbour replace 10.0.{link}.2 lladdr {HOST.format(link)} dev r{link}" for link in range(LINKS)),
        *(f"neighbour replace 2001:db8:{link}::2 lladdr {HOST.format(link)} dev r{link}" for link in range(LINKS)),
        "route add 198.18.0.0/16 via 10.0.0.2", "-6 route add 2001:db8:e0::/48 via 2001:db8::2", "route add 192.0.2.0/24 via 10.0.1.2",
        *(command for tunnel in tunnels for command in [*make(tunnel.name, tunnel.options), *networks(tunnel)]),
        *(command for name, options in left_alone.items() for command in make(name, options)),
        *(command for tunnel in not_fast for command in networks(tunnel)),
        f"bridge fdb append {STATION.format(11)} dev vx11 dst 192.0.2.21",
        # veths leave checksums to the receiver, and the tests are no receiver
        *(f"ethtool -K r{link} tx off" for link in range(LINKS)),
    ]


# Each step goes on from the one before. Commands of `ip`, or of nft.
STEPS = {
    "tunnels": [],
    "the far ends are elsewhere": ["route replace 192.0.2.0/24 via 10.0.2.2 dev r2"],
    "and back, with a small MTU": ["route replace 192.0.2.0/24 via 10.0.1.2 dev r1 mtu 1300"],
    "gre1 is down, gre2 has another far end": ["route replace 192.0.2.0/24 via 10.0.1.2 dev r1", "link set gre1 down",
                                               "tunnel change gre2 mode gre local 10.0.1.1 remote 192.0.2.99 key 7 ttl 9"],
    "a chain for what is the router's own": ["nft add table ip t", "nft add chain ip t c { type filter hook input priority 0 ; policy drop ; }"],
    "a chain for what the router sends": ["nft flush ruleset", "nft add table ip t",
                                          "nft add chain ip t c { type filter hook output priority 0 ; }", "nft add rule ip t c ip protocol gre drop"],
    "stations are elsewhere": ["nft flush ruleset", f"bridge fdb del {STATION.format(11)} dev vx11", f"bridge fdb append {STATION.format(11)} dev vx11 dst 10.0.1.2",
                               f"bridge fdb append {STATION.format(10)} dev vx10 dst 192.0.2.77"],
    "no chain; gre1 is back": [f"bridge fdb del {STATION.format(10)} dev vx10", "link set gre1 up", *networks(TUNNELS[0])[1:2], *networks(TUNNELS[0])[3:]],
    "a rule about what the router sends": ["rule add pref 100 from 10.0.1.1 table 77", "route add blackhole 192.0.2.13 table 77"],
    "no rule": ["rule del pref 100"],
}
SHORT = 5  # steps of a short run
# In these steps Bora itself forwards by all of TUNNELS, as they are at first.
FAST = ("tunnels",)

# Steps and commands for what happens around tunnels that stay as they are. `too-big MTU`: on the paths to all far ends a router says so.
AROUND = {
    "at first": [],
    "the paths have a small MTU": ["too-big 1100"],
    "and that is forgotten": ["route flush cache"],
    "the near end is another router's": ["address add 10.0.1.9/25 dev r1", f"address del {LOCAL}/24 dev r1", f"route add blackhole {LOCAL}"],
    "the near end is back": [f"route del blackhole {LOCAL}", f"address add {LOCAL}/24 dev r1", "address del 10.0.1.9/25 dev r1"],
    "IPsec lets nothing in": ["xfrm policy setdefault in block"],
    "IPsec lets something in": ["xfrm policy setdefault in accept"],
    "a policy of IPsec": [f"xfrm policy add src 0.0.0.0/0 dst {LOCAL} dir in tmpl proto esp mode transport"],
    "no policy": ["xfrm policy flush"],
}
FAST_AROUND = ("at first", "and that is forgotten", "the near end is back", "IPsec lets something in", "no policy")


class Lan(topic_guest.Lan):
    """Router and hosts."""

    def __init__(self, tunnels=TUNNELS, left_alone=LEFT_ALONE, not_fast=NOT_FAST):
        super().__init__(LINKS)
        self.tunnels, self.path_mtu = tunnels, ANY
        try:
            for link in range(LINKS):
                self.connect(link)
                # with more queues Linux hashes the packet to choose one, before it knows where the IP header is, and keeps that
                self.hosts[link].exec("ethtool", "-L", f"h{link}", "tx", "1")
            for command in commands(tunnels, left_alone, not_fast):
                self.configure(command)
            self.open_ports()
        except BaseException:
            self.close()
            raise

    def step(self, commands):
        """Changes the router's configuration; Bora has followed when this returns."""
        for command in commands:
            self.configure(command)
        if self.bora is not None:
            self.bora.wait_in_sync(FOLLOW_SECONDS)
            self.wait("hooks and rules are seen", self.has_followed)
            if self.path_mtu is not ANY:
                self.wait(f"the paths' MTU is {self.path_mtu}", lambda: all(
                    one["path_mtu"] == self.path_mtu for one in self.bora.show("tunnels")["tunnels"] if one["remote"] != "0.0.0.0"))

    def configure(self, command):
        """Runs a command in the router's namespace; `ip`, unless it is one of others."""
        words = command.split()
        if words[0] == "too-big":
            self.path_mtu = int(words[1])
            for tunnel in self.tunnels:
                self.ports[1].send(packets.ethernet(ROUTER.format(1), HOST.format(1), tunnel.too_big(self.path_mtu)))
            return
        if command == "route flush cache":
            self.path_mtu = None
        if words[0] in ("nft", "bridge", "ethtool"):
            self.router.exec(*words)
        else:
            self.router.ip(*words)

    def has_followed(self):
        """A second look at the tunnels says the same as the first."""
        before = self.names()
        time.sleep(1.2)  # hooks that have no events are looked at once a second
        return self.names() == before

    def names(self):
        """The tunnels that Bora forwards by, and those that it does not."""
        report = self.bora.show("tunnels")
        return [one["name"] for one in report["tunnels"]], report["left_to_linux"]

    def state(self):
        """For messages."""
        return {what: self.bora.show(what) for what in ("tunnels", "drops")}, self.bora.output()[-1500:]


def inner(v6, destination, source=None, **header):
    """A UDP packet inside."""
    if v6:
        return packets.udp6(source or SOURCE6, destination, **header)
    return packets.udp4(source or SOURCE4, destination, **header)


def behind(tunnel, v6, host):
    return f"2001:db8:f{tunnel.number}::{host:x}" if v6 else f"198.51.{tunnel.number}.{host}"


def into(step):
    """(link, packet, is it Bora's) for packets that go into tunnels."""
    made = []
    for tunnel in TUNNELS + NOT_FAST:
        for v6 in (False, True):
            if not tunnel.protocols[v6]:
                continue
            fast = tunnel in TUNNELS
            to = behind(tunnel, v6, 9)
            hops, tos = ("hlim", "tc") if v6 else ("ttl", "tos")
            made += [(0, inner(v6, to, sport=port), fast) for port in (4000, 4001)]
            made += [(0, inner(v6, to, **{tos: value}), fast) for value in (0xB8, 0x01, 0x02, 0x03, 0xFF)]
            made += [(0, inner(v6, to, **{hops: 2}), fast), (0, inner(v6, to, **{hops: 1}), False)]
            if not v6:
                made.append((0, inner(v6, to, flags="DF"), fast))
            # each to a host of its own: Linux remembers the MTU of a path for a host
            for at, size in enumerate((1200, 1400, 1424, 1428, 1432, 1448, 1452, 1460, 1472)):
                host = 20 + step * 9 + at
                made.append((0, inner(v6, behind(tunnel, v6, host), size=size - 28), False))
                if not v6:
                    made.append((0, inner(v6, behind(tunnel, v6, 110 + host), size=size - 28, flags="DF"), False))
    return made


def out_of():
    """Cases of packets that come out of tunnels."""
    made = []
    for tunnel in TUNNELS + NOT_FAST[1:]:
        for v6 in (False, True):
            if not tunnel.protocols[v6]:
                continue
            fast = tunnel in TUNNELS
            here, source = (SOURCE6 if v6 else SOURCE4), behind(tunnel, v6, 9)
            own = f"2001:db8:9:{tunnel.number}::1" if v6 else f"10.9.{tunnel.number}.1"
            hops, tos = ("hlim", "tc") if v6 else ("ttl", "tos")
            packet = inner(v6, here, source)
            made += [(1, tunnel.wrap(packet), fast), (1, tunnel.wrap(packet, ttl=2), fast), (1, tunnel.wrap(packet, flags="DF"), fast)]
            made += [(1, tunnel.wrap(inner(v6, here, source, **{tos: a}), tos=b), fast and b & 3 != 3 and (a, b) != (2, 1))
                     for a in (0, 1, 2, 3) for b in (0, 1, 2, 3, 0xB8)]
            made += [(1, tunnel.wrap(inner(v6, here, source, size=1300)), fast)]
            made += [(1, tunnel.wrap(inner(v6, here, source, **{hops: 1})), False), (1, tunnel.wrap(inner(v6, own, source)), False)]
            # not IPv6 that goes back where it came from: for some of it Linux sends redirects
            made += [(1, tunnel.wrap(inner(v6, behind(other, v6, 9), source)), fast)
                     for other in TUNNELS if other.protocols[v6] and not (v6 and other == tunnel)]
            echo = IPv6(src=source, dst=own) / ICMPv6EchoRequest(id=7) if v6 else IP(src=source, dst=own) / ICMP(id=7)
            made += [(1, tunnel.wrap(bytes(echo / packets.payload())), False)]
            # what only Linux takes, or nobody
            if "learning df" not in tunnel.options:  # it would learn that the station is there
                made.append((1, tunnel.wrap(packet, source="192.0.2.200"), False))
            made += [(1, tunnel.wrap(packet, ttl=1), False), (1, tunnel.wrap(packet[:-5]), False), (1, tunnel.wrap(packet[:7]), False), (1, tunnel.wrap(b"\x45"), False),
                     (1, tunnel.wrap(inner(v6, here, "::1" if v6 else "127.0.0.1")), False),
                     (1, tunnel.wrap(inner(v6, here, "2001:db8::1" if v6 else "10.0.0.1")), False),
                     (1, tunnel.wrap(inner(v6, here, source, size=60), flags="MF"), False)]
    for tunnel in TUNNELS:
        if VXLAN not in tunnel.protocols:
            continue
        packet = inner(False, SOURCE4, behind(tunnel, False, 9))
        again = dict(source=tunnel.remote)
        made += [(1, tunnel.vxlan(packet, udp={"chksum": 0}, **again), True), (1, tunnel.vxlan(packet, sport=4789, **again), True),
                 (1, tunnel.vxlan(packet, udp={"chksum": 0xDEAD}, **again), False), (1, tunnel.vxlan(packet, bits=0, **again), False),
                 (1, tunnel.vxlan(packet, bits=0x88, **again), False), (1, tunnel.vxlan(packet, to="02:bc:00:00:99:99", **again), False),
                 (1, tunnel.vxlan(packet, to="ff:ff:ff:ff:ff:ff", **again), False),
                 (1, dataclasses.replace(tunnel, key=99).vxlan(packet, **again), False)]
    made += [(1, outer(GRE, b"\x80\0\x08\0" + bytes(4) + inner(False, SOURCE4, "198.51.1.9"), "10.0.1.2"), False),
             (1, outer(GRE, b"\0\1\x08\0" + inner(False, SOURCE4, "198.51.1.9"), "10.0.1.2"), False),
             (1, outer(GRE, b"\x20\0\x08\0\0\0\0\x09" + inner(False, SOURCE4, "198.51.2.9"), "192.0.2.12"), False),
             (1, outer(GRE, b"\0\0\x08\x06" + bytes(28), "10.0.1.2"), False), (1, outer(GRE, b"\0", "10.0.1.2"), False),
             (1, bytes(IP(src="10.0.1.2", dst=LOCAL) / UDP(dport=9) / Raw(packets.payload())), False)]
    return made


def around(tunnels, number):
    """What a step of AROUND sends, all of it Bora's at first: each to a host of its own, for which Linux remembers nothing."""
    made = []
    for tunnel in tunnels:
        for v6 in (False, True):
            if not tunnel.protocols[v6]:
                continue
            host = 20 + number
            made += [(0, inner(v6, behind(tunnel, v6, host), size=size), True) for size in (26, 1200)]
            if not v6:
                made.append((0, inner(v6, behind(tunnel, v6, 110 + host), size=1200, flags="DF"), True))
            made.append((1, tunnel.wrap(inner(v6, SOURCE6 if v6 else SOURCE4, behind(tunnel, v6, 9))), True))
    return made


def frames(sent):
    """As frames of their hosts."""
    return [(link, packets.ethernet(ROUTER.format(link), HOST.format(link), packet)) for link, packet, _ in sent]


def exchange(lan, sent, least=0):
    """What comes out, sorted; not the reports about groups that Linux itself sends by the tunnels now and then (ff02::16)."""
    reports = b"\xff\x02" + bytes(13) + b"\x16"
    return sorted((link, comparable(frame)) for link, frame in lan.exchange(frames(sent), least) if reports not in frame)


def traffic():
    """What each step sends."""
    back = out_of()
    return {name: into(number) + back for number, name in enumerate(STEPS)}


def comparable(frame):
    """The frame, without what differs from run to run in a tunnel: the identification of the router's own IPv4 packets; and of VXLAN the source
    port, and a UDP checksum that is not zero."""
    protocol = frame[23]
    starts = {GRE: 34 + (8 if frame[34] & 0x20 else 4), IPIP: 34, VXLAN: 64}
    if frame[12:14] != b"\x08\0" or frame[26:28] != b"\x0a\0" or protocol not in starts or protocol == VXLAN and frame[36:38] != VXLAN_PORT.to_bytes(2, "big"):
        return frame
    if protocol == VXLAN:
        frame = frame[:34] + b"\0\0" + frame[36:40] + (b"\0\0" if frame[40:42] == b"\0\0" else b"\xff\xff") + frame[42:]
    start = starts[protocol]
    inside = frame[start:]
    if len(inside) < 20 or inside[0] != 0x45 or inside[12:14] not in (b"\x0a\x09", b"\x0a\0"):
        return frame
    return frame[:start] + inside[:4] + b"\0\0" + inside[6:10] + b"\0\0" + inside[12:]


def check_bora(sent, path, fast, more=lambda lan: None):
    """What Bora must have sent itself in some steps, as a check of `count_different`."""
    def check(lan, name, _, by_bora):
        if path == "engine" and name in fast:
            least = sum(is_fast for _, _, is_fast in sent[name])
            assert by_bora >= least, f"{name}: Bora has sent {by_bora} of {least}; {lan.state()}"
            more(lan)
    return check


def compare_around(make, tunnels, say):
    """The steps of AROUND with a router of `make`: in how many of them the engine does other things than Linux alone."""
    sent = {name: around(tunnels, number) for number, name in enumerate(AROUND)}
    record = {}
    take = lambda lan, name: exchange(lan, sent[name], len(record.get(name, ())))  # noqa: E731
    record |= topic_guest.record_linux(make(), AROUND, take, say)
    assert len(record["at first"]) == len(sent["at first"]), "Linux forwards not all"
    return topic_guest.count_different(make(), "engine", record, AROUND, take, check_bora(sent, "engine", FAST_AROUND), say)


def reported(lan):
    """`bora show tunnels` has those that Bora forwards by, and says why it leaves the others."""
    report = lan.bora.show("tunnels")
    by_bora = {one["name"]: one for one in report["tunnels"]}
    assert sorted(by_bora) == sorted(tunnel.name for tunnel in TUNNELS), report
    for one in by_bora.values():
        assert one["rx_packets"] > 5 and one["tx_packets"] > 5 and one["tx_bytes"] > 40 * one["tx_packets"], report
    left = {one["name"]: one["why"] for one in report["left_to_linux"]}
    assert set(LEFT_ALONE) <= set(left) and "csum" in left["gre7"] and "local" in left["ipip9"], report


def body(how, say):
    """Linux's record, and Bora's beside it."""
    Path("/proc/sys/net/ipv4/route/error_cost").write_text("0")  # no limit for ICMP errors; it has no namespaces
    steps = dict(list(STEPS.items())[:SHORT if how == "short" else None])
    sent = traffic()
    take = lambda lan, name: exchange(lan, sent[name])  # noqa: E731
    record = topic_guest.record_linux(Lan(), steps, take, say)
    assert len(record["tunnels"]) > 0.6 * len(sent["tunnels"]), "Linux forwards little"
    different = sum(topic_guest.count_different(Lan(), tier, record, steps, take, check_bora(sent, tier, FAST, reported), say)
                    for tier in (("engine",) if how == "short" else ("engine", "express")))
    different += compare_around(lambda: Lan(TUNNELS, {}, []), TUNNELS, say)
    assert different == 0, f"{different} steps differ"
