"""Packets in VLANs, and what Linux sends for them. `cases()` is the list."""

import dataclasses
import struct
from typing import Callable

from scapy.layers.inet import ICMP, IP, IPOption, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP
from scapy.packet import Raw

from lib import packets
from lib.vlans import CTAG, STAG, WAYS, Segment

BROADCAST, OTHER_MAC = "ff:ff:ff:ff:ff:ff", "02:bc:00:00:00:99"
SMALL_MTU = 1300
MANY, MANY_GROUP = 300, 78  # deleted as a group, which is much faster

R0, R1 = Segment("r0", 0, 0), Segment("r1", 1, 1)
A = Segment("r0.100", 10, 0, ((CTAG, 100),))
B = Segment("r0.200", 11, 0, ((CTAG, 200),))
C = Segment("r1.300", 12, 1, ((CTAG, 300),))
SAME_ID = Segment("r1.100", 13, 1, ((CTAG, 100),))
AD = Segment("r0.ad100", 14, 0, ((STAG, 100),))
OUTER = Segment("r0.ad500", 15, 0, ((STAG, 500),))
QINQ = Segment("r0.ad500.7", 16, 0, ((STAG, 500), (CTAG, 7)), OUTER.device)
THREE = Segment("r0.ad500.7.9", 17, 0, ((STAG, 500), (CTAG, 7), (CTAG, 9)), QINQ.device)
OWN_MAC = Segment("r0.110", 18, 0, ((CTAG, 110),), mac="02:bc:00:00:01:10")
SMALL = Segment("r0.120", 19, 0, ((CTAG, 120),), mtu=SMALL_MTU)
OUTER_1 = Segment("r1.400", 20, 1, ((CTAG, 400),))
QINQ_1 = Segment("r1.400.4", 21, 1, ((CTAG, 400), (CTAG, 4)), OUTER_1.device)
MAPPED = Segment("r0.140", 22, 0, ((CTAG, 140),), options="egress-qos-map 0:5 2:1 4:7 6:3")
BRIDGED = Segment("r0.130", 23, 0, ((CTAG, 130),), master="br130")
OUTER_MAPPED = Segment("r1.600", 24, 1, ((CTAG, 600),), options="egress-qos-map 0:5 6:1")
QINQ_MAPPED = Segment("r1.600.6", 25, 1, ((CTAG, 600), (CTAG, 6)), OUTER_MAPPED.device, options="egress-qos-map 0:2 6:4")
IN_FRAME = Segment("r1.700", 26, 1, ((CTAG, 700),), options="reorder_hdr off")
INGRESS_MAPPED = Segment("r0.160", 27, 0, ((CTAG, 160),), options="ingress-qos-map 0:6")
SEGMENTS = (A, B, C, SAME_ID, AD, OUTER, QINQ, THREE, OWN_MAC, SMALL, OUTER_1, QINQ_1, MAPPED, BRIDGED, OUTER_MAPPED, QINQ_MAPPED,
            IN_FRAME, INGRESS_MAPPED)
# VLANs that the router lacks.
UNKNOWN = Segment("r0.999", 0, 0, ((CTAG, 999),))
UNKNOWN_AD = Segment("r0.ad200", 0, 0, ((STAG, 200),))
UNKNOWN_INNER = Segment("r0.100.5", 0, 0, ((CTAG, 100), (CTAG, 5)), A.device)
UNKNOWN_PLAIN = Segment("r0.500", 0, 0, ((CTAG, 500),))
SILENT = (UNKNOWN, UNKNOWN_AD, UNKNOWN_INNER, UNKNOWN_PLAIN)
STATIONS = (A, B, C)
LEFT_TO_LINUX = {THREE: "tags", BRIDGED: "bridge", INGRESS_MAPPED: "ingress-qos-map"}
# What Linux makes of the TOS octet of a forwarded packet with the maps of MAPPED and QINQ_MAPPED; of IPv6 packets what it makes of 0.
PRIORITIES = {MAPPED: {0: "140p5", 0x02: "140p5", 0x08: "140p1", 0x10: "140p3", 0x18: "140p7", 0xE4: "140p5", 0xB8: "140p7"},
              QINQ_MAPPED: {0: "600p5.6p2", 0x08: "600.6", 0x10: "600p1.6p4", 0x18: "600.6"}}


