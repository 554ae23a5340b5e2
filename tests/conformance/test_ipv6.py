"""IPv6: the header, the longest match, the flow label, extension headers, Neighbour Discovery."""

import ipaddress
import struct

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import (
    HBHOptUnknown, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting,
    Pad1, PadN,
)
from scapy.packet import Raw

from lib import packets
from lib.packets import icmp6_error, payload, udp6

PARAMETER_PROBLEM = 4


def good(net, **header):
    return udp6(net.behind6(0), net.behind6(1), **header)


@pytest.mark.parametrize("hlim", [2, 3, 64, 255])
def test_44_hop_limit_lessened(net, hlim):
    """RFC 8200 3: the hop limit is lessened by one, nothing else changes."""
    packet = good(net, hlim=hlim)
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("more", [1, 1000])
def test_45_payload_length_beyond_frame(net, more):
    """RFC 8200 3: a packet that the frame does not hold is truncated, hence dropped and counted."""
    packet = good(net)
    packet = packet[:4] + struct.pack("!H", len(packet) - 40 + more) + packet[6:]
    before = net.router.snmp()["Ip6InTruncatedPkts"] + (net.bora.totals()["dropped"] if net.bora else 0)
    net.exchange([net.frame(packet)] * 3)
    after = net.router.snmp()["Ip6InTruncatedPkts"] + (net.bora.totals()["dropped"] if net.bora else 0)
    assert after - before >= 3, "dropped, but counted nowhere"


@pytest.mark.parametrize("version", [0, 4, 5, 7])
def test_45_version_not_six(net, version):
    """RFC 8200 3: the version must be 6."""
    packet = good(net)
    net.exchange(net.frame(bytes([version << 4]) + packet[1:], kind=0x86DD))


def test_45_padding_trimmed(net):
    """RFC 8200 3: what follows the payload length is padding and is not forwarded."""
    packet = good(net, size=20)
    net.exchange(net.frame(packet) + b"\xee" * 32, {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("source", ["::", "::1", "ff02::1", "ff0e::1234"])
def test_52_invalid_source(net, source):
    """RFC 4291 2.5.2, 2.5.3, 2.7: nothing from ::, ::1 or a group is forwarded, nor answered."""
    net.exchange(net.frame(udp6(source, net.behind6(1))))


@pytest.mark.parametrize("target", ["::1", "ff02::1234", "ff01::1", "ff0e::77"])
def test_52_invalid_destination(net, target):
    """RFC 4291 2.5.3, 2.7: nothing to ::1 or (without multicast routing) to a group is forwarded."""
    net.route("default", f"via {net.host6(1)}", 6)
    net.settle()
    net.exchange(net.frame(udp6(net.behind6(0), target)))


def test_52_unspecified_destination(net):
    """RFC 4291 2.5.2: :: is never a destination; Linux answers with code 0 (no route)."""
    packet = udp6(net.behind6(0), "::")
    net.exchange(net.frame(packet), {0: [icmp6_error(1, 0, net.router6(0), packet)]})


def test_52_link_local_destination_stays_on_its_link(net):
    """RFC 4291 2.5.6: link-local destinations are not forwarded to another link."""
    net.later(lambda: net.router.ip("neighbour", "del", "fe80::77", "dev", "r0", check=False))
    for port in net.hosts:
        port.drain()
    net.hosts[0].send(net.frame(udp6(net.behind6(0), "fe80::77")))
    assert net.probe(6), "the good packet did not arrive"
    assert not [frame for host, frame in net.extra + net.collect() if host != 0]


def test_own_address_as_source(net):
    """Linux forwards IPv6 packets that carry an address of the router itself as source."""
    packet = udp6(net.router6(0), net.behind6(1))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("segments", [1, 2])
def test_55_routing_header_type_0_to_self(net, segments):
    """RFC 5095 3: type 0 with segments left, addressed to the router: Parameter Problem, at the type."""
    header = IPv6ExtHdrRouting(type=0, segleft=segments, addresses=[net.behind6(1)] * segments)
    packet = bytes(IPv6(src=net.behind6(0), dst=net.router6(0)) / header / UDP() / Raw(payload()))
    expected = icmp6_error(PARAMETER_PROBLEM, 0, net.router6(0), packet, struct.pack("!I", 42))
    net.exchange(net.frame(packet), {0: [expected]})


def test_55_routing_header_type_0_in_transit(net):
    """RFC 5095: a router that only forwards does not examine the routing header."""
    header = IPv6ExtHdrRouting(type=0, segleft=1, addresses=["2001:db8:99::1"])
    packet = bytes(IPv6(src=net.behind6(0), dst=net.behind6(1)) / header / UDP() / Raw(payload()))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("header", [
    IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)]),
    IPv6ExtHdrFragment(offset=0, m=1, id=9),
    IPv6ExtHdrFragment(offset=20, m=0, id=9),
    IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]),
    IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x1E, optdata=b"ab"), Pad1(), Pad1()]),
], ids=["destination", "first-fragment", "fragment", "hop-by-hop", "hop-by-hop-unknown"])
def test_56_extension_headers_pass(net, header):
    """RFC 8200 4, RFC 9673 5: extension headers pass, hop-by-hop options to be skipped do not cause a drop."""
    packet = bytes(IPv6(src=net.behind6(0), dst=net.behind6(1)) / header / UDP() / Raw(payload()))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("number", [59, 135, 139, 140, 253, 254])
