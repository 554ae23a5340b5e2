"""Random packets for what a configuration knows: mostly valid ones, some damaged."""

import ipaddress
import struct

import pools
import signalling
from hosts import arp, mac_of, solicitation
from lib import multipath, packets

SIZES = (0, 1, 7, 8, 20, 26, 64, 100, 500, 1200, 1480, 1700, 2900)
MTUS = (600, 1280, 1300, 1400, 1492, 1500, 2000)  # addresses of `topics` and `policies`; packets are as long, or one octet longer or shorter
PORTS = (53, 80, 443, 1000, 1999, 2000, 5000)
LONGEST = 1514  # octets of a frame that a TAP interface takes


def fits(frame, taps):
    """Whether a router with these ports of kind tap gets the frame: they take none that are too long for their MTU, as a veth does."""
    return not taps or len(frame) <= LONGEST


def checked(source, destination, protocol, body, place):
    """A body of TCP, UDP or ICMPv6 with its checksum, which stands at `place`."""
    length = struct.pack("!HH" if len(source) == 4 else "!II", *((protocol, len(body)) if len(source) == 4 else (len(body), protocol)))
    total = packets.checksum(source + destination + length + body[:place] + b"\0\0" + body[place + 2:]) or 0xFFFF
    return body[:place] + struct.pack("!H", total) + body[place + 2:]


def body(rng, family, source, destination):
    """(protocol, body) of a valid packet."""
    size = rng.choice(SIZES)
    if rng.random() < 0.3:
        size = rng.choice(MTUS) + rng.choice((-1, 0, 1)) - (28 if family == 4 else 48)
    data, ports = rng.randbytes(size), (rng.choice((rng.randrange(1024, 65536), *PORTS)), rng.choice(PORTS))
    kind = rng.choice(("udp", "udp", "udp", "tcp", "echo", "reply"))
    if kind == "udp":
        return 17, checked(source, destination, 17, struct.pack("!HHHH", *ports, 8 + len(data), 0) + data, 6)
    if kind == "tcp":
        flags = rng.choice((2, 0x10, 0x18, 0x11, 4))
        return 6, checked(source, destination, 6, struct.pack("!HHIIBBHHH", *ports, rng.getrandbits(32), 1, 0x50, flags, 999, 0, 0) + data, 16)
    if family == 4:
        octets = struct.pack("!BBHHH", 8 if kind == "echo" else 0, 0, 0, rng.getrandbits(16), 1) + data
        return 1, octets[:2] + struct.pack("!H", packets.checksum(octets)) + octets[4:]
    return 58, checked(source, destination, 58, struct.pack("!BBHHH", 128 if kind == "echo" else 129, 0, 0, rng.getrandbits(16), 1) + data, 2)


OPTIONS = (b"\1\1\1\1", b"\x94\4\0\0", b"\7\7\4" + bytes(4) + b"\0", b"\x83\7\4\xc6\x12\7\x09\0", b"\x82\x0b" + bytes(9) + b"\0", b"\x44\x28\xff\0",
           b"\7\2\0\0", b"\x99\4ab", b"\x86\6\0\0\0\1\0\0")


def ipv4(rng, source, destination):
    """An IPv4 packet."""
    if rng.random() < 0.25:
        packet = multipath.packet4(rng, 1, destination)
        packet = packet[:12] + source + packet[16:]
        protocol, content = packet[9], packet[20:]
    else:
        protocol, content = body(rng, 4, source, destination)
    options = rng.choice(OPTIONS) if rng.random() < 0.06 else b""
    ttl = rng.choice((64, 64, 64, 64, 64, 255, 2, 1, 0)) if rng.random() < 0.4 else 64
    fragment = rng.choice((0, 0, 0x4000, 0x4000, 0x2000, 0x10, 0x2010, 0x8000, 0x6000)) if rng.random() < 0.5 else 0
    tos = rng.choice((0x08, 0x10, 0xB8, 0x04, 0x1C, 3, rng.randrange(256))) if rng.random() < 0.3 else 0
    header = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, tos, 20 + len(options) + len(content), rng.getrandbits(16), fragment, ttl, protocol, 0)
    return packets.fill_header_checksum(header + source + destination + options + content)