@dataclasses.dataclass
class Case:
    """What is sent, and what Linux alone answers, each frame as lib's `summary` in vm.vlan has it."""

    name: str
    sends: list  # triples (way, segment, frame without tags)
    wanted: list
    by: str = "bora"  # what forwards: "bora", "linux", or "" if both may
    prepare: Callable | None = None
    short: bool = False  # part of short runs
    seconds: float = 2.0  # until the frames must be there


def place(segment):
    """A segment in a summary: link, tags."""
    return f"h{segment.link} " + (".".join(("ad" if kind == STAG else "") + str(vid) for kind, vid in segment.tags) or "-")


def cases(lan):
    """All cases. The packets are the same for Linux and for Bora, so this is called once for a network."""
    return [*forwarded(lan), *tags(lan), *addresses(lan), *errors(lan), *to_the_router(lan), *settings(lan), *changes(lan), *hooks(lan),
            *states(lan), *priorities(lan), *left_to_linux(lan), many(lan)]


def merged(found):
    """The short cases without preparation, as one for each who forwards."""
    made = {}
    for case in found:
        if case.short and not case.prepare:
            one = made.setdefault(case.by, Case(f"all that is done by {case.by or 'either'}", [], [], case.by))
            one.sends, one.wanted = one.sends + case.sends, one.wanted + case.wanted
    return list(made.values())


def flows(lan, pairs, ways=WAYS, families=(4, 6), **header):
    """A packet for each pair of segments, IP version and way to send."""
    sends, wanted = [], []
    for source, target in pairs:
        for family in families:
            for way in ways if source.tags else ways[:1]:
                sends.append((way, source, lan.frame(lan.udp(family, source, target, **header), source)))
                wanted.append(f"{place(target)} IPv{family} UDP")
    return sends, wanted


def both(*segments):
    """The pairs of the first segment and each other one, in both directions."""
    first, *others = segments
    return [pair for other in others for pair in ((first, other), (other, first))]


def forwarded(lan):
    for name, pairs, short in (
        ("VLANs of one trunk", both(A, B), True),
        ("VLAN and untagged, one port", both(A, R0), False),
        ("VLAN and untagged, two ports", both(A, R1) + both(C, R0), True),
        ("VLANs of two trunks", both(A, C), True),
        ("one id on two trunks", both(A, SAME_ID), True),
        ("802.1ad and 802.1Q, one id", both(AD, A, C), True),
        ("QinQ", both(QINQ, A, R1, C, QINQ_1, OUTER), True),
        ("QinQ, both 802.1Q", both(QINQ_1, A, R0, OUTER_1), False),
        ("MAC of its own", both(OWN_MAC, A, R1), True),
        ("reorder_hdr off", both(IN_FRAME, A, R1), False),
    ):
        yield Case(name, *flows(lan, pairs), short=short)
    sends, wanted = [], []
    for size in (0, 18, 100, 777, 1452):
        more = flows(lan, both(A, B, C, R1), size=size)
        sends, wanted = sends + more[0], wanted + more[1]
    sends4, wanted4 = flows(lan, both(A, B, C, R1), families=(4,), size=1472)
    yield Case("sizes", sends + sends4, wanted + wanted4)
    # only as Linux sends them: the outer tag is outside, so that they fit the MTU of a veth
    yield Case("QinQ, full size", *flows(lan, both(QINQ, C, R1), ways=("device",), size=1452), by="")
    yield Case("hosts on the links", *on_link(lan, both(A, B, C, R1)))


def on_link(lan, pairs):
    """As `flows`, between the hosts' own addresses."""
    sends, wanted = [], []
    for source, target in pairs:
        for way in WAYS if source.tags else WAYS[:1]:
            for packet in (packets.udp4(source.host4, target.host4), packets.udp6(source.host6, target.host6)):
                sends.append((way, source, lan.frame(packet, source)))
                wanted.append(f"{place(target)} IPv{packets.version(packet)} UDP")
    return sends, wanted


