"""What hosts tell or ask a router: advertisements of other routers, solicitations for others, path MTUs; and packets in VXLAN."""

import ipaddress
import struct

import pools
from hosts import mac_of, solicitation
from lib import packets

ADVERTISEMENT, FRAGMENTATION_NEEDED = 134, b"\3\4"
FAR, FAR_MAC = "10.0.1.2", bytes.fromhex("02bc00000077")  # the far end of a VXLAN, and a host behind it
NEAR_MAC = bytes.fromhex("02bc0000002d")  # the MAC of the VXLAN device
PROXIED = "2001:db8:f0:7::9"  # solicitations for it may be answered by the router


def octets(text):
    """An address as octets."""
    return ipaddress.ip_address(text).packed


def frame_to(device, mac, kind, packet):
    """(link, frame) from a host with this MAC."""
    tags = b"".join(struct.pack("!HH", *tag) for tag in device.tags)
    return device.link, packets.mac(device.mac) + mac + tags + struct.pack("!H", kind) + packet


def icmpv6(source, destination, body):
    """An IPv6 packet of ICMPv6 with hop limit 255."""
    pseudo = source + destination + struct.pack("!II", len(body), 58)
    body = body[:2] + struct.pack("!H", packets.checksum(pseudo + body)) + body[4:]
    return struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + source + destination + body


def advertisement(device, last, preference=0, lifetime=1800, route=b""):
    """A host advertises itself as a default router, and perhaps a route (RFC 4191)."""
    mac = mac_of(device.link, bytes([last]))
    body = struct.pack("!BBHBBHII", ADVERTISEMENT, 0, 0, 64, preference, lifetime, 0, 0) + b"\1\1" + mac + route
    packet = icmpv6(octets(f"fe80::{last:x}"), octets("ff02::1"), body)
    link, frame = frame_to(device, mac, 0x86DD, packet)
    return link, bytes.fromhex("333300000001") + frame[6:]


LOW, MEDIUM, HIGH = 24, 0, 8


def route_information(rng):
    """An option of an advertisement: a route for a prefix."""
    net = pools.network(rng.choice(pools.PREFIXES[6][1:5]), 6)
    return struct.pack("!BBBBI", 24, 3, net.prefixlen, rng.choice((LOW, MEDIUM, HIGH)), rng.choice((1800, 1800, 0))) + net.network_address.packed


def advertisements(rng, devices):
    """[(link, frame)]: some routers advertise themselves."""
    return [advertisement(rng.choice(devices), rng.choice((2, 3, 4)), rng.choice((LOW, MEDIUM, MEDIUM, HIGH)), rng.choice((1800, 1800, 1800, 0)),
                          route_information(rng) if rng.random() < 0.5 else b"") for _ in range(rng.randrange(1, 6))]


def proxied_solicitation(rng, devices):
    """A host asks for an address that another device has, at the router's MAC."""
    device = rng.choice(devices)
    target = rng.choice((PROXIED, rng.choice(devices).address(6, 50)))
    mac = mac_of(device.link, b"\2")
    return frame_to(device, mac, 0x86DD, solicitation(octets(device.address(6, 2)), octets(target), mac))


def narrow_path(rng, devices):
    """A host says that a packet of the router itself was too long: Linux learns the MTU of the path."""
    device = rng.choice(devices)
    to = pools.around(rng, rng.choice(pools.PREFIXES[4][1:12]), 4).packed
    own, host = octets(device.address(4, 1)), octets(device.address(4, 2))
    told = packets.fill_header_checksum(struct.pack("!BBHHHBBH", 0x45, 0, 1400, 0, 0x4000, 64, 1, 0) + own + to) + b"\0\0\0\0\0\0\0\0"
    body = FRAGMENTATION_NEEDED + struct.pack("!HHH", 0, 0, rng.choice((600, 1280))) + told
    body = body[:2] + struct.pack("!H", packets.checksum(body)) + body[4:]
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), rng.getrandbits(16), 0, 64, 1, 0)
    packet = packets.fill_header_checksum(header + host + own) + body
    return frame_to(device, mac_of(device.link, b"\2"), 0x0800, packet)


def in_vxlan(rng, device, frame):
    """A frame in a packet of VXLAN network 5, from the far end at the device."""
    length = 16 + len(frame)
    inside = struct.pack("!HHHH", rng.randrange(49152, 65536), 4789, length, 0) + struct.pack("!II", 8 << 24, 5 << 8) + frame
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, rng.getrandbits(16), 0, 64, 17, 0)
    packet = packets.fill_header_checksum(header + octets(FAR) + octets("10.0.1.1")) + inside
    return device.link, packets.mac(device.mac) + mac_of(device.link, octets(FAR)) + b"\x08\0" + packet
