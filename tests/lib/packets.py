"""Builds packets to send and packets to expect, and shows how two packets differ."""

import itertools
import logging
import struct

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)

from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

MINIMUM_FRAME = 60  # without FCS
ICMP4_QUOTE = 576 - 20 - 8  # RFC 1812 4.3.2.3: as much as fits a 576-byte datagram
ICMP6_QUOTE = 1280 - 40 - 8  # RFC 4443 2.4 (c): as much as fits the minimum MTU
INTERNETWORK_CONTROL = 0xC0  # precedence 6, RFC 1812 4.3.2.5

_serial = itertools.count(1)


def payload(size=26):
    """`size` bytes that no other packet of this run has."""
    mark = b"bora%08x" % next(_serial)
    return (mark + bytes(i & 0xFF for i in range(size)))[:size]


def udp4(src, dst, ttl=64, size=26, sport=4000, dport=5000, **header):
    """An IPv4 UDP datagram with `size` bytes of data, as bytes."""
    return bytes(IP(src=src, dst=dst, ttl=ttl, **header) / UDP(sport=sport, dport=dport) / Raw(payload(size)))


def udp6(src, dst, hlim=64, size=26, sport=4000, dport=5000, **header):
    """An IPv6 UDP datagram with `size` bytes of data, as bytes."""
    return bytes(IPv6(src=src, dst=dst, hlim=hlim, **header) / UDP(sport=sport, dport=dport) / Raw(payload(size)))


def version(packet):
    """4 or 6."""
    return packet[0] >> 4


def checksum(data):
    """RFC 1071 over `data`."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def fill_header_checksum(packet):
    """The IPv4 packet with its header checksum recomputed."""
    length = (packet[0] & 0xF) * 4
    header = packet[:10] + b"\0\0" + packet[12:length]
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + packet[length:]


def hop(packet):
    """The packet after one hop: TTL decremented, checksum recomputed, nothing else changed."""
    if version(packet) == 4:
        return fill_header_checksum(packet[:8] + bytes([packet[8] - 1]) + packet[9:])
    return packet[:7] + bytes([packet[7] - 1]) + packet[8:]


def ethernet(dst, src, packet, kind=None):
    """An Ethernet frame around an IP packet; the type follows the version unless it is given."""
    if kind is None:
        kind = 0x86DD if version(packet) == 6 else 0x0800
    return mac(dst) + mac(src) + struct.pack("!H", kind) + packet


def mac(text):
    """Six bytes of "02:bc:00:00:00:10"."""
    return bytes.fromhex(text.replace(":", ""))


def icmp4_error(kind, code, src, about, rest=b"\0\0\0\0", dst=None):
    """Expectation: the whole ICMP error about the IPv4 packet `about`, except that its own IP ID is free.

    Returns a function from the received IP packet to the packet it should have been."""
    quote = about[:ICMP4_QUOTE]
    body = struct.pack("!BBH", kind, code, 0) + rest + quote
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    tos = INTERNETWORK_CONTROL | (about[1] & 0x1E)

    def expected(got):
        identification = int.from_bytes(got[4:6], "big") if len(got) >= 6 else 0
        target = dst or ".".join(str(byte) for byte in about[12:16])
        return bytes(IP(src=src, dst=target, proto=1, ttl=64, tos=tos, id=identification) / Raw(body))

    expected.text = f"ICMP error {kind}/{code} from {src}"
    return expected


def icmp6_error(kind, code, src, about, rest=b"\0\0\0\0", dst=None):
    """Expectation: the whole ICMPv6 error about the IPv6 packet `about`."""
    quote = about[:ICMP6_QUOTE]
    target = dst or IPv6(about).src
    whole = IPv6(src=src, dst=target, nh=58, hlim=64) / Raw(struct.pack("!BBH", kind, code, 0) + rest + quote)
    raw = bytes(whole)
    total = checksum(raw[8:40] + struct.pack("!II", len(raw) - 40, 58) + raw[40:])
    raw = raw[:42] + struct.pack("!H", total) + raw[44:]

    def expected(_got):
        return raw

    expected.text = f"ICMPv6 error {kind}/{code} from {src}"
    return expected


def same(expected, got):
    """Equal, or equal with zero padding up to the Ethernet minimum (a NIC pads, a veth does not)."""
    if got == expected:
        return True
    padding = got[len(expected):]
    return got[: len(expected)] == expected and len(got) == MINIMUM_FRAME and not any(padding)


def describe(frame):
    """One line about a frame."""
    return f"{len(frame)} bytes: {Ether(frame).summary()}"


def difference(expected, got):
    """A side-by-side text of two frames with the bytes that differ marked."""
    lines = [f"expected {describe(expected)}", f"got      {describe(got)}"]
    for start in range(0, max(len(expected), len(got)), 16):
        left, right = expected[start:start + 16], got[start:start + 16]
        if left != right:
            marks = "".join(
                "^^ " if left[i:i + 1] != right[i:i + 1] else "   " for i in range(max(len(left), len(right)))
            )
            lines += [f"{start:5}  - {left.hex(' ')}", f"       + {right.hex(' ')}", f"         {marks}"]
    return "\n".join(lines[:40])