def raw(tags_of_frame, frame):
    """A send of a frame with any tags: ((EtherType, TCI), …)."""
    octets = b"".join(struct.pack("!HH", *one) for one in tags_of_frame)
    return "band", R0, frame[:12] + octets + frame[12:]


def tags(lan):
    unknown = (UNKNOWN, UNKNOWN_AD, UNKNOWN_INNER, UNKNOWN_PLAIN)
    sends = [(way, segment, lan.frame(packet, segment)) for segment in unknown for way in WAYS
             for packet in (lan.udp(4, A, B), lan.udp(6, A, B))]
    yield Case("unknown VLAN", sends, [], by="", short=True)

    def each(*lists):
        return [raw(one, lan.frame(lan.udp(family, A, B), A)) for one in lists for family in (4, 6)]

    to_b = [f"{place(B)} IPv{family} UDP" for family in (4, 6)]
    yield Case("VLAN 4095", each([(CTAG, 4095)], [(STAG, 4095)]), [], by="")
    yield Case("VLAN 0", each([(CTAG, 0)], [(CTAG, 5 << 13)], [(STAG, 0)]), 3 * to_b, by="", short=True)
    yield Case("VLAN 0 around a VLAN", each([(CTAG, 5 << 13), (CTAG, 100)]), to_b, by="")
    yield Case("VLAN 0 in a VLAN", each([(CTAG, 100), (CTAG, 0)]), to_b, by="")
    yield Case("priority and DEI", each([(CTAG, 5 << 13 | 100)], [(CTAG, 1 << 12 | 100)], [(CTAG, 0xF000 | 100)]), 3 * to_b,
               short=True)
    yield Case("three unknown tags", each([(CTAG, 100), (CTAG, 5), (CTAG, 6)], [(STAG, 500), (CTAG, 7), (CTAG, 8)]), [], by="")
    yield Case("three tags", *flows(lan, both(THREE, A)), by="")
    short_frames = [("band", A, frame[:length]) for length in (14, 15, 33)
                    for frame in [lan.frame(lan.udp(4, A, B), A)]]
    cut = [raw([], lan.frame(lan.udp(4, A, B), A)[:12] + octets) for octets in
           (b"\x81\0", b"\x81\0\0", b"\x81\0\0\x64", b"\x81\0\0\x64\x08", b"\x88\xa8\1\xf4\x81\0", b"\x88\xa8\1\xf4\x81\0\0\x07")]
    yield Case("cut off", short_frames + cut, [], by="")
    yield Case("other EtherType", [("band", A, lan.frame(lan.udp(4, A, B), A, kind=kind)) for kind in (0, 0x5DC, 0x801, 0x88CC)],
               [], by="")


def addresses(lan):
    """Which Ethernet addresses are the router's. Linux also takes a VLAN's packets to the address of the port."""
    trunk, own = lan.net.router_mac(0), OWN_MAC.mac

    def to(mac, *segments):
        return [(way, segment, lan.frame(lan.udp(family, segment, B), segment, to=mac)) for segment in segments
                for family in (4, 6) for way in (WAYS if segment.tags else WAYS[:1])]

    yield Case("wrong MAC", to(OTHER_MAC, A, R0, QINQ, OWN_MAC), [], by="", short=True)
    yield Case("broadcast and multicast MAC", to(BROADCAST, A, QINQ) + to("01:00:5e:00:00:09", A), [], by="")
    yield Case("another VLAN's MAC", to(own, A, R0, QINQ), [], by="")
    yield Case("the port's MAC, VLAN with its own", to(trunk, OWN_MAC),
               2 * [f"{place(B)} IPv{family} UDP" for family in (4, 6)], by="", short=True)


def each_way(lan, segment, make):
    """`make(family)` for IPv4 and IPv6, each sent in both ways."""
    return [(way, segment, lan.frame(make(family), segment)) for family in (4, 6) for way in WAYS]


