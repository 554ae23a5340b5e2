"""Runs in a guest: bridges of veths, and VLAN devices on them. Express sends the same frames as Linux alone.

    h0 ==== r0 [router] r1 ==== h1        stations A (VLAN 10) and B (VLAN 20) behind r1, both tagged
                        r2 ==== h2        stations C (VLAN 10, untagged) and D (VLAN 20, tagged) behind r2; r1 and r2 are ports of br0
"""

import dataclasses
import functools
import time

from lib import packets
from lib.bora import Bora
from vm import topic_guest
from vm.topic_guest import HOST, ROUTER, addressing, differences, tagged

LINKS = 3
BRIDGE_MAC = "02:bc:00:00:00:30"
AGEING = 300  # hundredths of a second, where stations are to be forgotten
FORGOTTEN_SECONDS = 8  # Linux looks for old ones now and then


@dataclasses.dataclass(frozen=True)
class Station:
    """A host in a network of its own number, with a network behind it. `vlan`: its frames' tag on the link; 0: none."""

    number: int
    mac: str
    link: int
    vlan: int
    router: str  # the router's Ethernet address there

    def frame(self, packet, link=None, vlan=None):
        """A packet to the router, from this station, perhaps from another place."""
        frame = packets.ethernet(self.router, self.mac, packet)
        vlan = self.vlan if vlan is None else vlan
        return (self.link if link is None else link), tagged(frame, vlan)


PLAIN = Station(0, HOST.format(0), 0, 0, ROUTER.format(0))
A, B, C, D = (Station(number, f"02:bc:00:00:01:0{number}", link, vlan, BRIDGE_MAC)
              for number, link, vlan in ((1, 1, 10), (2, 1, 20), (3, 2, 0), (4, 2, 20)))
# Hosts of a bridge without VLANs: E and F are the bridge's own hosts, G is in a VLAN of a VLAN device on it.
E, F = (Station(number, f"02:bc:00:00:01:0{number}", link, 0, BRIDGE_MAC) for number, link in ((5, 1), (6, 2)))
G = Station(7, "02:bc:00:00:01:07", 2, 30, BRIDGE_MAC)


@functools.cache
def traffic(sources, targets):
    """A packet of each IP version from behind each station to behind each other one; always the same packets."""
    sends = []
    for source in sources:
        for target in targets:
            if source != target:
                v4 = packets.udp4(f"198.{18 + source.number}.0.{target.number + 1}", f"198.{18 + target.number}.0.9")
                v6 = packets.udp6(f"2001:db8:f{source.number}::{target.number + 1}", f"2001:db8:f{target.number}::9")
                sends += [source.frame(v4), source.frame(v6)]
    return sends


def hello(station, link=None, vlan=None):
    """A packet from a station that goes nowhere, so that Linux learns where it is."""
    return station.frame(packets.udp4(f"198.{18 + station.number}.0.1", "203.0.113.9"), link, vlan)


# Bridges: whose stations are in which device of the router's, and their VLAN devices.
WITH_VLANS = {PLAIN: "r0", A: "br0.10", B: "br0.20", C: "br0.10", D: "br0.20"}, (10, 20)
WITHOUT_VLANS = {PLAIN: "r0", E: "br0", F: "br0", G: "br0.30"}, (30,)
ALONE = {PLAIN: "r0", E: "br0", F: "br0"}, ()
PORT_VLANS = {1: ("10", "20"), 2: ("10 pvid untagged", "20")}  # by link


class Lan(topic_guest.Lan):
    """Router, hosts and a bridge."""

    def __init__(self, bridge):
        super().__init__(LINKS)
        self.devices, vlans = bridge
        self.stations = tuple(self.devices)
        try:
            for link in range(LINKS):
                self.connect(link)
            filtering = "vlan_filtering 1 vlan_default_pvid 0" if bridge == WITH_VLANS else ""
            self.router.batch([f"link add br0 address {BRIDGE_MAC} type bridge {filtering} stp_state 0",
                               *(f"link set r{link} master br0" for link in (1, 2)), "link set br0 up",
                               *(line for vlan in vlans for line in (
                                   f"link add link br0 name br0.{vlan} type vlan id {vlan}", f"link set br0.{vlan} up"))])
            if filtering:
                self.add_vlans(1, 2)
                for vlan in vlans:
                    self.bridge("vlan", "add", "dev", "br0", "vid", str(vlan), "self")
            for station in self.stations:
                self.router.batch(addressing(self.devices[station], station.number, station.mac))
            self.open_ports()
            self.greet()
        except BaseException:
            self.close()
            raise

    def add_vlans(self, *links):
        """Adds the VLANs of the bridge's ports on these links, if it has VLANs."""
        if self.devices is WITH_VLANS[0]:
            for link in links:
                for vlan in PORT_VLANS[link]:
                    self.bridge("vlan", "add", "dev", f"r{link}", "vid", *vlan.split())

    def bridge(self, *arguments):
        """`bridge ...` in the router."""
        return self.router.exec("bridge", *arguments).stdout

    def greet(self):
        """Each station says a word, so that Linux, and Bora after it, knows its place."""
        self.exchange([hello(station) for station in self.stations])
        self.settle()

    def settle(self):
        """Until Bora has followed."""
        time.sleep(1.5)
        if self.bora is not None:
            self.bora.wait_in_sync(topic_guest.FOLLOW_SECONDS)

    def is_fast(self):
        """Whether Bora forwards by bridges: not where veths have generic XDP, as on Linux 6.1."""
        return all(port["xdp"] == "driver" for port in self.bora.show("ports"))

    def is_left(self, why):
        """Checks that Bora says of bridge, VLAN devices and ports that they are left to Linux, and why."""
        [left] = self.bora.show("bridges")["left_to_linux"]
        assert left["name"] == "br0" and why in left["why"], left
        vlans = {one["name"] for one in self.bora.show("vlans")["left_to_linux"]}
        assert vlans == {name for name in self.devices.values() if "." in name}, vlans
        for port in self.bora.show("ports")[1:]:
            assert any("br0 is left" in notice and why in notice for notice in port["notices"]), port

    def sent(self):
        """Packets that Bora has sent."""
        return self.bora.totals()["sent"] if self.bora else 0


