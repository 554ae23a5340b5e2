"""Runs in a guest: two VRFs with the same addresses, and interfaces of no VRF. What Linux alone sends, Bora sends.

    interface   VRF    router's address, network behind its host
    r0, r1      red    10.0.0.1, 10.0.1.1; 198.18.0.0/16, 198.19.0.0/16; nothing else can be reached (unreachable default)
    r0.100,     blue   the same addresses and networks; what they have no route for goes by table main
    r1.100
    bond0       blue   10.0.3.1, 198.21.0.0/16; r3 is its port
    r2          none   10.0.2.1, 198.20.0.0/16

The same with 2001:db8:N::/64 and 2001:db8:fN::/48. Each link has a host of its own, which answers nothing.
"""

import dataclasses
import time
from pathlib import Path

from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6

from lib import packets
from vm import topic_guest
from vm.topic_guest import FOLLOW_SECONDS, HOST, ROUTER
from vm.vlan import normalized

LINKS = 4
RED, BLUE, OTHER = 10, 20, 30  # tables
VLAN = 100
TIERS = ("express", "engine")


@dataclasses.dataclass(frozen=True)
class Place:
    """An interface of the router. `number`: of its networks."""

    device: str
    link: int
    number: int
    vrf: str = ""
    vlan: int = 0

    def put(self, frame):
        """The frame as its host sends it."""
        return topic_guest.tagged(frame, self.vlan)


PLACES = [Place("r0", 0, 0, "red"), Place("r1", 1, 1, "red"), Place(f"r0.{VLAN}", 0, 0, "blue", VLAN), Place(f"r1.{VLAN}", 1, 1, "blue", VLAN),
          Place("r2", 2, 2), Place("bond0", 3, 3, "blue")]
BY_NAME = {place.device: place for place in PLACES}
VRFS = {"red": RED, "blue": BLUE}
MANY = range(1, 20)  # VLANs of r2 that become VRFs in the last step


def addressing(place, vrf):
    """Commands that give an interface its addresses and networks; a change of the VRF removes them."""
    table = f" table {VRFS[vrf]}" if vrf else ""
    made = []
    for address, host, behind in ((f"10.0.{place.number}.1/24", f"10.0.{place.number}.2", f"198.{18 + place.number}.0.0/16"),
                                  (f"2001:db8:{place.number}::1/64", f"2001:db8:{place.number}::2", f"2001:db8:f{place.number}::/48")):
        made += [f"address replace {address} dev {place.device}" + (" nodad" if ":" in address else ""),
                 f"route replace {behind} via {host} dev {place.device}{table}"]
    return made


def neighbours(place):
    """Commands that make the host known."""
    hosts = f"10.0.{place.number}.2", f"2001:db8:{place.number}::2"
    return [f"neighbour replace {host} lladdr {HOST.format(place.link)} dev {place.device}" for host in hosts]


def master(device, vrf):
    """Puts an interface into a VRF, or into none."""
    return [f"link set {device} " + (f"master {vrf}" if vrf else "nomaster"), *addressing(BY_NAME[device], vrf)]


def both(text, net4, net6, via4="", via6=""):
    """A command for IPv4 and for IPv6."""
    return [text.format(net=net4, via=via4), "-6 " + text.format(net=net6, via=via6)]


BASE = [
    *(f"link add {vrf} type vrf table {table}" for vrf, table in VRFS.items()), *(f"link set {vrf} up" for vrf in VRFS),
    f"link add link r0 name r0.{VLAN} type vlan id {VLAN}", f"link add link r1 name r1.{VLAN} type vlan id {VLAN}",
    f"link add bond0 address {ROUTER.format(3)} type bond mode balance-xor xmit_hash_policy layer3+4 miimon 50", "link set r3 master bond0",
    *(f"link set {place.device} master {place.vrf}" for place in PLACES if place.vrf),
    *(f"link set {place.device} up" for place in PLACES), "link set r3 up",
    *(command for place in PLACES for command in addressing(place, place.vrf)),
    *both(f"route add unreachable {{net}} metric 4278198272 table {RED}", "default", "default"),
    # from one VRF into another, and to the VRF's device itself
    *both(f"route add {{net}} via {{via}} dev r1.{VLAN} table {RED}", "203.0.113.0/24", "2001:db8:e0::/48", "10.0.1.2", "2001:db8:1::2"),
    *both(f"route add {{net}} dev blue table {RED}", "203.0.114.0/24", "2001:db8:e1::/48"),
    *both(f"route add {{net}} via {{via}} dev r2 table {BLUE}", "203.0.115.0/24", "2001:db8:e2::/48", "10.0.2.2", "2001:db8:2::2"),
    *both("route add {net} via {via} dev r1", "203.0.116.0/24", "2001:db8:e3::/48", "10.0.1.2", "2001:db8:1::2"),
    *both(f"route add blackhole {{net}} table {BLUE}", "203.0.117.0/24", "2001:db8:e4::/48"),
    *both(f"route add {{net}} via {{via}} dev bond0 table {OTHER}", "198.19.0.0/16", "2001:db8:f1::/48", "10.0.3.2", "2001:db8:3::2"),
]


