"""VLANs on the links of the test network (lib.topology), and packets between them.

A segment is a VLAN or what is untagged on a link. Segment N has 10.0.N.0/24 and 2001:db8:N::/64, the router .1 / ::1, the
host .2 / ::2, and networks behind the host. The hosts have no addresses, as in lib.topology. A host sends in two ways: "band"
is a whole frame with its tags; "device" is a frame without tags by VLAN devices of the host, which leave the outer tag
in the socket buffer where the card can take it from there.
"""

import dataclasses
import itertools
import struct

from lib import packets
from lib.netns import Namespace
from lib.port import Port
from lib.topology import BEHIND4, BEHIND6

CTAG, STAG = 0x8100, 0x88A8  # 802.1Q, 802.1ad
PROTOCOLS = {CTAG: "802.1q", STAG: "802.1ad"}
WAYS = ("band", "device")
GROUP = 77  # group of all devices, because a group is deleted at once


@dataclasses.dataclass(frozen=True)
class Segment:
    """A VLAN. `tags`: (EtherType, VLAN) of each, outer first. `mac`: the router's, if it is not the link's. `options`: more of
    `ip link add`. `master`: a bridge, which has the addresses."""

    device: str  # the router's; the host's has an h instead of the r
    number: int
    link: int
    tags: tuple = ()
    below: str = ""  # default: the link
    mac: str = ""
    mtu: int = 1500
    options: str = ""
    master: str = ""

    @property
    def router4(self):
        return f"10.0.{self.number}.1"

    @property
    def router6(self):
        return f"2001:db8:{self.number:x}::1"

    @property
    def host4(self):
        return f"10.0.{self.number}.2"

    @property
    def host6(self):
        return f"2001:db8:{self.number:x}::2"

    @property
    def network4(self):
        """Prefix of the networks behind the host."""
        return str(BEHIND4[self.number]) if self.number < len(BEHIND4) else f"10.{self.number}.0.0/16"

    @property
    def network6(self):
        return str(BEHIND6[self.number]) if self.number < len(BEHIND6) else f"2001:db8:f{self.number:02x}::/48"

    @property
    def interface(self):
        """The one with the addresses."""
        return self.master or self.device


def tag(frame, tags, priority=0):
    """The frame with tags, outer first. `priority`: the upper four bits of the outer one's TCI (PCP and DEI)."""
    octets = b"".join(struct.pack("!HH", kind, vid) for kind, vid in tags)
    if tags:
        octets = octets[:2] + struct.pack("!H", priority << 12 | tags[0][1]) + octets[4:]
    return frame[:12] + octets + frame[12:]


def untag(frame):
    """(tags as (EtherType, TCI), the frame without them)."""
    tags, at = [], 12
    while at + 4 <= len(frame) and struct.unpack_from("!H", frame, at)[0] in PROTOCOLS:
        tags.append(struct.unpack_from("!HH", frame, at))
        at += 4
    return tags, frame[:12] + frame[at:]


