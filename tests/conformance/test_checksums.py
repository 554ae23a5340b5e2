"""Checksums that a sender leaves to others (CHECKSUM_PARTIAL): they must be complete when the packet goes onto a wire."""

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6

from lib import packets

ETHERNET = 14
HEADER = {4: 20, 6: 40}
UDP_CHECKSUM = 6  # offset in the UDP header


def udp(net, family, to):
    make, behind = {4: (packets.udp4, net.behind4), 6: (packets.udp6, net.behind6)}[family]
    return make(behind(0), behind(to))


def left(frame, family, start):
    """The frame, whose UDP header begins at `start`, with the sum of the pseudo-header in place of the checksum."""
    addresses = frame[start - (8 if family == 4 else 32):start]
    length = frame[start + 4:start + 6]
    pseudo = packets.checksum(addresses + b"\0\x11" + length) ^ 0xFFFF
    at = start + UDP_CHECKSUM
    return frame[:at] + pseudo.to_bytes(2, "big") + frame[at + 2:]


@pytest.fixture(autouse=True)
def _wires(net):
    """Turns checksum offload off, so that the interfaces complete checksums; twins have none."""
    for link in range(len(net.hosts) if net.wire is None else 0):
        net.router.exec("ethtool", "-K", f"r{link}", "tx", "off")
        net.later(lambda link=link: net.router.exec("ethtool", "-K", f"r{link}", "tx", "on"))


@pytest.mark.parametrize("family", [4, 6])
def test_checksum_left_to_others(net, family):
    """The router completes the checksum."""
    packet = udp(net, family, to=1)
    start = ETHERNET + HEADER[family]
    frame = left(net.frame(packet), family, start)
    net.exchange(lambda: net.hosts[0].send_with_checksum_left(frame, start, UDP_CHECKSUM),
                 {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("outer", [4, 6])
def test_inner_checksum_left_to_others(net, outer, family):
    """The router completes the checksum of a packet in a tunnel."""
    inner = udp(net, family, to=1)
    if outer == 4:
        packet = bytes(IP(src=net.behind4(0), dst=net.behind4(1), proto=4 if family == 4 else 41)) + inner
        packet = packets.fill_header_checksum(packet[:2] + len(packet).to_bytes(2, "big") + packet[4:])
    else:
        header = IPv6(src=net.behind6(0), dst=net.behind6(1), nh=4 if family == 4 else 41, plen=len(inner))
        packet = bytes(header) + inner
    start = ETHERNET + HEADER[outer] + HEADER[family]
    frame = left(net.frame(packet), family, start)
    net.exchange(lambda: net.hosts[0].send_with_checksum_left(frame, start, UDP_CHECKSUM),
                 {1: [net.forwarded(packet, 1)]})