HOP_OPTIONS = (b"\1\4\0\0\0\0", b"\5\2\0\0\1\0", b"\x3e\4\0\0\0\0", b"\x7e\4\0\0\0\0", b"\xbe\4\0\0\0\0", b"\xfe\4\0\0\0\0", b"\xc2\4\0\1\0\0")


def ipv6(rng, source, destination):
    """An IPv6 packet."""
    if rng.random() < 0.25:
        packet = multipath.packet6(rng, 1, destination)
        label, protocol, content = int.from_bytes(packet[1:4], "big") & 0xFFFFF, packet[6], packet[40:]
    else:
        label = 0
        protocol, content = body(rng, 6, source, destination)
    if rng.random() < 0.1:
        kind = rng.choice((0, 60, 43, 44))
        middle = rng.choice(HOP_OPTIONS) if kind in (0, 60) else bytes(6)
        more = struct.pack("!BBHI", protocol, 0, rng.choice((0, 1, 8, 9)), rng.getrandbits(32)) if kind == 44 else bytes((protocol, 0)) + middle
        protocol, content = kind, more + content
    hops = rng.choice((64, 64, 64, 64, 255, 2, 1, 0)) if rng.random() < 0.4 else 64
    traffic_class = rng.choice((0x08, 0xB8, 3, rng.randrange(256))) if rng.random() < 0.3 else 0
    return struct.pack("!IHBB", 6 << 28 | traffic_class << 20 | label, len(content), protocol, hops) + source + destination + content


def damaged(rng, packet):
    """The packet with a fault."""
    at = rng.randrange(min(len(packet), 44))
    return rng.choice((
        lambda: packet[:rng.randrange(len(packet))],
        lambda: packet + rng.randbytes(rng.randrange(1, 40)),
        lambda: packet[:at] + bytes([rng.randrange(256)]) + packet[at + 1:],
        lambda: packet[:2] + struct.pack("!H", rng.choice((0, 19, 20, 40, 65535, len(packet) + 1, len(packet) - 1))) + packet[4:],
        lambda: bytes([rng.choice((0x44, 0x4F, 0x46, 0x65, 0x00))]) + packet[1:],
        lambda: packet[:10] + rng.randbytes(2) + packet[12:],
    ))()


def destination(rng, family, devices):
    """An address that the configuration knows, or a random one."""
    kind = rng.choices(("prefix", "host", "router", "behind", "odd", "random"), (45, 15, 8, 20, 6, 6))[0]
    device = rng.choice(devices)
    if kind == "prefix":
        return pools.around(rng, rng.choice(pools.PREFIXES[family]), family).packed
    if kind == "host":
        return ipaddress.ip_address(device.address(family, rng.choice((2, 2, 3, 4, 5, 7, 50, 0, 127, 200 if rng.random() < 0.2 else 6, 255)))).packed
    if kind == "router":
        return ipaddress.ip_address(device.address(family, rng.choice((1, 1, 1, 254)))).packed
    if kind == "behind":
        return pools.inside(rng, device.behind(family), family).packed
    if kind == "odd":
        return ipaddress.ip_address(rng.choice(pools.ODD[family])).packed
    return rng.randbytes(4 if family == 4 else 16)


def source(rng, family, devices, device):
    """Mostly an address behind the input, a new one for each packet: Linux limits some errors for each destination."""
    roll = rng.random()
    if roll < 0.85:
        return pools.inside(rng, device.behind(family), family).packed
    if roll < 0.90:
        return pools.inside(rng, rng.choice(devices).behind(family), family).packed
    if roll < 0.93:
        return ipaddress.ip_address(device.address(family, rng.randrange(2, 99))).packed
    if roll < 0.97:
        return pools.inside(rng, rng.choice(pools.PREFIXES[family][1:4]), family).packed
    return ipaddress.ip_address(rng.choice((*pools.ODD[family], device.address(family, 1)))).packed