def everything(lan):
    """All to all. When the stations have been seen, Bora sends all but IPv6 that leaves by the device it came in by."""
    sends = traffic(lan.stations, lan.stations)
    lan.exchange(sends, len(sends))
    before = lan.sent()
    got = lan.exchange(sends, len(sends))
    assert len(got) == len(sends), f"{len(got)} of {len(sends)}: {lan.state()}"
    if lan.bora is not None and lan.is_fast():
        devices = lan.devices.values()
        routed = len(sends) // 2 + sum(one != other for one in devices for other in devices)
        lan.wait(f"Bora has sent {routed}", lambda: lan.sent() - before == routed, 10)
    return got


def moved(lan):
    """A station says a word at the other port: what is for it leaves there, without a tag. Then it moves back."""
    first, mover, *others = lan.stations
    lan.exchange([hello(mover, 2, 0)])
    lan.settle()
    sends = traffic((first, *others), (mover,))
    got = lan.exchange(sends, len(sends))
    lan.greet()
    return got + lan.exchange(sends, len(sends))


def remembered(lan):
    """A station that sends by Bora is not forgotten; one that is silent is, and then its packets are flooded."""
    first, station, *_, other = lan.stations
    lan.router.ip("link", "set", "br0", "type", "bridge", "ageing_time", str(AGEING))
    lan.settle()
    lan.greet()
    end, got = time.monotonic() + 2.5 * AGEING / 100, set()
    while time.monotonic() < end:
        got.update(lan.exchange(traffic((station,), (first,))))
        assert station.mac in lan.bridge("fdb", "show", "br", "br0"), "a station that sends is forgotten"
    time.sleep(FORGOTTEN_SECONDS)
    assert station.mac not in lan.bridge("fdb", "show", "br", "br0"), "Linux has forgotten no station"
    lan.settle()
    sends = traffic((first,), (station, other))
    got = sorted(got) + lan.exchange(sends, 2 * len(sends))
    lan.router.ip("link", "set", "br0", "type", "bridge", "ageing_time", "30000")
    lan.greet()
    return got


def during(lan, change, undo, sends, times=1):
    """What packets become after a change, which is undone then; if they are sent several times, the last time."""
    change()
    lan.settle()
    for _ in range(times):
        got = lan.exchange(sends)
    undo()
    lan.settle()
    lan.greet()
    return got


def without_a_port(lan, change, undo):
    """What all stations' packets become while something is wrong with a port."""
    return during(lan, change, undo, traffic(lan.stations, lan.stations), times=2)


def port_down(lan):
    return without_a_port(lan, lambda: lan.router.ip("link", "set", "r2", "down"), lambda: lan.router.ip("link", "set", "r2", "up"))


def blocked(lan):
    """Disabled: without STP, Linux makes a port forward at once that is set to blocking."""
    return without_a_port(lan, lambda: lan.bridge("link", "set", "dev", "r2", "state", "0"),
                          lambda: lan.bridge("link", "set", "dev", "r2", "state", "3"))


def left(lan):
    """A port leaves the bridge."""
    def undo():
        lan.router.ip("link", "set", "r2", "master", "br0")
        lan.add_vlans(2)
    return without_a_port(lan, lambda: lan.router.ip("link", "set", "r2", "nomaster"), undo)


def unplugged(lan):
    """A port has no carrier; its stations are silent."""
    def undo():
        lan.hosts[2].ip("link", "set", "h2", "up")
        lan.wait("a carrier", lambda: "LOWER_UP" in lan.router.ip("link", "show", "r2").stdout)
    sends = [(link, frame) for link, frame in traffic(lan.stations, lan.stations) if link != 2]
    return during(lan, lambda: lan.hosts[2].ip("link", "set", "h2", "down"), undo, sends)