def errors(lan):
    def twice(*summaries):
        return [summary for summary in summaries for _ in WAYS]

    sends, wanted = [], []
    for segment in (A, QINQ, OWN_MAC, C):
        sends += each_way(lan, segment, lambda family: lan.udp(family, segment, B, **{"ttl" if family == 4 else "hlim": 1}))
        wanted += twice(f"{place(segment)} IPv4 ICMP 11/0", f"{place(segment)} IPv6 ICMP 3/0")
    yield Case("TTL used up", sends, wanted, by="linux", short=True)

    yield Case("no route", each_way(lan, A, lambda family: nowhere(lan, family)),
               twice(f"{place(A)} IPv4 ICMP 3/0", f"{place(A)} IPv6 ICMP 1/0"), by="linux")

    def big(over, **header):
        def make(family):
            size = SMALL_MTU - (28 if family == 4 else 48) + over
            return lan.udp(family, A, SMALL, size=size, **(header if family == 4 else {}))
        return make

    yield Case("exactly the VLAN's MTU", each_way(lan, A, big(0, flags="DF")),
               twice(f"{place(SMALL)} IPv4 UDP", f"{place(SMALL)} IPv6 UDP"))
    yield Case("more than the VLAN's MTU", each_way(lan, A, big(1, flags="DF")),
               twice(f"{place(A)} IPv4 ICMP 3/4", f"{place(A)} IPv6 ICMP 2/0"), by="", short=True)
    yield Case("fragments", [("band", A, lan.frame(big(100)(4), A))],
               [f"{place(SMALL)} IPv4 UDP", f"{place(SMALL)} IPv4 fragment"], by="")

    def options(family):
        return bytes(IP(src=lan.behind(4, A), dst=lan.behind(4, C), options=[IPOption(b"\x01" * 4)])
                     / UDP() / Raw(packets.payload()))

    yield Case("IP options", [(way, QINQ, lan.frame(options(4), QINQ)) for way in WAYS], 2 * [f"{place(C)} IPv4 UDP"], by="linux")
    yield redirects(lan)
    yield no_neighbour(lan)


def nowhere(lan, family):
    if family == 4:
        return packets.udp4(lan.behind(4, A), "203.0.113.9")
    return packets.udp6(lan.behind(6, A), "2001:db8:dead::9")


def redirects(lan):
    """The next hop is in the VLAN where the packet comes from."""
    gateways = {4: "10.0.10.9", 6: "fe80::9"}  # an IPv6 redirect needs a link-local one

    def prepare(_):
        net = lan.net
        for family, gateway in gateways.items():
            net.ip(f"neighbour replace {gateway} lladdr {OTHER_MAC} dev {A.device}", f"neighbour del {gateway} dev {A.device}")
            net.route("203.0.114.0/24" if family == 4 else "2001:db8:beef::/48", f"via {gateway} dev {A.device}", family)

    sends = [("band", A, lan.frame(packets.udp4(A.host4, "203.0.114.9"), A)),
             ("band", A, lan.frame(packets.udp6(A.host6, "2001:db8:beef::9"), A))]
    return Case("redirects", sends, [f"{place(A)} {what}" for what in ("IPv4 UDP", "IPv4 ICMP 5/1", "IPv6 UDP", "IPv6 ICMP 137/0")],
                by="", prepare=prepare)


def no_neighbour(lan):
    """The router asks in the VLAN, and nobody answers."""
    silent = {4: "10.0.11.77", 6: "2001:db8:b::77"}

    def prepare(_):
        for family, address in silent.items():
            for key, value in (("mcast_solicit", 1), ("retrans_time_ms", 200)):
                lan.net.router.set_sysctl(f"net/ipv{family}/neigh/{B.device}/{key}", value)
            lan.net.later(lambda address=address: lan.net.router.ip("neighbour", "del", address, "dev", B.device, check=False))

    sends = [("band", A, lan.frame(make(lan.behind(family, A), silent[family]), A))
             for family, make in ((4, packets.udp4), (6, packets.udp6))]
    wanted = [f"{place(B)} ARP 1", f"{place(B)} IPv6 ICMP 135/0", f"{place(A)} IPv4 ICMP 3/1", f"{place(A)} IPv6 ICMP 1/3"]
    return Case("no neighbour", sends, wanted, by="linux", prepare=prepare, seconds=10)


