"""IPv6: which errors the router sends, what they contain, and when it must send none (RFC 4443)."""

import ipaddress
import struct

import pytest
from scapy.layers.inet6 import (
    ICMPv6EchoRequest, ICMPv6ND_NS, ICMPv6ND_Redirect, ICMPv6NDOptDstLLAddr, ICMPv6NDOptRedirectedHdr, ICMPv6NDOptSrcLLAddr,
    IPv6, IPv6ExtHdrDestOpt,
)
from scapy.packet import Raw

from lib import packets
from lib.packets import icmp6_error, payload, udp6
from lib.topology import SMALL_MTU

UNREACHABLE, TOO_BIG, TIME_EXCEEDED = 1, 2, 3
NO_ROUTE, PROHIBITED, BEYOND_SCOPE, ADDRESS = 0, 1, 2, 3
NOWHERE = "2001:db8:dead::9"


@pytest.mark.parametrize("hlim", [0, 1])
def test_44_time_exceeded(net, hlim):
    """RFC 4443 3.3: a hop limit used up causes Time Exceeded, code 0."""
    packet = udp6(net.behind6(0), net.behind6(1), hlim=hlim)
    net.exchange(net.frame(packet), {0: [icmp6_error(TIME_EXCEEDED, 0, net.router6(0), packet)]})


@pytest.mark.parametrize("size", [SMALL_MTU - 47, 1452])
def test_46_packet_too_big(net, size):
    """RFC 4443 3.2: too big causes Packet Too Big with the MTU of the next hop; routers never fragment."""
    packet = udp6(net.behind6(0), net.behind6(2), size=size)
    error = icmp6_error(TOO_BIG, 0, net.router6(0), packet, struct.pack("!I", SMALL_MTU))
    net.exchange(net.frame(packet), {0: [error]})


def test_46_exactly_the_mtu_passes(net):
    """RFC 4443 3.2: a packet of the MTU is not too big."""
    packet = udp6(net.behind6(0), net.behind6(2), size=SMALL_MTU - 48)
    net.exchange(net.frame(packet), {2: [net.forwarded(packet, 2)]})


@pytest.mark.parametrize("lock", ["", "lock "])
def test_46_route_mtu(net, lock):
    """The MTU of a route counts for transit, too, locked or not (Linux, ip6_finish_output)."""
    net.route("2001:db8:dead::/48", f"via {net.host6(1)} mtu {lock}1290", 6)
    net.settle()
    fits, big = (udp6(net.behind6(0), NOWHERE, size=size) for size in (1290 - 48, 1291 - 48))
    net.exchange(net.frame(fits), {1: [net.forwarded(fits, 1)]})
    quoted = big if lock else packets.hop(big)  # Linux checks an unlocked MTU only at the output
    error = icmp6_error(TOO_BIG, 0, net.router6(0), quoted, struct.pack("!I", 1290))
    net.exchange(net.frame(big), {0: [error]})


@pytest.mark.parametrize("size", [0, 1184, 1185, 1452])
def test_47_error_quotes_as_much_as_fits_1280(net, size):
    """RFC 4443 2.4 (c): the error quotes as much of the packet as fits the minimum MTU."""
    packet = udp6(net.behind6(0), net.behind6(1), hlim=1, size=size)
    net.exchange(net.frame(packet), {0: [icmp6_error(TIME_EXCEEDED, 0, net.router6(0), packet)]})


def test_48_no_route(net):
    """RFC 4443 3.1: no route to the destination, code 0."""
    packet = udp6(net.behind6(0), NOWHERE)
    net.exchange(net.frame(packet), {0: [icmp6_error(UNREACHABLE, NO_ROUTE, net.router6(0), packet)]})