def frame(rng, devices, device, packet, mac):
    """A frame of a host on a device."""
    to = packets.mac(device.mac)
    if rng.random() < 0.04:
        to = rng.choice((b"\xff" * 6, bytes.fromhex("01005e000001"), bytes.fromhex("333300000001"), bytes.fromhex("02bc00000099"),
                         packets.mac(rng.choice(devices).mac), bytes.fromhex("0180c2000000")))
    tags = b"".join(struct.pack("!HH", *tag) for tag in device.tags)
    if rng.random() < 0.02:
        tags += struct.pack("!HH", rng.choice((0x8100, 0x88A8)), rng.choice((0, 0xE000, 100, 999)))
    kind = 0x0800 if packet[:1] and packet[0] >> 4 != 6 else 0x86DD
    if rng.random() < 0.01:
        kind = rng.choice((0x0800, 0x86DD, 0x8847, 46, 0x9000))
    return to + mac + tags + struct.pack("!H", kind) + packet


def some(rng, devices, count, tunnel=None):
    """[(link, frame)]: `count` random ones from the hosts of the devices; some come in by a VXLAN device."""
    made = []
    while len(made) < count:
        device = rng.choice(devices)
        if rng.random() < 0.02:
            made.append(rng.choice((signalling.proxied_solicitation, signalling.narrow_path))(rng, devices))
            continue
        family = rng.choice((4, 6))
        from_, to = source(rng, family, devices, device), destination(rng, family, devices)
        packet = (ipv4 if family == 4 else ipv6)(rng, from_, to)
        if rng.random() < 0.06:
            packet = damaged(rng, packet)
        mac = mac_of(device.link, bytes([rng.choice((2, 2, 2, 3))]))
        if tunnel and rng.random() < 0.3:
            inside = signalling.NEAR_MAC + signalling.FAR_MAC + (b"\x08\0" if family == 4 else b"\x86\xdd") + packet[:1400]
            made.append(signalling.in_vxlan(rng, tunnel, inside))
            continue
        for _ in range(2 if rng.random() < 0.05 else 1):
            made.append((device.link, frame(rng, devices, device, packet, mac)))
    return made


def hello(device, last, ours, mac):
    """[(link, frame)]: a host asks for an address of the router by ARP and by solicitations, and is known from then on."""
    tags = b"".join(struct.pack("!HH", *tag) for tag in device.tags)
    octets = lambda text: ipaddress.ip_address(text).packed  # noqa: E731
    asks = arp(1, mac, octets(device.address(4, last)), bytes(6), octets(device.address(4, ours)))
    made = [(device.link, b"\xff" * 6 + mac + tags + b"\x08\x06" + asks)]
    for host in (device.address(6, last), f"fe80::{last:x}"):
        asks = solicitation(octets(host), octets(device.address(6, ours)), mac)
        made.append((device.link, packets.mac(device.mac) + mac + tags + b"\x86\xdd" + asks))
    return made


def introductions(devices):
    """All hosts that are gateways say hello, so that both routers know them: Bora would ask for them earlier than Linux."""
    once = {device.name: device for device in reversed(devices)}  # a bridge's are at its first port
    return [one for device in once.values() for last in range(2, 6) for one in hello(device, last, 1, mac_of(device.link, bytes([last])))]


def moves(rng, devices):
    """Hosts ask for the router's addresses, perhaps from new MACs."""
    made = []
    for device in rng.sample(devices, min(len(devices), 2)):
        last = rng.randrange(2, 6)
        made += hello(device, last, rng.choice((1, 1, 3)), mac_of(device.link, bytes([rng.choice((last, last, 0x70 + last))])))
    return made
