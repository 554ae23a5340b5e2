"""IPv4: which errors the router sends, what they contain, and when it must send none."""

import struct

import pytest
from scapy.layers.inet import ICMP, IP, UDP, IPOption
from scapy.packet import Raw

from lib import packets
from lib.packets import icmp4_error, payload, udp4
from lib.topology import SMALL_MTU

ECHO, UNREACHABLE, REDIRECT, TIME_EXCEEDED, PARAMETER_PROBLEM = 8, 3, 5, 11, 12
NET, HOST, FRAGMENTATION_NEEDED, ADMINISTRATIVELY_PROHIBITED = 0, 1, 4, 13
NOWHERE = "203.0.113.9"


def expiring(net, **header):
    return udp4(net.behind4(0), net.behind4(1), ttl=1, **header)


@pytest.mark.parametrize("ttl", [0, 1])
def test_09_time_exceeded(net, ttl):
    """RFC 1812 5.3.1: a transit packet whose TTL is used up causes Time Exceeded, code 0."""
    packet = udp4(net.behind4(0), net.behind4(1), ttl=ttl)
    net.exchange(net.frame(packet), {0: [icmp4_error(TIME_EXCEEDED, 0, net.router4(0), packet)]})


def test_13_no_route(net):
    """RFC 1812 5.2.7.1: no route to the destination causes Unreachable, code 0 (network)."""
    packet = udp4(net.behind4(0), NOWHERE)
    net.exchange(net.frame(packet), {0: [icmp4_error(UNREACHABLE, NET, net.router4(0), packet)]})


@pytest.mark.parametrize("kind, code", [("unreachable", HOST), ("prohibit", ADMINISTRATIVELY_PROHIBITED)])
def test_13_route_that_refuses(net, kind, code):
    """RFC 1812 5.2.7.1: `unreachable` routes answer code 1, `prohibit` routes code 13."""
    net.route("203.0.113.0/24", kind)
    net.settle()
    packet = udp4(net.behind4(0), NOWHERE)
    net.exchange(net.frame(packet), {0: [icmp4_error(UNREACHABLE, code, net.router4(0), packet)]})


def test_13_blackhole_is_silent(net):
    """A `blackhole` route drops without an answer; no other route does."""
    net.route("203.0.113.0/24", "blackhole")
    net.settle()
    net.exchange([net.frame(udp4(net.behind4(0), NOWHERE)) for _ in range(3)])


def test_14_neighbour_does_not_answer(net):
    """RFC 1812 5.2.7.1: when ARP fails, Unreachable, code 1 (host). The quoted packet's TTL is already decremented."""
    for key, value in (("mcast_solicit", 1), ("retrans_time_ms", 100)):
        net.sysctl(f"ipv4/neigh/r1/{key}", value)
    packet = udp4(net.behind4(0), "10.0.1.77")
    net.later(lambda: net.router.ip("neighbour", "del", "10.0.1.77", "dev", "r1", check=False))
    error = icmp4_error(UNREACHABLE, HOST, net.router4(0), packets.hop(packet))
    net.exchange(net.frame(packet), {0: [error], 1: [arp_request(net, 1, "10.0.1.77")]}, timeout=3)


def arp_request(net, link, address):
    """The frame in which the router asks for `address`."""
    from scapy.layers.l2 import ARP, Ether

    query = ARP(op=1, hwsrc=net.router_mac(link), psrc=net.router4(link), hwdst="00:00:00:00:00:00", pdst=address)
    return bytes(Ether(src=net.router_mac(link), dst="ff:ff:ff:ff:ff:ff") / query)


@pytest.mark.parametrize("size", [SMALL_MTU - 27, 1472])
def test_15_fragmentation_needed(net, size):
    """RFC 1191 4: too big and DF set causes Unreachable, code 4, with the MTU of the next hop."""
    packet = udp4(net.behind4(0), net.behind4(2), size=size, flags="DF")
    rest = struct.pack("!HH", 0, SMALL_MTU)
    error = icmp4_error(UNREACHABLE, FRAGMENTATION_NEEDED, net.router4(0), packet, rest)
    net.exchange(net.frame(packet), {0: [error]})