@pytest.mark.parametrize("kind, code", [("unreachable", NO_ROUTE), ("prohibit", PROHIBITED)])
def test_48_route_that_refuses(net, kind, code):
    """RFC 4443 3.1: `prohibit` routes answer code 1; Linux answers for `unreachable` as for no route."""
    net.route("2001:db8:dead::/48", kind, 6)
    net.settle()
    packet = udp6(net.behind6(0), NOWHERE)
    net.exchange(net.frame(packet), {0: [icmp6_error(UNREACHABLE, code, net.router6(0), packet)]})


def test_48_blackhole_is_silent(net):
    """A `blackhole` route drops without an answer; no other route does."""
    net.route("2001:db8:dead::/48", "blackhole", 6)
    net.settle()
    net.exchange([net.frame(udp6(net.behind6(0), NOWHERE)) for _ in range(3)])


def test_49_neighbour_does_not_answer(net):
    """RFC 4443 3.1: when Neighbour Discovery fails, code 3. The quoted packet's hop limit is already decremented."""
    for key, value in (("mcast_solicit", 1), ("retrans_time_ms", 100)):
        net.sysctl(f"ipv6/neigh/r1/{key}", value)
    target = "2001:db8:1::77"
    net.later(lambda: net.router.ip("neighbour", "del", target, "dev", "r1", check=False))
    packet = udp6(net.behind6(0), target)
    error = icmp6_error(UNREACHABLE, ADDRESS, net.router6(0), packets.hop(packet))
    for port in net.hosts:
        port.drain()
    net.hosts[0].send(net.frame(packet))
    got = net.collect(2, timeout=3)
    solicitations = [frame for host, frame in got if host == 1]
    assert len(solicitations) == 1 and solicitations[0][54] == 135
    assert [frame for host, frame in got if host == 0] == [net.out(error(b""), 0)]


def test_50_ping_pong_on_a_point_to_point_link():
    """RFC 4443 3.1: a packet going back over the point-to-point link it came from gets code 3."""
    pytest.skip("veth is a broadcast link; this kernel has no point-to-point link that a port can be")


@pytest.mark.parametrize("options", [False, True])
def test_50_proxied_solicitation(net, options):
    """RFC 4389: Linux answers a unicast solicitation for an address that it is a proxy for; other packets go there."""
    target = "2001:db8:0::99"
    net.sysctl("ipv6/conf/all/proxy_ndp", 1)
    net.ip(f"-6 neighbour add proxy {target} dev r0", f"-6 neighbour del proxy {target} dev r0")
    net.route(f"{target}/128", f"via {net.host6(1)}", 6)
    net.settle()
    header = IPv6(src=net.host6(0), dst=target, hlim=255)
    question = ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=net.host_mac(0))
    for port in net.hosts:
        port.drain()
    net.hosts[0].send(net.frame(bytes(header / IPv6ExtHdrDestOpt() / question if options else header / question)))
    [(host, answer)] = net.collect(1)
    assert host == 0 and answer[54] == 136 and answer[62:78] == ipaddress.ip_address(target).packed
    packet = udp6(net.behind6(0), target)
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


def test_51_link_local_source(net):
    """RFC 4443 3.1: a link-local source may not leave its link: code 2."""
    source = net.link_local(net.host_mac(0))
    packet = udp6(source, net.behind6(1))
    router = net.link_local(net.router_mac(0))
    net.exchange(net.frame(packet), {0: [icmp6_error(UNREACHABLE, BEYOND_SCOPE, router, packet)]})


def error_in_transit(net, kind, code):
    quoted = udp6(net.behind6(1), net.behind6(0))
    body = struct.pack("!BBHI", kind, code, 0, 0) + quoted[:48]
    return bytes(IPv6(src=net.behind6(0), dst=net.behind6(1), hlim=1, nh=58) / Raw(body))


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 100, 127])
def test_53_no_error_about_an_error(net, kind):
    """RFC 4443 2.4 (e.1): never an error about an ICMPv6 error."""
    net.exchange(net.frame(error_in_transit(net, kind, 0)))