def to_the_router(lan):
    """ARP, Neighbour Discovery and echo requests to the router's addresses in VLANs."""
    sends, wanted = [], []
    for segment in (A, QINQ, OWN_MAC):
        mac = lan.net.host_mac(segment.link)
        request = bytes(ARP(op=1, hwsrc=mac, psrc=segment.host4, pdst=segment.router4))
        question = bytes(IPv6(src=segment.host6, dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt=segment.router6)
                         / ICMPv6NDOptSrcLLAddr(lladdr=mac))
        for way in WAYS:
            sends.append((way, segment, lan.frame(request, segment, to=BROADCAST, kind=0x0806)))
            sends.append((way, segment, lan.frame(question, segment, to="33:33:ff:00:00:01")))
            wanted += [f"{place(segment)} ARP 2", f"{place(segment)} IPv6 ICMP 136/0"]
    yield Case("ARP and ND", sends, wanted, by="linux", short=True)
    sends, wanted = [], []
    for segment, target in ((A, A), (A, B), (QINQ, QINQ), (OWN_MAC, OWN_MAC), (R0, C)):
        for way in WAYS if segment.tags else WAYS[:1]:
            data = packets.payload(40)
            for packet in (IP(src=segment.host4, dst=target.router4) / ICMP(id=7, seq=1) / Raw(data),
                           IPv6(src=segment.host6, dst=target.router6) / ICMPv6EchoRequest(id=7, seq=1, data=data)):
                sends.append((way, segment, lan.frame(bytes(packet), segment)))
            wanted += [f"{place(segment)} IPv4 ICMP 0/0", f"{place(segment)} IPv6 ICMP 129/0"]
    yield Case("ping of the router", sends, wanted, by="linux", short=True)


def settings(lan):
    """Settings of one VLAN, not of others."""
    def strict(_):
        lan.net.sysctl(f"ipv4/conf/{A.device}/rp_filter", 1)

    good, wanted = flows(lan, [(A, C), (B, C)])
    spoofed = [("band", segment, lan.frame(lan.udp(4, C, B), segment)) for segment in (A, QINQ, R0)]
    yield Case("rp_filter of one VLAN", spoofed + good, wanted + 2 * [f"{place(B)} IPv4 UDP"], by="", prepare=strict)

    def off(_):
        for family in (4, 6):
            lan.net.sysctl(f"ipv{family}/conf/{AD.device}/forwarding", 0)

    good, wanted = flows(lan, [(A, C), (C, AD), (QINQ, C)])
    bad, _ = flows(lan, [(AD, C)])
    # the forwarding of one interface means nothing to IPv6
    yield Case("forwarding off in one VLAN", bad + good, wanted + 2 * [f"{place(C)} IPv6 UDP"], by="", prepare=off)


def changes(lan):
    """Another MTU and another Ethernet address of a VLAN device."""
    def change(what, value, old):
        def prepare(_):
            lan.net.later(lambda: lan.configure(B))  # a change of the address takes the neighbours away
            lan.net.ip(f"link set {B.device} {what} {value}", f"link set {B.device} {what} {old}")
            lan.configure(B)
        return prepare

    fits, wanted = flows(lan, [(A, B), (B, C), (C, B)], size=SMALL_MTU - 48)
    big, _ = flows(lan, [(A, B)], size=SMALL_MTU - 27, families=(4,), flags="DF")
    yield Case("a smaller MTU", big + fits, wanted + 2 * [f"{place(A)} IPv4 ICMP 3/4"], by="", prepare=change("mtu", SMALL_MTU, 1500))
    mac = "02:bc:00:00:02:00"
    there, wanted = flows(lan, [(A, B), (C, B)])
    back = [(way, B, lan.frame(lan.udp(family, B, C), B, to=mac)) for family in (4, 6) for way in WAYS]
    yield Case("another MAC", there + back, wanted + [f"{place(C)} IPv{family} UDP" for family in (4, 6) for _ in WAYS],
               prepare=change("address", mac, lan.net.router_mac(0)))


