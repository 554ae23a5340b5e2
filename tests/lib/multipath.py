"""Flows to routes with several paths: the destination MAC of a forwarded packet shows which gateway was chosen."""

import ipaddress
import itertools
import random
import struct
import time

from lib import packets
from lib.port import wait_readable

FIELDS = 0x37 | 0x37 << 6 | 1 << 3 | 1 << 9  # policy 3: all of the outer and of the inner packet

# Destinations: plain route, weights, next-hop objects, a resilient group, one next hop dead.
KINDS = ("plain", "weights", "objects", "resilient", "dead")
NET4 = {kind: f"203.0.{113 + n}.0/24" for n, kind in enumerate(KINDS)}
NET6 = {kind: f"2001:db8:d{n}::/48" for n, kind in enumerate(KINDS)}


def configure(net, gateways):
    """Neighbours and routes of both families; `gateways(net, family)`: [(address, device, MAC)], three and a dead one."""
    for family, nets in ((4, NET4), (6, NET6)):
        one, two, three, dead = gateways(net, family)
        for address, device, mac in (one, two, three):
            net.router.ip("neighbour", "replace", address, "lladdr", mac, "dev", device)
        net.router.ip("neighbour", "replace", dead[0], "dev", dead[1], "nud", "failed")
        offset = 10 * family
        for n, (address, device, _) in enumerate((one, two, three, dead), 1):
            net.router.ip("nexthop", "replace", "id", str(offset + n), "via", address, "dev", device)
        members = "/".join(f"{offset + n},{weight}" for n, weight in ((1, 3), (2, 1), (3, 5)))
        net.router.ip("nexthop", "replace", "id", str(offset + 5), "group", members)
        net.router.ip(*f"nexthop replace id {offset + 6} group {offset + 1}/{offset + 2}/{offset + 3} "
                      "type resilient buckets 30 idle_timer 0".split())
        net.router.ip("nexthop", "replace", "id", str(offset + 7), "group", f"{offset + 1}/{offset + 4}/{offset + 3}")

        def hops(*weights):
            return [word for way, weight in zip((one, two, three), weights)
                    for word in ("nexthop", "via", way[0], "weight", str(weight))]

        for kind, how in (("plain", hops(1, 1, 1)), ("weights", hops(7, 1, 4)), ("objects", ["nhid", str(offset + 5)]),
                          ("resilient", ["nhid", str(offset + 6)]), ("dead", ["nhid", str(offset + 7)])):
            net.router.ip(f"-{family}", "route", "replace", nets[kind], *how)


def remove(net):
    """Removes the routes."""
    for family, nets in ((4, NET4), (6, NET6)):
        for prefix in nets.values():
            net.router.ip(f"-{family}", "route", "del", prefix, check=False)
    net.router.ip("nexthop", "flush")


# Packets. Each has another source address, which identifies it.

def source4(number):
    return struct.pack("!I", (198 << 24 | 18 << 16) + 1 + number)


def source6(number):
    return bytes.fromhex("20010db800f00000") + struct.pack("!Q", 1 + number)


def ipv4(protocol, src, dst, body, fragment=0):
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 7, fragment, 64, protocol, 0) + src + dst
    return packets.fill_header_checksum(header) + body


def ipv6(protocol, src, dst, body, label=0):
    return struct.pack("!IHBB", 6 << 28 | label, len(body), protocol, 64) + src + dst + body


def udp(draw, size=8):
    data = bytes(size)
    return struct.pack("!HHHH", draw.getrandbits(16), draw.getrandbits(16), 8 + len(data), 0) + data


def tcp(draw):
    return struct.pack("!HHIIBBHHH", draw.getrandbits(16), draw.getrandbits(16), 1, 1, 0x50, 0x10, 99, 0x1234, 0)


def packet4(draw, number, dst):
    src = source4(number)
    inner4 = ipv4(17, draw.randbytes(4), draw.randbytes(4), udp(draw))
    inner6 = ipv6(6, draw.randbytes(16), draw.randbytes(16), tcp(draw), draw.getrandbits(20))
    bodies = [
        lambda: ipv4(17, src, dst, udp(draw)),
        lambda: ipv4(6, src, dst, tcp(draw)),
        lambda: ipv4(1, src, dst, b"\x08\0\0\0" + draw.randbytes(12)),  # echo
        lambda: ipv4(1, src, dst, b"\x0b\0\0\0\0\0\0\0" + inner4),  # time exceeded
        lambda: ipv4(1, src, dst, b"\x03\x01\0\0\0\0\0\0" + inner4[:20]),  # unreachable, header only
        lambda: ipv4(1, src, dst, b"\x03\x01\0\0\0\0\0\0" + inner4[:12]),  # cut short
        lambda: ipv4(50, src, dst, draw.randbytes(24)),  # ESP: its SPI counts as ports
        lambda: ipv4(51, src, dst, draw.randbytes(24)),  # AH
        lambda: ipv4(132, src, dst, draw.randbytes(24)),  # SCTP
        lambda: ipv4(89, src, dst, draw.randbytes(24)),  # OSPF
        lambda: ipv4(17, src, dst, udp(draw), 0x2000),  # first fragment
        lambda: ipv4(17, src, dst, udp(draw), 0x0010),  # later fragment
        lambda: ipv4(17, src, dst, draw.randbytes(2)),  # too short for ports
        lambda: ipv4(4, src, dst, inner4),
        lambda: ipv4(41, src, dst, inner6),
        lambda: ipv4(47, src, dst, struct.pack("!HH", 0, 0x0800) + inner4),
        lambda: ipv4(47, src, dst, struct.pack("!HHII", 0x3000, 0x86DD, draw.getrandbits(32), 5) + inner6),
        lambda: ipv4(47, src, dst, struct.pack("!HH", 0, 0x6558) + bytes(12) + b"\x08\0" + inner4),
        lambda: ipv4(47, src, dst, struct.pack("!HHHHII", 0x3001, 0x880B, 40, 1, 2, 0xFF030021) + inner4),
    ]
    # half of the packets are of the common kinds
    return bodies[draw.randrange(2) if draw.random() < 0.5 else draw.randrange(len(bodies))]()


