"""IPv4 packets that must not be forwarded because of their link-layer address, destination or source."""

import pytest

from lib import packets
from lib.packets import udp4


@pytest.mark.parametrize("mac", ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:09"])
def test_30_link_layer_broadcast_with_unicast_ip(net, mac):
    """RFC 1812 5.3.4: a unicast packet in a link-layer broadcast or multicast frame is dropped."""
    net.exchange(packets.ethernet(mac, net.host_mac(0), udp4(net.behind4(0), net.behind4(1))))


@pytest.mark.parametrize("mac", ["02:bc:00:00:00:77", "02:bc:00:00:00:21", "00:00:00:00:00:00"])
def test_31_foreign_unicast_mac(net, mac):
    """RFC 1812 5.3.4: a frame for another station is not forwarded, even if the station is another port of the router."""
    net.exchange(packets.ethernet(mac, net.host_mac(0), udp4(net.behind4(0), net.behind4(1))))


@pytest.mark.parametrize("mac", [None, "ff:ff:ff:ff:ff:ff"], ids=["unicast", "broadcast"])
def test_32_limited_broadcast(net, mac):
    """RFC 1812 5.3.5.1: 255.255.255.255 is never forwarded."""
    packet = udp4(net.behind4(0), "255.255.255.255")
    net.exchange(packets.ethernet(mac or net.router_mac(0), net.host_mac(0), packet))


@pytest.mark.parametrize("target", ["10.0.1.255", "10.0.1.0"])
def test_33_directed_broadcast(net, target):
    """RFC 2644: directed broadcasts are not forwarded by default. Linux treats the old all-zeros form as
    one more host of the network, whose neighbour nobody answers for, so only ARP requests may come out."""
    for port in net.hosts:
        port.drain()
    net.later(lambda: net.router.ip("neighbour", "del", target, "dev", "r1", check=False))
    net.hosts[0].send(net.frame(udp4(net.behind4(0), target)))
    assert net.probe(), "the good packet did not arrive"
    left = [frame for _, frame in net.extra + net.collect() if frame[12:14] != b"\x08\x06"]
    assert not left, [packets.describe(frame) for frame in left]


@pytest.mark.parametrize("target", ["127.0.0.1", "127.9.9.9", "0.0.0.0", "224.0.0.5", "239.255.0.1"])
def test_34_martian_destination(net, target):
    """RFC 1812 5.3.7: nothing for loopback, this-host or (without multicast routing) group addresses."""
    net.route("0.0.0.0/0", f"via {net.host4(1)}")
    net.settle()
    net.exchange(net.frame(udp4(net.behind4(0), target)))


@pytest.mark.parametrize("source", ["0.0.0.0", "127.0.0.1", "127.8.8.8", "224.0.0.1", "239.1.1.1", "255.255.255.255"])
def test_34_martian_source(net, source):
    """RFC 1812 5.3.7: a source that can be no single host is dropped."""
    net.route("0.0.0.0/0", f"via {net.host4(0)}")
    net.settle()
    net.exchange(net.frame(udp4(source, net.behind4(1))))


def test_34_own_address_as_source(net):
    """RFC 1812 5.3.7: an address of the router arriving as a source from outside is dropped."""
    net.exchange([net.frame(udp4(net.router4(link), net.behind4(1))) for link in range(3)])


@pytest.mark.parametrize("address", ["240.1.2.3", "254.1.1.1", "0.1.2.3", "169.254.9.9"])
def test_34_35_linux_forwards_as_unicast(net, address):
    """RFC 1812 5.3.7 and RFC 3927 2.7 would drop these; Linux forwards 240/4, 0/8 and 169.254/16 as unicast."""
    packet = udp4(address, net.behind4(1))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})
    net.route("0.0.0.0/0", f"via {net.host4(1)}")
    net.settle()
    packet = udp4(net.behind4(0), address)
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