def hooks(lan):
    """A filter in Linux that drops the packets of one VLAN."""
    def nft(rules):
        def prepare(_):
            lan.net.router.exec("nft", "-f", "-", input=rules)
            lan.net.later(lambda: lan.net.router.exec("nft", "delete", "table", *rules.split()[1:3]))
        return prepare

    def tc(direction, device):
        def prepare(_):
            lan.net.router.exec("tc", "qdisc", "add", "dev", device, "clsact")
            lan.net.later(lambda: lan.net.router.exec("tc", "qdisc", "del", "dev", device, "clsact"))
            lan.net.router.exec("tc", "filter", "add", "dev", device, direction, "matchall", "action", "drop")
        return prepare

    rule = f'table inet vlans {{\nchain f {{ type filter hook forward priority 0; iifname "{A.device}" drop; }}\n}}\n'
    ingress = f'table netdev vlans {{\nchain i {{ type filter hook ingress device "{A.device}" priority 0; drop; }}\n}}\n'
    for name, prepare, by in (("nftables, forward", nft(rule), "linux"), ("nftables, ingress of a VLAN", nft(ingress), ""),
                              ("tc, ingress of a VLAN", tc("ingress", A.device), "")):
        bad, _ = flows(lan, [(A, C), (A, B)])
        good, wanted = flows(lan, [(B, C), (C, A), (R0, B)])
        yield Case(name, bad + good, wanted, by=by, prepare=prepare)
    bad, _ = flows(lan, [(B, A), (C, A)])
    good, wanted = flows(lan, [(A, B), (A, C)])
    yield Case("tc, egress of a VLAN", bad + good, wanted, by="", prepare=tc("egress", A.device))
    inner, wanted = flows(lan, [(A, C), (OUTER, C)])
    bad, _ = flows(lan, [(QINQ, C)])
    yield Case("tc, ingress of QinQ", bad + inner, wanted, by="", prepare=tc("ingress", QINQ.device))
    bad, _ = flows(lan, [(QINQ, C), (OUTER, C)])
    good, wanted = flows(lan, [(A, C)])
    yield Case("tc, ingress of the VLAN below QinQ", bad + good, wanted, by="", prepare=tc("ingress", OUTER.device))
    bad, _ = flows(lan, [(C, QINQ), (C, OUTER)])
    good, wanted = flows(lan, [(C, A)])
    yield Case("tc, egress of the VLAN below QinQ", bad + good, wanted, by="", prepare=tc("egress", OUTER.device))
    yield Case("afterwards", *flows(lan, both(A, B, C, QINQ, R1)))


def states(lan):
    """A VLAN device, or the one below it, is down."""
    def down(*segments):
        def prepare(_):
            lan.net.later(lambda: [lan.configure(segment) for segment in segments])
            lan.net.router.ip("link", "set", segments[0].device, "down")
        return prepare

    lost, _ = flows(lan, [(A, B), (A, R1)])
    no_route, _ = flows(lan, [(B, A)], ways=("band",))
    good, wanted = flows(lan, [(B, C), (R0, B)])
    answers = [f"{place(B)} IPv4 ICMP 3/0", f"{place(B)} IPv6 ICMP 1/0"]
    yield Case("a VLAN is down", lost + no_route + good, wanted + answers, by="", prepare=down(A))
    lost, _ = flows(lan, [(QINQ, B), (OUTER, B)])
    good, wanted = flows(lan, [(A, B)])
    yield Case("the VLAN below QinQ is down", lost + good, wanted, by="", prepare=down(OUTER, QINQ, THREE))
    yield port_is_down(lan)
    yield Case("up again", *flows(lan, both(A, B, C) + both(QINQ, C, OUTER) + both(QINQ_1, A)))


