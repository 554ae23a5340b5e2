"""Frames for lib.load on the network of lib.topology."""

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from lib.load import Load, trailer

FILL = b"load" * 4


def flow_frame(net, number, family=4, link=0, to=1, source=None, target=None, ttl=64, dport=5000,
               fill=FILL):
    """One packet of flow `number` from behind host `link` to behind host `to`."""
    behind, header = (net.behind4, IP) if family == 4 else (net.behind6, IPv6)
    packet = header(src=source or behind(link), dst=target or behind(to))
    if family == 4:
        packet.ttl = ttl
    else:
        packet.hlim = ttl
    return net.frame(bytes(packet / UDP(sport=20_000 + number, dport=dport) / Raw(fill + trailer(number))), link)


def both_families(net, flows=8, **more):
    """`flows` flows, IPv4 and IPv6 in turn."""
    return [flow_frame(net, number, 6 if number % 2 else 4, **more) for number in range(flows)]


def load(net, frames, rate, link=0, to=1):
    """A Load from host `link` to host `to`."""
    return Load((net.host_name(link), f"h{link}"), (net.host_name(to), f"h{to}"), frames, rate)