def test_36_urpf_strict(net):
    """RFC 3704 2.2: with rp_filter 1 a packet passes only on the interface its source is routed over."""
    net.sysctl("ipv4/conf/r0/rp_filter", 1)
    net.settle()
    good, spoofed = udp4(net.behind4(0), net.behind4(1)), udp4(net.behind4(2), net.behind4(1))
    net.exchange([net.frame(spoofed), net.frame(good)], {1: [net.forwarded(good, 1)]})


def test_36_urpf_loose(net):
    """RFC 3704 2.4: with rp_filter 2 any route to the source is enough, but there must be one."""
    net.sysctl("ipv4/conf/r0/rp_filter", 2)
    net.settle()
    asymmetric, unknown = udp4(net.behind4(2), net.behind4(1)), udp4("203.0.113.5", net.behind4(1))
    net.exchange([net.frame(unknown), net.frame(asymmetric)], {1: [net.forwarded(asymmetric, 1)]})


def test_36_urpf_loose_by_the_fib(net):
    """With rp_filter 2 express knows a route to the source from Bora's FIB, by whichever port it leads."""
    net.sysctl("ipv4/conf/r0/rp_filter", 2)
    net.settle()
    asked = lambda: [port["asked"] for port in net.bora.show("ports")] if net.bora else None
    before, packet = asked(), udp4(net.behind4(2), net.behind4(1))
    net.exchange([net.frame(packet)] * 8, {1: [net.forwarded(packet, 1)] * 8})
    assert asked() == before


def test_36_urpf_off(net):
    """Without rp_filter a source needs no route at all."""
    packet = udp4("203.0.113.5", net.behind4(1))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


def test_36_urpf_strict_knows_ecmp(net):
    """RFC 3704 2.2: every path of an ECMP route to the source counts, another interface does not."""
    for link in range(3):
        net.sysctl(f"ipv4/conf/r{link}/rp_filter", 1)
    net.route("203.0.113.0/24", f"nexthop via {net.host4(0)} nexthop via {net.host4(2)}")
    net.settle()
    for link in (0, 2):
        packet = udp4("203.0.113.5", net.behind4(1))
        net.exchange(net.frame(packet, link), {1: [net.forwarded(packet, 1)]}, link=link)
    net.exchange(net.frame(udp4("203.0.113.5", net.behind4(0)), 1), link=1)


def test_36_urpf_strict_of_a_route_by_tos(net):
    """RFC 3704 2.2, when the route to a source also depends on the TOS."""
    net.sysctl("ipv4/conf/r0/rp_filter", 1)
    for tos, link in ((0, 0), (16, 2)):
        net.ip(f"route add 203.0.113.0/24 tos {tos:#x} via {net.host4(link)}",
               f"route del 203.0.113.0/24 tos {tos:#x}")
    net.settle()
    good, spoofed = (udp4("203.0.113.5", net.behind4(1), tos=tos) for tos in (0, 16))
    net.exchange([net.frame(spoofed), net.frame(good)], {1: [net.forwarded(good, 1)]})


def test_36_urpf_strict_takes_the_maximum(net):
    """Linux: the stricter of conf/all and conf/INTERFACE counts."""
    net.sysctl("ipv4/conf/all/rp_filter", 1)
    net.settle()
    net.exchange(net.frame(udp4(net.behind4(2), net.behind4(1))))


def test_forwarding_off_on_one_interface(net):
    """RFC 1812 2.2.8.1: `forwarding` 0 makes the interface a host's: what comes in there is not forwarded."""
    net.sysctl("ipv4/conf/r0/forwarding", 0)
    net.settle()
    for port in net.hosts:
        port.drain()
    net.hosts[0].send(net.frame(udp4(net.behind4(0), net.behind4(1))))
    assert net.probe(link=2), "the other interfaces still forward"
    errors = [frame for _, frame in net.extra + net.collect()]
    assert all(frame[23] == 1 for frame in errors), [packets.describe(frame) for frame in errors]
    assert not any(host == 1 for host, _ in net.extra), "forwarded although forwarding is off"