def test_15_exactly_the_mtu_passes(net):
    """RFC 1191: a packet of the MTU is not too big."""
    packet = udp4(net.behind4(0), net.behind4(2), size=SMALL_MTU - 28, flags="DF")
    net.exchange(net.frame(packet), {2: [net.forwarded(packet, 2)]})


@pytest.mark.parametrize("lock", ["", "lock "], ids=["hint", "locked"])
def test_15_route_mtu(net, lock):
    """The MTU of a route counts for transit, too, locked or not (Linux, ip_dst_mtu_maybe_forward)."""
    net.route("203.0.113.0/24", f"via {net.host4(1)} mtu {lock}1000")
    net.settle()
    fits = udp4(net.behind4(0), NOWHERE, size=1000 - 28, flags="DF")
    big = udp4(net.behind4(0), NOWHERE, size=1000 - 27, flags="DF")
    error = icmp4_error(UNREACHABLE, FRAGMENTATION_NEEDED, net.router4(0), big, struct.pack("!HH", 0, 1000))
    net.exchange([net.frame(fits), net.frame(big)], {1: [net.forwarded(fits, 1)], 0: [error]})


@pytest.mark.parametrize("size", [0, 519, 520, 521, 1400])
def test_22_error_quotes_as_much_as_fits_576(net, size):
    """RFC 1812 4.3.2.3: the error quotes as much of the packet as fits a datagram of 576 bytes."""
    packet = expiring(net, size=size)
    net.exchange(net.frame(packet), {0: [icmp4_error(TIME_EXCEEDED, 0, net.router4(0), packet)]})


@pytest.mark.parametrize("link", [1, 2])
def test_23_source_of_the_error(net, link):
    """RFC 1812 4.3.2.4: the source is the address of the interface over which the error leaves."""
    packet = udp4(net.behind4(0), net.behind4(1), ttl=1)
    net.exchange(
        net.frame(packet, link), {0: [icmp4_error(TIME_EXCEEDED, 0, net.router4(0), packet)]}, link=link
    )


@pytest.mark.parametrize("tos", [0x00, 0x10, 0xB8])
def test_24_precedence_of_the_error(net, tos):
    """RFC 1812 4.3.2.5: errors carry precedence 6 (internetwork control) and the TOS of the packet."""
    packet = expiring(net, tos=tos)
    net.exchange(net.frame(packet), {0: [icmp4_error(TIME_EXCEEDED, 0, net.router4(0), packet)]})


def icmp_in_transit(net, kind, code, ttl=1, **header):
    quoted = udp4(net.behind4(1), net.behind4(0))
    source, target = net.behind4(0), net.behind4(1)
    return bytes(IP(src=source, dst=target, ttl=ttl, **header) / ICMP(type=kind, code=code) / Raw(quoted[:28]))


@pytest.mark.parametrize("kind, code", [(UNREACHABLE, 3), (TIME_EXCEEDED, 0), (PARAMETER_PROBLEM, 0), (4, 0)])
def test_25_no_error_about_an_error(net, kind, code):
    """RFC 1812 4.3.2.7: never an error about an ICMP error."""
    net.exchange(net.frame(icmp_in_transit(net, kind, code)))


@pytest.mark.parametrize("kind", [ECHO, 0, 13])
def test_25_error_about_a_query(net, kind):
    """RFC 1812 4.3.2.7: ICMP queries and replies do cause errors."""
    packet = icmp_in_transit(net, kind, 0)
    net.exchange(net.frame(packet), {0: [icmp4_error(TIME_EXCEEDED, 0, net.router4(0), packet)]})


def test_25_redirect_in_transit(net):
    """RFC 1812 4.3.2.7 counts redirects among the errors, and so does Linux for IPv4."""
    net.exchange(net.frame(icmp_in_transit(net, REDIRECT, 1)))


def test_26_no_error_about_a_later_fragment(net):
    """RFC 1812 4.3.2.7: only the first fragment causes an error."""
    net.exchange(net.frame(expiring(net, frag=10)))
    first = expiring(net, flags="MF")
    net.exchange(net.frame(first), {0: [icmp4_error(TIME_EXCEEDED, 0, net.router4(0), first)]})