class Vlans:
    """VLAN devices in the router and in the hosts of a network. Those in `stations` have a namespace of their own at the
    host's end; `silent` are only at the hosts."""

    def __init__(self, net, segments, stations=(), silent=()):
        self.net = net
        self.segments = [segment for segment in segments if segment.tags]
        self.stations = {}
        self._ports = {}
        self._serial = itertools.count(1)
        try:
            net.router.batch([line for segment in self.segments for line in self.adding(segment)])
            self._make_host_devices([*self.segments, *silent], stations)
            for segment in self.segments:
                self.configure(segment)
        except BaseException:
            self.close()
            raise

    # Set-up.

    @staticmethod
    def adding(segment, end="r"):
        """Arguments of `ip` that make a segment's device; `end` "h": the host's."""
        def name(router):
            return end + router[1:]

        kind, vid = segment.tags[-1]
        own = f"address {segment.mac} " if segment.mac and end == "r" else ""
        mtu = f"mtu {segment.mtu} " if segment.mtu != 1500 and end == "r" else ""
        options = segment.options if end == "r" else ""
        lines = [f"link add link {name(segment.below or f'r{segment.link}')} name {name(segment.device)} {own}{mtu}"
                 f"group {GROUP} type vlan protocol {PROTOCOLS[kind]} id {vid} {options}"]
        if segment.master and end == "r":
            # with an address, or udev gives it another one a little later, which takes the neighbours away
            bridge = f"{segment.master} address 02:bc:00:00:02:{segment.number:02x} group {GROUP}"
            lines += [f"link add {bridge} type bridge stp_state 0 mcast_snooping 0", f"link set {segment.master} up",
                      f"link set {segment.device} master {segment.master}"]
        return lines

    def configuring(self, segment):
        """Arguments of `ip` that configure a segment's device, perhaps again."""
        device = f"dev {segment.interface}"
        host = f"lladdr {self.net.host_mac(segment.link)} {device}"
        return [
            f"link set {segment.device} up",
            f"address replace {segment.router4}/24 {device}",
            f"address replace {segment.router6}/64 {device} nodad",
            f"neighbour replace {segment.host4} {host}",
            f"neighbour replace {segment.host6} {host}",
            f"route replace {segment.network4} via {segment.host4}",
            f"route replace {segment.network6} via {segment.host6}",
        ]

    def configure(self, segment):
        """Configures the router's device of a segment, perhaps again."""
        self.net.router.batch(self.configuring(segment))

    def _make_host_devices(self, segments, stations):
        for link in range(len(self.net.hosts)):
            host = self._host(link)
            host.set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
            mine = [segment for segment in segments if segment.link == link]
            host.batch([line for segment in mine for line in
                        [*self.adding(segment, "h"), f"link set {self._host_device(segment)} arp off up"]])
        for segment in segments:
            place = self._host(segment.link)
            if segment in stations:
                place = self.stations[segment] = self._station(segment)
            self._ports[segment] = Port(place.name, self._host_device(segment), capture=False)

    def _station(self, segment):
        station = Namespace(f"s{segment.number}")
        station.set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
        device = self._host_device(segment)
        self._host(segment.link).ip("link", "set", device, "netns", station.name)
        station.ip("link", "set", device, "arp", "off", "up")
        return station

    def _host(self, link):
        return self.net.namespaces[1 + link]

    @staticmethod
    def _host_device(segment):
        return "h" + segment.device[1:]

    def awake(self, segment):
        """The station of a segment, with addresses and routes."""
        station, device = self.stations[segment], self._host_device(segment)
        station.set_sysctl(f"net/ipv6/conf/{device}/disable_ipv6", 0)
        station.batch([
            f"link set {device} arp on",
            f"address replace {segment.host4}/24 dev {device}",
            f"address replace {segment.host6}/64 dev {device} nodad",
            f"route replace default via {segment.router4}",
            f"route replace default via {segment.router6}",
        ])
        return station

    def asleep(self, segment):
        """Undoes `awake`."""
        station, device = self.stations[segment], self._host_device(segment)
        station.ip("address", "flush", "dev", device, check=False)
        station.set_sysctl(f"net/ipv6/conf/{device}/disable_ipv6", 1)
        station.ip("link", "set", device, "arp", "off")

    def close(self):
        """Removes all devices, even if a part of that fails."""
        for port in self._ports.values():
            port.close()
        for station in self.stations.values():
            station.close()
        for place in [self.net.router, *map(self._host, range(len(self.net.hosts)))]:
            place.ip("link", "del", "group", str(GROUP), check=False)

    # Traffic.

    def behind(self, family, segment):
        """A fresh address behind the host of a segment."""
        number = next(self._serial)
        if family == 4:
            return f"{segment.network4.split('.0.0/')[0]}.{number >> 8}.{number & 255}"
        return f"{segment.network6.split('::/')[0]}::{number:x}"

    def router_mac(self, segment):
        return segment.mac or self.net.router_mac(segment.link)

    def udp(self, family, source, target, **header):
        """A UDP packet from behind a segment's host to behind another's. Sizes and such: see lib.packets."""
        make = packets.udp4 if family == 4 else packets.udp6
        return make(self.behind(family, source), self.behind(family, target), **header)

    def frame(self, packet, segment, to=None, kind=None):
        """A packet as the host sends it, without tags; `to`: another destination than the router."""
        return packets.ethernet(to or self.router_mac(segment), self.net.host_mac(segment.link), packet, kind)

    def send(self, way, segment, frame):
        """Sends a frame without tags in a segment."""
        if way == "device" and segment.tags:
            self._ports[segment].send(frame)
        else:
            self.net.hosts[segment.link].send(tag(frame, segment.tags))