def vrf_of_a_vlan(number):
    """Commands that make a VRF with a VLAN device on r2 in it; all have the same addresses."""
    device, table = f"r2.{number}", 100 + number
    return [f"link add vrf{number} type vrf table {table}", f"link set vrf{number} up", f"link add link r2 name {device} type vlan id {number}",
            f"link set {device} master vrf{number}", f"link set {device} up",
            *both(f"address add {{net}} dev {device}", "10.0.2.1/24", "2001:db8:2::1/64 nodad"),
            *both(f"route add {{net}} via {{via}} dev {device} table {table}", f"198.18.{number}.0/24", f"2001:db8:f0:{number}::/64", "10.0.2.2", "2001:db8:2::2"),
            *neighbours(Place(device, 2, 2))]


# Each step goes on from the one before.
STEPS = {
    "VRFs": [],
    "r2 becomes red's": master("r2", "red"),
    "r2 is nobody's, r1 blue's": [*master("r2", ""), *master("r1", "blue")],
    "r1 is red's again": [*master("r1", "red"), *addressing(BY_NAME[f"r1.{VLAN}"], "blue")],
    "local comes last": [*both("rule add pref 32000 table local", "", ""), *both("rule del pref 0", "", "")],
    "a rule before VRFs": both(f"rule add pref 500 from {{net}} table {OTHER}", "198.18.7.0/24", "2001:db8:f0:7::/64"),
    "rules for an interface and for a VRF": [command for pref, device in ((501, "r0"), (502, "blue")) for command in both(
        f"rule add pref {pref} iif {device} to {{net}} table {OTHER}", "198.19.9.0/24", "2001:db8:f1:9::/64")],
    "without these rules": [command for pref in (500, 501, 502) for command in both(f"rule del pref {pref}", "", "")],
    "red has gone": ["link del red", *addressing(BY_NAME["r0"], "")],
    "20 VRFs": [command for number in MANY for command in vrf_of_a_vlan(number)],
}
# Where Linux sends packets in these steps: (from, to network): to; None: it drops or answers them. Bora sends them itself.
AS_FIRST = ("VRFs", "r1 is red's again", "local comes last")
FIRST = {("r0", 1): "r1", ("r1", 0): "r0", (f"r0.{VLAN}", 1): f"r1.{VLAN}", (f"r1.{VLAN}", 0): f"r0.{VLAN}", ("r0", 2): None, ("r0", 3): None,
         (f"r0.{VLAN}", 3): "bond0", (f"r0.{VLAN}", 2): "r2", ("r2", 0): None, ("r2", 3): None, ("bond0", 0): f"r0.{VLAN}",
         ("bond0", 1): f"r1.{VLAN}", ("r2", 1): None}


class Lan(topic_guest.Lan):
    """Router and hosts."""

    def __init__(self):
        super().__init__(LINKS)
        try:
            for link in range(LINKS):
                self.connect(link)
            self.router.ip("link", "set", "r3", "down")  # a bond takes no other port
            for command in BASE:
                self.router.ip(*command.split())
            self.open_ports()
            time.sleep(1)  # the bond finds its port
        except BaseException:
            self.close()
            raise

    def step(self, commands):
        """Changes the router's configuration; Bora has followed when this returns."""
        for command in commands:
            self.router.ip(*command.split())
        # an interface that changes its VRF goes down and up, and VLAN devices with it: they lose their neighbours
        self.router.batch([line for place in PLACES for line in neighbours(place)])
        if self.bora is not None:
            self.bora.wait_in_sync(FOLLOW_SECONDS)
            self.wait_for_devices()

    def wait_for_devices(self):
        """Until Bora forwards by VLAN devices and bond."""
        deadline = time.monotonic() + FOLLOW_SECONDS
        while len(self.bora.show("vlans")["devices"]) < 2 or not self.bora.show("bonds")["bonds"]:
            assert time.monotonic() < deadline, self.state()
            time.sleep(0.2)
        time.sleep(1)  # until the program knows what the mirror knows

    def state(self):
        """For messages."""
        rules = self.router.ip("rule", "show").stdout
        return {what: self.bora.show(what) for what in ("tables", "vlans", "drops")}, rules, self.bora.output()[-1500:]


def behind(number, host):
    """Addresses behind the host of a network; IPv4, IPv6. `host` has a point, too."""
    high, low = divmod(host, 256)
    return f"198.{18 + number}.{high}.{low}", f"2001:db8:f{number}:{high:x}::{low:x}"