@pytest.mark.parametrize("target", ["224.0.0.9", "239.1.2.3", "10.0.1.255", "255.255.255.255"])
def test_27_no_error_about_broadcast_or_multicast(net, target):
    """RFC 1812 4.3.2.7: no error about a packet to a broadcast or multicast address."""
    net.exchange(net.frame(udp4(net.behind4(0), target, ttl=1)))


def test_27_no_error_about_link_layer_broadcast(net):
    """RFC 1812 4.3.2.7: nor about one that came as a link-layer broadcast or multicast."""
    packet = expiring(net)
    for destination in ("ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:09"):
        net.exchange(packets.ethernet(destination, net.host_mac(0), packet))


@pytest.mark.parametrize("source", ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"])
def test_27_no_error_to_an_invalid_source(net, source):
    """RFC 1812 4.3.2.7: nor about one whose source is not a single host."""
    net.exchange(net.frame(udp4(source, net.behind4(1), ttl=1)))


def test_28_errors_are_limited(net):
    """RFC 1812 4.3.2.8: errors to one host are limited; Linux: one a second after a burst of six."""
    net.sysctl("ipv4/icmp_ratelimit", 1000)
    source = net.behind4(0)
    for port in net.hosts:
        port.drain()
    for _ in range(40):
        net.hosts[0].send(net.frame(udp4(source, net.behind4(1), ttl=1)))
    errors = net.collect()
    assert all(host == 0 and frame[34:36] == b"\x0b\x00" for host, frame in errors)
    assert 1 <= len(errors) <= 8, f"{len(errors)} errors for 40 packets"


def test_28_no_route_errors_are_limited(net):
    """Linux holds no-route errors to one a second for each source, burst 5, whatever icmp_ratelimit says."""
    source = net.behind4(0)
    for port in net.hosts:
        port.drain()
    for _ in range(40):
        net.hosts[0].send(net.frame(udp4(source, NOWHERE)))
    errors = net.collect()
    assert all(host == 0 and frame[34:36] == b"\x03\x00" for host, frame in errors)
    assert 1 <= len(errors) <= 7, f"{len(errors)} errors for 40 packets"


def test_29_redirect(net):
    """RFC 1812 5.2.7.2: a host redirect goes to the sender, and the packet is forwarded all the same."""
    gateway, other = "10.0.0.9", "02:bc:00:00:00:99"
    net.ip(f"neighbour replace {gateway} lladdr {other} dev r0", f"neighbour del {gateway} dev r0")
    net.route("203.0.113.0/24", f"via {gateway}")
    net.settle()
    packet = udp4(net.host4(0), NOWHERE)
    redirect = icmp4_error(REDIRECT, 1, net.router4(0), packets.hop(packet), bytes([10, 0, 0, 9]))
    forwarded = packets.ethernet(other, net.router_mac(0), packets.hop(packet))
    net.exchange(net.frame(packet), {0: [redirect, forwarded]})


def test_29_redirects_off(net):
    """`send_redirects` 0: the packet goes back over the same interface, without a redirect."""
    gateway, other = "10.0.0.9", "02:bc:00:00:00:99"
    for scope in ("all", "r0"):
        net.sysctl(f"ipv4/conf/{scope}/send_redirects", 0)
    net.ip(f"neighbour replace {gateway} lladdr {other} dev r0", f"neighbour del {gateway} dev r0")
    net.route("203.0.113.0/24", f"via {gateway}")
    net.settle()
    packet = udp4(net.host4(0), NOWHERE)
    net.exchange(net.frame(packet), {0: [packets.ethernet(other, net.router_mac(0), packets.hop(packet))]})


def test_parameter_problem_about_a_bad_option(net):
    """RFC 1812 5.3.13: an option whose length is impossible causes Parameter Problem with its place."""
    broken = IPOption(b"\x07\x02\x04\x00")  # record route too short to hold its pointer
    packet = bytes(IP(src=net.behind4(0), dst=net.behind4(1), options=[broken]) / UDP() / Raw(payload()))
    got = net.exchange(
        net.frame(packet),
        {0: [icmp4_error(PARAMETER_PROBLEM, 0, net.router4(0), packet, bytes([21, 0, 0, 0]))]},
    )
    assert len(got) == 1