def test_56_unknown_next_header_passes(net, number):
    """RFC 8200 4, RFC 7045 2.1: a router forwards what it does not know behind the fixed header."""
    packet = bytes(IPv6(src=net.behind6(0), dst=net.behind6(1), nh=number) / Raw(payload()))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


def test_56_hop_by_hop_that_asks_for_discard(net):
    """RFC 8200 4.2: an unknown option of type 01xxxxxx: the packet is discarded silently."""
    header = IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x5E, optdata=b"ab"), Pad1(), Pad1()])
    net.exchange(net.frame(bytes(IPv6(src=net.behind6(0), dst=net.behind6(1)) / header / UDP() / Raw(payload()))))


def solicitation(net, hlim):
    group = "ff02::1:ff00:1"  # solicited-node group of ::1 (RFC 4291 2.7.1)
    packet = IPv6(src=net.host6(0), dst=group, hlim=hlim) / ICMPv6ND_NS(tgt=net.router6(0))
    return packets.ethernet(
        "33:33:ff:00:00:01", net.host_mac(0), bytes(packet / ICMPv6NDOptSrcLLAddr(lladdr=net.host_mac(0)))
    )


@pytest.mark.parametrize("hlim", [1, 64, 254])
def test_57_nd_with_a_foreign_hop_limit_ignored(net, hlim):
    """RFC 4861 7.1.1: a Neighbour Solicitation that may come from beyond the link is ignored."""
    net.exchange(solicitation(net, hlim))


def test_58_advertisement_carries_the_router_flag(net):
    """RFC 4861 7.2.4: the router says in its advertisements that it is one."""
    answer = IPv6(src=net.router6(0), dst=net.host6(0), hlim=255) / ICMPv6ND_NA(tgt=net.router6(0), R=1, S=1, O=1)
    answer = bytes(answer / ICMPv6NDOptDstLLAddr(lladdr=net.router_mac(0)))
    net.exchange(solicitation(net, 255), {0: [net.out(answer, 0)]})


@pytest.mark.parametrize("label", [0, 1, 0x12345, 0xFFFFF])
@pytest.mark.parametrize("traffic_class", [0, 0xBA, 0xFF])
def test_59_flow_label_and_class_unchanged(net, label, traffic_class):
    """RFC 6437 2, RFC 2474, RFC 3168: flow label, DSCP and ECN go through as they came."""
    packet = good(net, fl=label, tc=traffic_class)
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


def test_59_flow_label_chooses_the_path(net):
    """RFC 6438: flows that differ only in their label spread over the paths, and each keeps to its own."""
    net.ip(
        f"route add 2001:db8:99::/48 nexthop via {net.host6(1)} nexthop via {net.host6(2)}",
        "route del 2001:db8:99::/48",
    )
    net.settle()
    source, target = net.behind6(0), "2001:db8:99::7"
    paths = {}
    for label in list(range(1, 65)) * 2:
        link = net.path_of(udp6(source, target, fl=label))
        assert paths.setdefault(label, link) == link, f"flow {label} changed its path"
    share = sum(1 for link in paths.values() if link == 1)
    assert 12 <= share <= 52, f"{share} of 64 flows over the first of two equal paths"