def port_is_down(lan):
    """The VLANs of a port are down with it."""
    net = lan.net

    def again():
        net.configure_link(1)
        net.wait_for_links()
        for segment in lan.segments:
            if segment.link == 1:
                lan.configure(segment)

    def prepare(_):
        net.later(again)
        net.router.ip("link", "set", "r1", "down")

    lost, _ = flows(lan, [(A, C), (A, QINQ_1)], ways=("band",))
    good, wanted = flows(lan, both(A, B))
    answers = 2 * [f"{place(A)} IPv4 ICMP 3/0", f"{place(A)} IPv6 ICMP 1/0"]
    return Case("a port is down", lost + good, wanted + answers, by="", prepare=prepare)


def priorities(lan):
    """VLAN devices with an egress-qos-map: the priority in the tag depends on the TOS octet of IPv4 packets."""
    def by_tos(source, segment, marks):
        sends, wanted = [], []
        for tos, mark in marks.items():
            for family, header, mark in ((4, "tos", mark), (6, "tc", marks[0])):
                more = flows(lan, [(source, segment)], families=(family,), **{header: tos})
                sends, wanted = sends + more[0], wanted + [line.replace(place(segment), f"h{segment.link} {mark}") for line in more[1]]
        return sends, wanted

    for name, segment in (("egress-qos-map", MAPPED), ("egress-qos-map, QinQ", QINQ_MAPPED)):
        marks = PRIORITIES[segment]
        there, wanted = by_tos(A, segment, marks)
        untagged, wanted_too = by_tos(R1, segment, marks)
        back, wanted_back = flows(lan, [(segment, A), (segment, R1)])
        yield Case(name, there + untagged + back, wanted + wanted_too + wanted_back, short=True)

    def without_tos(_):
        lan.net.sysctl("ipv4/ip_forward_update_priority", 0)

    yield Case("ip_forward_update_priority off", *by_tos(A, MAPPED, dict.fromkeys(PRIORITIES[MAPPED], "140p5")), prepare=without_tos)


def left_to_linux(lan):
    """VLAN devices that Bora leaves to Linux. An ingress-qos-map gives IPv6 packets a priority, which shows in the egress-qos-map."""
    yield Case("VLAN in a bridge", *flows(lan, both(BRIDGED, A, R1)), by="linux", short=True)
    sends, wanted = flows(lan, [(INGRESS_MAPPED, MAPPED)])
    marks = {4: "140p5", 6: "140p3"}
    wanted = [f"h{MAPPED.link} {marks[6 if 'IPv6' in line else 4]} {line.split(' ', 2)[2]}" for line in wanted]
    back, wanted_back = flows(lan, [(MAPPED, INGRESS_MAPPED)])
    yield Case("ingress-qos-map", sends + back, wanted + wanted_back, by="linux", short=True)


def many(lan):
    """Hundreds of VLANs on one trunk: each forwards to one VLAN and back."""
    vlans = [(f"r1.m{number}", 1000 + number, f"10.2.{number >> 6}.{4 * (number & 63) + 1}") for number in range(MANY)]
    host = lan.net.host_mac(1)

    def neighbour(address):
        return address.rsplit(".", 1)[0] + f".{int(address.rsplit('.', 1)[1]) + 1}"

    def prepare(_):
        lan.net.later(lambda: lan.net.router.ip("link", "del", "group", str(MANY_GROUP)))
        lan.net.router.batch([line for name, vid, address in vlans for line in (
            f"link add link r1 name {name} up group {MANY_GROUP} type vlan id {vid}", f"address add {address}/30 dev {name}",
            f"neighbour replace {neighbour(address)} lladdr {host} dev {name}")])

    sends, wanted = [], []
    for _, vid, address in vlans:
        there = packets.udp4(lan.behind(4, A), neighbour(address))
        back = packets.udp4(neighbour(address), lan.behind(4, A))
        segment = Segment("", 0, 1, ((CTAG, vid),))
        sends += [("band", A, lan.frame(there, A)), ("band", segment, lan.frame(back, segment))]
        wanted += [f"{place(segment)} IPv4 UDP", f"{place(A)} IPv4 UDP"]
    return Case(f"{MANY} VLANs", sends, wanted, prepare=prepare, seconds=20)