def packet6(draw, number, dst):
    src, label = source6(number), draw.choice((0, draw.getrandbits(20)))
    inner4 = ipv4(17, draw.randbytes(4), draw.randbytes(4), udp(draw))
    inner6 = ipv6(6, draw.randbytes(16), draw.randbytes(16), tcp(draw), draw.getrandbits(20))
    bodies = [
        lambda: ipv6(17, src, dst, udp(draw), label),
        lambda: ipv6(6, src, dst, tcp(draw), label),
        lambda: ipv6(58, src, dst, b"\x80\0\0\0" + draw.randbytes(12), label),  # echo
        lambda: ipv6(58, src, dst, b"\x03\0\0\0\0\0\0\0" + inner6, label),  # time exceeded
        lambda: ipv6(58, src, dst, b"\x02\0\0\0\0\0\0\0" + inner6[:20], label),  # cut short
        lambda: ipv6(50, src, dst, draw.randbytes(24), label),
        lambda: ipv6(132, src, dst, draw.randbytes(24), label),
        lambda: ipv6(44, src, dst, b"\x11\0\0\x01\0\0\0\x07" + udp(draw), label),  # first fragment
        lambda: ipv6(44, src, dst, b"\x11\0\0\x10\0\0\0\x07" + udp(draw), label),  # later fragment
        lambda: ipv6(60, src, dst, b"\x11\0\x01\x04\0\0\0\0" + udp(draw), label),  # destination options
        lambda: ipv6(4, src, dst, inner4, label),
        lambda: ipv6(41, src, dst, inner6, label),
        lambda: ipv6(47, src, dst, struct.pack("!HH", 0, 0x0800) + inner4, label),
        lambda: ipv6(59, src, dst, b"", label),
    ]
    return bodies[draw.randrange(2) if draw.random() < 0.5 else draw.randrange(len(bodies))]()


def flows(count, only=None):
    """[(key, packet)], `count` for each family, to all destinations in turn; the same in every run."""
    draw, made = random.Random(63), []
    for number in range(count):
        for family, nets, make in ((4, NET4, packet4), (6, NET6, packet6)):
            kind = only or KINDS[number % len(KINDS)]
            first = ipaddress.ip_network(nets[kind]).network_address.packed
            dst = first[:-1] + bytes([1 + draw.randrange(250)])
            packet = make(draw, number, dst)
            made.append((packet[12:16] if family == 4 else packet[8:24], packet))
    return made


def key_of(frame):
    kind = frame[12:14]
    if kind == b"\x08\0":
        return frame[26:30]
    return frame[22:38] if kind == b"\x86\xdd" else None


def paths(net, made, chunk=200, seconds=60):
    """Sends all packets and returns {source: MAC of the gateway}; each must arrive once."""
    for port in net.hosts:
        port.drain()
    taken, wanted = {}, {key for key, _ in made}
    frames = iter([net.frame(packet) for _, packet in made])
    deadline = time.monotonic() + seconds
    sent, total = 0, len(made)
    while len(taken) < total and time.monotonic() < deadline:
        # never more packets under way than rings and queues hold
        for frame in itertools.islice(frames, max(0, min(chunk, len(taken) + 2 * chunk - sent))):
            net.hosts[0].send(frame)
            sent += 1
        progress = False
        for port in wait_readable(net.hosts, 0.05):
            while (frame := port.receive_now()) is not None:
                key = key_of(frame)
                if key in wanted:
                    assert key not in taken, f"twice: {packets.describe(frame)}"
                    taken[key], progress = frame[:6], True
        if not progress and sent == total and time.monotonic() > deadline - seconds + 10:
            break
    lost = [packet for key, packet in made if key not in taken]
    assert not lost, (f"{len(lost)} of {total} packets did not come, for instance "
                      f"{packets.describe(net.frame(lost[0]))}")
    return taken


def write_policy(net, policy):
    """Sets the hash policy, which Linux uses at once."""
    for version in ("ipv4", "ipv6"):
        net.router.set_sysctl(f"net/{version}/fib_multipath_hash_fields", FIELDS)
        net.router.set_sysctl(f"net/{version}/fib_multipath_hash_policy", policy)


def set_policy(net, policy):
    """Sets the hash policy; when this returns, Bora uses it too."""
    write_policy(net, policy)
    if net.bora is not None and net.bora.alive():
        time.sleep(1.5)  # sysctls are read once a second
        net.bora.wait_in_sync()


def same(expected, now, made, what):
    moved = [packet for key, packet in made if expected[key] != now[key]]
    assert not moved, (f"{what}: {len(moved)} of {len(made)} packets took another path, for instance "
                       + "; ".join(packets.describe(b"\0" * 12 + (b"\x08\0" if p[0] >> 4 == 4 else b"\x86\xdd") + p)
                                   for p in moved[:4]))