def test_60_longest_match_at_every_length(net):
    """RFC 7608: prefixes of every length 0 to 128, the longest that matches decides."""
    base = int(ipaddress.IPv6Address("2a01:5a5a:c3c3:a5a5:3c3c:9669:5aa5:c33c"))
    commands, undo = [], []
    for length in range(129):
        prefix = base >> (128 - length) << (128 - length)
        text = f"{ipaddress.IPv6Address(prefix)}/{length}"
        commands.append(f"route add {text} via {net.host6(1 + length % 2)}")
        undo.append(f"route del {text}")
    net.router.batch(commands)
    net.later(lambda: net.router.batch(undo))
    net.settle()
    frames, expect = [], {1: [], 2: []}
    for length in range(129):
        address = base if length == 128 else base ^ 1 << (127 - length)
        packet = udp6(net.behind6(0), str(ipaddress.IPv6Address(address)))
        link = 1 + length % 2
        frames.append(net.frame(packet))
        expect[link].append(net.forwarded(packet, link))
    net.exchange(frames, expect)


@pytest.mark.parametrize("size", [0, 56, 1452])
def test_echo_answered_intact(net, size):
    """RFC 4443 4.2: echo to the router is answered, with the data intact."""
    source, data = net.behind6(0), payload(size)
    request = IPv6(src=source, dst=net.router6(1)) / ICMPv6EchoRequest(id=5, seq=size, data=data)
    answer = IPv6(src=net.router6(1), dst=source, hlim=64) / ICMPv6EchoReply(id=5, seq=size, data=data)
    net.exchange(net.frame(bytes(request)), {0: [net.out(bytes(answer), 0)]})


def test_hop_limit_one_to_the_router_is_accepted(net):
    """RFC 8200 3: the hop limit concerns forwarding, not delivery."""
    source = net.behind6(0)
    request = IPv6(src=source, dst=net.router6(0), hlim=1) / ICMPv6EchoRequest(data=b"one")
    answer = IPv6(src=net.router6(0), dst=source, hlim=64) / ICMPv6EchoReply(data=b"one")
    net.exchange(net.frame(bytes(request)), {0: [net.out(bytes(answer), 0)]})


@pytest.mark.parametrize("size", [0, 1, 18, 100, 1452])
@pytest.mark.parametrize("protocol", [17, 6, 253])
def test_plain_transit_is_whole(net, size, protocol):
    """Packets of every size and protocol: only hop limit and MACs change."""
    body = payload(min(size + 20, 1460))
    packet = bytes(IPv6(src=net.behind6(0), dst=net.behind6(1), nh=protocol) / Raw(body))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("length", [15, 40, 53])
def test_short_frame_dropped(net, length):
    """A frame that ends within its headers is dropped."""
    net.exchange(net.frame(good(net))[:length])


@pytest.mark.parametrize("scope", ["r0", "r1", "all"])
def test_disable_ipv6(net, scope):
    """Linux (ip6_rcv_core): with disable_ipv6 no IPv6 comes in, and none goes out, because there are no neighbours."""
    for link in range(3) if scope == "all" else [int(scope[1])]:
        net.later(lambda link=link: net.configure_link(link))
    net.route("2001:db8:dead::/48", f"via {net.host6(2)}", 6)
    net.sysctl(f"ipv6/conf/{scope}/disable_ipv6", 1)
    net.settle()
    for port in net.hosts:
        port.drain()
    for destination in [net.behind6(1), "2001:db8:dead::9"] * 5:
        net.hosts[0].send(net.frame(udp6(net.behind6(0), destination)))
    assert net.probe(), "IPv4 is still forwarded"
    forwarded = [host for host, frame in net.extra + net.collect() if frame[20] == 17 and host != 0]
    assert forwarded == ([2] * 5 if scope == "r1" else []), "IPv6 was forwarded from or to an interface where it is disabled"


@pytest.mark.parametrize("everywhere", [1, 0])
def test_forwarding_of_one_interface(net, everywhere):
    """`conf.all.forwarding` alone decides whether Linux forwards IPv6; an interface's own makes it a host or a router there."""
    net.sysctl("ipv6/conf/all/forwarding", everywhere)
    net.later(lambda: net.router.set_sysctl("net/ipv6/conf/r0/forwarding", 1))
    net.router.set_sysctl("net/ipv6/conf/r0/forwarding", 1 - everywhere)
    net._sysctl_changed = True
    net.settle()
    packet = udp6(net.behind6(0), net.behind6(1))
    before = net.bora.totals()["sent"] if net.bora else 0
    assert net.path_of(packet) == (1 if everywhere else None)
    if net.bora and net.bora.path == "engine" and everywhere:
        assert net.bora.totals()["sent"] > before, "left to Linux"