def packets_between(source, destination, **header):
    """A packet of IPv4 and one of IPv6 between pairs of addresses."""
    hops = header.pop("ttl", 64)
    return [packets.udp4(source[0], destination[0], ttl=hops, **header), packets.udp6(source[1], destination[1], hlim=hops, **header)]


def traffic():
    """(from, to network or None, packet) of all packets of a step."""
    made = []
    for place in PLACES:
        source, own = behind(place.number, 5), (f"10.0.{place.number}.1", f"2001:db8:{place.number}::1")
        for number in range(4):
            if number != place.number:
                # twice: the second packet of a flow finds what the first has left
                made += [(place, number, packet) for _ in range(2) for packet in packets_between(source, behind(number, 9))]
                made += [(place, None, packet) for packet in packets_between(source, behind(number, 9 * 256 + 1))]
                made += [(place, None, packet) for packet in packets_between(behind(place.number, 7 * 256 + 1), behind(number, 10))]
                made += [(place, None, packet) for packet in packets_between(source, behind(number, 11), ttl=1)]
        for number in range(4):  # the routers' own addresses, and hosts on the networks themselves
            made += [(place, None, packet) for packet in packets_between(source, (f"10.0.{number}.1", f"2001:db8:{number}::1"))]
            made += [(place, None, packet) for packet in packets_between(source, (f"10.0.{number}.2", f"2001:db8:{number}::2"))]
        made += [(place, None, packet) for leak in range(5) for packet in packets_between(source, (f"203.0.{113 + leak}.9", f"2001:db8:e{leak}::9"))]
        made += [(place, None, packet) for packet in packets_between(source, ("192.0.2.77", "2001:db8:ffff::77"))]
        made += [(place, None, bytes(IP(src=source[0], dst=own[0]) / ICMP(id=7) / packets.payload())),
                 (place, None, bytes(IPv6(src=source[1], dst=own[1]) / ICMPv6EchoRequest(id=7, data=packets.payload())))]
    for number in MANY:
        place, to = Place(f"r2.{number}", 2, 2, f"vrf{number}", number), (f"198.18.{number}.9", f"2001:db8:f0:{number}::9")
        made += [(place, None, packet) for packet in packets_between(behind(3, 5), to)]
    return made


def send(sent):
    """As frames of their hosts."""
    return [(place.link, place.put(packets.ethernet(ROUTER.format(place.link), HOST.format(place.link), packet))) for place, _, packet in sent]


def forwarded(place_to, packet):
    """The frame that leaves the router."""
    frame = packets.ethernet(HOST.format(place_to.link), ROUTER.format(place_to.link), packets.hop(packet))
    return place_to.link, normalized(place_to.put(frame))


def check_first(sent, got, who):
    """Packets go where they should; returns how many Bora must send itself."""
    known, fast = set(got), 0
    for place, number, packet in sent:
        if (place.device, number) not in FIRST:
            continue
        wanted = FIRST[place.device, number]
        copies = [to.device for to in PLACES if forwarded(to, packet) in known]
        assert copies == ([wanted] if wanted else []), f"{who}: {place.device} to network {number}: {copies}, not {wanted}"
        fast += wanted is not None
    return fast


def check_first_bora(sent, path):
    """What Bora must have sent itself, as a check of `count_different`."""
    def check(lan, name, got, by_bora):
        if name in AS_FIRST:
            fast = check_first(sent, got, path)
            assert by_bora >= fast, f"{path}, {name}: Bora has sent {by_bora} of {fast}; {lan.state()}"
            reported(lan)
    return check


def reported(lan):
    """`bora show tables` has the VRFs, their interfaces and packets."""
    tables = {one["vrf"]: one for one in lan.bora.show("tables")["tables"]}
    assert tables["red"]["table"] == RED and sorted(tables["red"]["interfaces"]) == ["r0", "r1"], tables
    assert sorted(tables["blue"]["interfaces"]) == ["bond0", f"r0.{VLAN}", f"r1.{VLAN}"], tables
    for one in (tables["red"], tables["blue"]):
        assert one["prefixes4"] > 2 and one["prefixes6"] > 2 and one["rx_packets"] > 0 and one["tx_packets"] > 0, tables


def body(how, say):
    """Linux's record, and Bora's beside it."""
    Path("/proc/sys/net/ipv4/route/error_cost").write_text("0")  # no limit for ICMP errors; it has no namespaces
    sent = traffic()
    exchange = lambda lan, _: lan.exchange(send(sent))  # noqa: E731
    record = topic_guest.record_linux(Lan(), STEPS, exchange, say)
    for name in AS_FIRST:
        assert check_first(sent, record[name], f"Linux, {name}") > 20
    different = sum(topic_guest.count_different(Lan(), tier, record, STEPS, exchange, check_first_bora(sent, tier), say)
                    for tier in (TIERS[:1] if how == "short" else TIERS))
    assert different == 0, f"{different} steps differ"
