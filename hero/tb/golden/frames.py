"""Ethernet, IPv4 and IPv6 frames made by hand, as `bytes` without preamble and FCS unless said otherwise."""

import ipaddress
import struct
import zlib

MIN_FRAME = 60  # octets without FCS (IEEE 802.3)
MAX_FRAME = 1514
MAX_VLAN_FRAME = 1518
IPV4, ARP, VLAN, IPV6 = 0x0800, 0x0806, 0x8100, 0x86DD
PREAMBLE = b"\x55" * 7 + b"\xd5"


def mac(text):
    """'02:00:00:00:00:01' -> 6 octets."""
    return bytes.fromhex(text.replace(":", ""))


def ip(text):
    """'10.0.0.1' -> 32-bit number."""
    return int.from_bytes(bytes(int(part) for part in text.split(".")), "big")


def ip6(text):
    """'2001:db8::1' -> 128-bit number."""
    return int(ipaddress.IPv6Address(text))


def checksum(octets):
    """The Internet checksum of RFC 1071: 16 bits."""
    if len(octets) % 2:
        octets += b"\0"
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def fcs(frame):
    """The frame check sequence, in the order of the wire."""
    return struct.pack("<I", zlib.crc32(frame))


def ethernet(dst, src, ethertype, payload, pad=MIN_FRAME):
    """A frame padded with zeros to `pad` octets."""
    frame = dst + src + struct.pack(">H", ethertype) + payload
    return frame.ljust(pad, b"\0")


def vlan(tag, frame):
    """`frame` with an IEEE 802.1Q tag; the padding stays."""
    return frame[:12] + struct.pack(">HH", VLAN, tag) + frame[12:]


def ipv4(dst, src, payload=b"", ttl=64, tos=0, proto=17, options=b"", ident=0, error=0, version=4, total=None):
    """An IPv4 packet (RFC 791). `dst`, `src`: numbers; `options`: a multiple of 4 octets;
    `error` is added to the checksum; `total` replaces the right total length."""
    words = 5 + len(options) // 4
    length = 4 * words + len(payload) if total is None else total
    head = struct.pack(">BBHHHBBHII", version << 4 | words, tos, length, ident, 0, ttl, proto, 0, src, dst) + options
    value = (checksum(head) + error) & 0xFFFF
    return head[:10] + struct.pack(">H", value) + head[12:] + payload


def ipv6(dst, src, payload=b"", hop_limit=64, traffic_class=0, next_header=17, flow=0, version=6, length=None):
    """An IPv6 packet (RFC 8200). `dst`, `src`: numbers; `length` replaces the right payload length."""
    first = version << 28 | traffic_class << 20 | flow
    head = struct.pack(">IHBB", first, len(payload) if length is None else length, next_header, hop_limit)
    return head + src.to_bytes(16, "big") + dst.to_bytes(16, "big") + payload


def stamp(frame, serial):
    """`frame` with its last 4 octets replaced: makes it one of its kind."""
    return frame[:-4] + struct.pack(">I", serial)


def wire(frame, bad_fcs=False):
    """What is on the wire from the preamble to the FCS."""
    check = fcs(frame)
    if bad_fcs:
        check = bytes([check[0] ^ 1]) + check[1:]
    return PREAMBLE + frame + check