def test_53_redirect_in_transit(net):
    """RFC 4443 2.4 (e.2) forbids an error about a redirect; Linux sends one."""
    redirect = ICMPv6ND_Redirect(tgt=net.behind6(1), dst=net.behind6(2))
    packet = bytes(IPv6(src=net.behind6(0), dst=net.behind6(1), hlim=1) / redirect)
    net.exchange(net.frame(packet), {0: [icmp6_error(TIME_EXCEEDED, 0, net.router6(0), packet)]})


def test_53_error_about_a_query(net):
    """RFC 4443 2.4: informational messages do cause errors."""
    packet = bytes(IPv6(src=net.behind6(0), dst=net.behind6(1), hlim=1) / ICMPv6EchoRequest(data=payload()))
    net.exchange(net.frame(packet), {0: [icmp6_error(TIME_EXCEEDED, 0, net.router6(0), packet)]})


@pytest.mark.parametrize("target", ["ff02::9", "ff0e::77"])
def test_53_no_error_about_multicast(net, target):
    """RFC 4443 2.4 (e.3): no error about a packet to a group."""
    net.exchange(net.frame(udp6(net.behind6(0), target, hlim=1)))


@pytest.mark.parametrize("mac", ["ff:ff:ff:ff:ff:ff", "33:33:00:00:00:09"])
def test_53_no_error_about_link_layer_multicast(net, mac):
    """RFC 4443 2.4 (e.4), (e.5): nor about one that came as a link-layer multicast or broadcast."""
    packet = udp6(net.behind6(0), net.behind6(1), hlim=1)
    net.exchange(packets.ethernet(mac, net.host_mac(0), packet))


@pytest.mark.parametrize("source", ["::", "ff02::1"])
def test_53_no_error_to_an_invalid_source(net, source):
    """RFC 4443 2.4 (e.6): nor about one whose source is not a single node."""
    net.exchange(net.frame(udp6(source, net.behind6(1), hlim=1)))


def test_54_errors_are_limited(net):
    """RFC 4443 2.4 (f): errors are limited; Linux: `icmp/ratelimit` milliseconds, scaled by prefix length."""
    net.sysctl("ipv6/icmp/ratelimit", 1000)
    source = net.behind6(0)
    for port in net.hosts:
        port.drain()
    for _ in range(60):
        net.hosts[0].send(net.frame(udp6(source, net.behind6(1), hlim=1)))
    errors = net.collect()
    assert all(host == 0 and frame[54] == TIME_EXCEEDED for host, frame in errors)
    assert 1 <= len(errors) <= 30, f"{len(errors)} errors for 60 packets"


def test_redirect(net):
    """RFC 4861 8.2: a redirect names the better first hop to the sender, and the packet is still forwarded.

    The target of a redirect is a link-local address, so the route's gateway has to be one."""
    gateway, other = "fe80::9", "02:bc:00:00:00:99"
    net.ip(f"neighbour replace {gateway} lladdr {other} dev r0", f"neighbour del {gateway} dev r0")
    net.route("2001:db8:dead::/48", f"via {gateway} dev r0", 6)
    net.settle()
    packet = udp6(net.host6(0), NOWHERE)
    sender = {"src": net.link_local(net.router_mac(0)), "dst": net.host6(0), "hlim": 255}
    quote = packet[:len(packet) // 8 * 8]
    redirect = IPv6(**sender) / ICMPv6ND_Redirect(tgt=gateway, dst=NOWHERE) / ICMPv6NDOptDstLLAddr(lladdr=other)
    redirect = bytes(redirect / ICMPv6NDOptRedirectedHdr(pkt=quote))
    forwarded = packets.ethernet(other, net.router_mac(0), packets.hop(packet))
    net.exchange(net.frame(packet), {0: [forwarded, net.out(redirect, 0)]})


def test_solicitation_in_transit(net):
    """RFC 4861 7.1.1: Neighbour Discovery for other nodes that is routed here is transit like any other."""
    packet = bytes(IPv6(src=net.behind6(0), dst=net.behind6(1), hlim=64) / ICMPv6ND_NS(tgt=net.behind6(1)))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})