def to_silent(lan, change, undo):
    """What packets from the first station to those behind a port become after a change to the stations' places."""
    silent = tuple(station for station in lan.stations if station.link == 2)

    def change_all():
        for station in silent:
            vlan = lan.devices[station].partition(".")[2] if lan.devices is WITH_VLANS[0] else ""
            change(station.mac, ("vlan", vlan) if vlan else ())
    return during(lan, change_all, undo, traffic(lan.stations[:1], silent))


def forgotten(lan):
    """Somebody deletes stations; what is for them is flooded, but not to their port."""
    lan.bridge("link", "set", "dev", "r2", "flood", "off")
    return to_silent(lan, lambda mac, vlan: lan.bridge("fdb", "del", mac, "dev", "r2", "master", *vlan),
                     lambda: lan.bridge("link", "set", "dev", "r2", "flood", "on"))


def elsewhere(lan):
    """Somebody says that stations are behind a port that is none of Bora's."""
    lan.router.batch(["link add d0 type veth peer name d1", "link set d1 addrgenmode none up", "link set d0 master br0 up"])
    if lan.devices is WITH_VLANS[0]:
        for vlan in ("10", "20"):
            lan.bridge("vlan", "add", "dev", "d0", "vid", vlan)
    return to_silent(lan, lambda mac, vlan: lan.bridge("fdb", "replace", mac, "dev", "d0", "master", "static", *vlan),
                     lambda: lan.router.ip("link", "del", "d0"))


def vlan_removed(lan):
    return without_a_port(lan, lambda: lan.bridge("vlan", "del", "dev", "r1", "vid", "20"),
                          lambda: lan.bridge("vlan", "add", "dev", "r1", "vid", "20"))


def vlan_without_ports(lan):
    """No port of Bora's is in it, as where all stations are behind a tunnel."""
    def both(change):
        for port in ("r1", "r2"):
            lan.bridge("vlan", change, "dev", port, "vid", "20")
    return without_a_port(lan, lambda: both("del"), lambda: both("add"))


def vlan_blocked(lan):
    """A VLAN's own state."""
    return without_a_port(lan, lambda: lan.bridge("vlan", "set", "dev", "r1", "vid", "20", "state", "4"),
                          lambda: lan.bridge("vlan", "set", "dev", "r1", "vid", "20", "state", "3"))


def filtered(lan):
    """nftables, family bridge: what comes from one station is dropped before the router sees it."""
    rule = f"table bridge t {{\nchain i {{ type filter hook input priority 0; ether saddr {lan.stations[1].mac} drop; }}\n}}\n"
    return without_a_port(lan, lambda: lan.router.exec("nft", "-f", "-", input=rule),
                          lambda: lan.router.exec("nft", "delete", "table", "bridge", "t"))


STEPS = (everything, moved, remembered, port_down, blocked, left, unplugged, forgotten, elsewhere, everything)


def one_bridge(bridge, steps, say, options=()):
    """Linux alone, then express, step by step. Returns what Bora has passed to Linux, by reason."""
    lan = Lan(bridge)
    try:
        wanted = [step(lan) for step in steps]
        lan.bora = Bora(lan.router, [f"r{link}" for link in range(LINKS)], "express", options)
        lan.bora.start()
        lan.greet()
        for step, frames in zip(steps, wanted):
            got = step(lan)
            assert got == frames, f"{step.__name__}: {differences(frames, got)}; {lan.state()}"
        lan.bora.check_conservation(10)
        if lan.is_fast():
            shown = lan.bora.show("bridges")
            assert [one["name"] for one in shown["bridges"]] == ["br0"] and not shown["left_to_linux"], shown
        else:
            lan.is_left("generic XDP")
        say(f"express{'' if lan.is_fast() else ', left to Linux'}, {', '.join(map(str, lan.devices.values()))}: as with Linux: "
            f"{', '.join(step.__name__ for step in steps)}; {[len(frames) for frames in wanted]} frames; {lan.sent()} sent by Bora")
        return lan.bora.show("drops")["punts"]
    finally:
        lan.close()


def engine(bridge, say):
    """The engine knows no bridges: all is Linux's, with the reason."""
    lan = Lan(bridge)
    try:
        sends = traffic(lan.stations, lan.stations)
        wanted = lan.exchange(sends, len(sends))
        topic_guest.Lan.start(lan, "engine")
        lan.greet()
        got = lan.exchange(sends, len(sends))
        assert got == wanted, f"engine: {differences(wanted, got)}; {lan.state()}"
        lan.is_left("engine path")
        say("engine: left to Linux, as with Linux")
    finally:
        lan.close()


def body(how, say):
    """Bridges with VLANs and without."""
    steps = (everything, vlan_removed) if how == "short" else (*STEPS, vlan_removed, vlan_blocked, filtered)
    punts = one_bridge(WITH_VLANS, (*steps, vlan_without_ports), say)
    assert not punts.get("output_down"), f"every device is up: {punts}"
    one_bridge(WITHOUT_VLANS, (everything,) if how == "short" else STEPS, say)
    engine(WITH_VLANS, say)
