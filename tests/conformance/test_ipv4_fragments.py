"""IPv4 fragmentation on the way to the link with the small MTU."""

import struct

import pytest
from scapy.layers.inet import IP, UDP, IPOption
from scapy.packet import Raw

from lib import packets
from lib.packets import fill_header_checksum, payload, udp4
from lib.topology import SMALL_MTU

MORE = 0x2000


def in_later_fragments(options):
    """The options of the second and later fragments: options without the copy flag become NOPs, as in Linux."""
    out, at = b"", 0
    while at < len(options):
        kind = options[at]
        length = 1 if kind < 2 else options[at + 1]
        copied = kind < 2 or kind & 0x80
        out += options[at:at + length] if copied else b"\x01" * length
        at += length
    return out


def fragments(packet, mtu):
    """The fragments of `packet` for `mtu` by RFC 791; if it is itself a fragment, they continue its offset and MF."""
    length = (packet[0] & 0xF) * 4
    options, data = packet[20:length], packet[length:]
    field = int.from_bytes(packet[6:8], "big")
    room = (mtu - length) // 8 * 8
    parts = []
    for at in range(0, len(data), room):
        part = data[at:at + room]
        more = MORE if at + room < len(data) else field & MORE
        offset = (field & 0x1FFF) + at // 8
        header = packet[:2] + struct.pack("!H", length + len(part)) + packet[4:6]
        header += struct.pack("!H", more | offset) + packet[8:20] + (in_later_fragments(options) if at else options)
        parts.append(fill_header_checksum(header + part))
    return parts


def check(net, packet, count):
    parts = fragments(packets.hop(packet), SMALL_MTU)
    assert len(parts) == count, "the test itself is wrong"
    got = net.exchange(net.frame(packet), {2: [net.out(part, 2) for part in parts]})
    places = [int.from_bytes(frame[20:22], "big") & 0x1FFF for _, frame in got]
    assert places == sorted(places), f"fragments out of order: {places}"


@pytest.mark.parametrize("size", [SMALL_MTU - 27, 1472])
@pytest.mark.parametrize("tos", [0, 0xBA])
def test_16_fragmented(net, size, tos):
    """RFC 791: offsets in units of 8 bytes, MF on all but the last, the same ID; 37, 38: DSCP and ECN on all."""
    check(net, udp4(net.behind4(0), net.behind4(2), size=size, id=0x1234, tos=tos), 2)


@pytest.mark.parametrize("flags, offset", [("MF", 0), ("MF", 185), (0, 185), (0, 4000)])
def test_17_fragment_of_a_fragment(net, flags, offset):
    """RFC 791: a fragment fragmented again keeps its offset, and MF if it was not the last."""
    header = IP(src=net.behind4(0), dst=net.behind4(2), id=77, flags=flags, frag=offset, proto=17)
    check(net, bytes(header / Raw(payload(1480))), 2)


def test_17_fragment_that_fits_is_unchanged(net):
    """A fragment in transit is neither changed nor reassembled."""
    header = IP(src=net.behind4(0), dst=net.behind4(1), id=78, flags="MF", frag=20, proto=17)
    packet = bytes(header / Raw(payload(800)))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("options", [
    b"\x99\x04ab",  # copied
    b"\x19\x04ab",  # not copied
    b"\x19\x03a\x99\x04bc\x01",  # both
    b"\x94\x04\x00\x01\x01\x01\x01\x00"[:4],  # copied: a number Linux knows (router alert, value 1)
], ids=["copied", "first-only", "both", "router-alert"])
def test_18_option_copy_flag(net, options):
    """RFC 791 3.1: only options with the copy flag go into the later fragments; Linux fills with NOPs."""
    packet = bytes(IP(src=net.behind4(0), dst=net.behind4(2), options=[IPOption(options)]) / UDP() / Raw(payload(1400)))
    check(net, packet, 2)
