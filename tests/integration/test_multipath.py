"""One flow, one path: kernel, express and engine choose the same next hop for every packet, so that neither
kill -9 nor a restart nor another tier moves a flow.

    h0 ---- r0 [ router ] r1 ---- h1, with three gateways told apart by their MACs
                          r2 ---- h2, with one
"""

import ipaddress
import itertools
import os
import random
import struct
import time

import pytest

from lib import packets
from lib.bora import Bora
from lib.port import wait_readable

FLOWS = 10_000  # of each IP version and policy
FIELDS = 0x37 | 0x37 << 6 | 1 << 3 | 1 << 9  # policy 3: all of the outer and of the inner packet

# Destinations: plain route, weights, next-hop objects, a resilient group, one next hop dead.
KINDS = ("plain", "weights", "objects", "resilient", "dead")
NET4 = {kind: f"203.0.{113 + n}.0/24" for n, kind in enumerate(KINDS)}
NET6 = {kind: f"2001:db8:d{n}::/48" for n, kind in enumerate(KINDS)}


def gateways(net, family):
    """[(address, device, MAC)]: two behind r1, one behind r2, and one behind r1 that is dead."""
    base = [("10.0.1.2", "10.0.1.3", "10.0.2.2", "10.0.1.9"),
            ("2001:db8:1::2", "2001:db8:1::3", "2001:db8:2::2", "2001:db8:1::9")][family == 6]
    devices = ("r1", "r1", "r2", "r1")
    macs = (net.host_mac(1), "02:bc:00:00:00:93", net.host_mac(2), None)
    return list(zip(base, devices, macs))


def configure(net):
    """Neighbours and routes of both families."""
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


# Packets. Every one has a source of its own, by which it is known again.

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
    # half of it what everybody sends
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


def flows(count=FLOWS, only=None):
    """[(key, packet)] of both families, to all destinations in turn, the same in every run."""
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
    """{source: MAC of the gateway} of all these packets; each must come once."""
    for port in net.hosts:
        port.drain()
    taken, wanted = {}, {key for key, _ in made}
    frames = iter([net.frame(packet) for _, packet in made])
    deadline = time.monotonic() + seconds
    sent, total = 0, len(made)
    while len(taken) < total and time.monotonic() < deadline:
        # no more under way than rings and queues hold
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


def set_policy(net, policy):
    for version in ("ipv4", "ipv6"):
        net.router.set_sysctl(f"net/{version}/fib_multipath_hash_fields", FIELDS)
        net.router.set_sysctl(f"net/{version}/fib_multipath_hash_policy", policy)
    if net.bora is not None and net.bora.alive():
        time.sleep(1.5)  # sysctls are read once a second
        net.bora.wait_in_sync()


def same(expected, now, made, what):
    moved = [packet for key, packet in made if expected[key] != now[key]]
    assert not moved, (f"{what}: {len(moved)} of {len(made)} packets took another path, for instance "
                       + "; ".join(packets.describe(b"\0" * 12 + (b"\x08\0" if p[0] >> 4 == 4 else b"\x86\xdd") + p)
                                   for p in moved[:4]))


def start(net, path):
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    blind = ["--bypass", "netfilter"] if release < (6, 2) else []  # older kernels do not show their hooks
    net.bora = Bora(net.router, ["r0", "r1", "r2"], path, blind)
    net.bora.start()
    net.bora.wait_in_sync()
    net.wait_until_forwarding()


@pytest.fixture
def ways(kernel_net):
    configure(kernel_net)
    return kernel_net


@pytest.mark.parametrize("policy", [0, 1, 2, 3])
def test_every_tier_takes_the_same_path(ways, policy, say):
    """Each packet's egress under kernel, express and engine is equal; kill -9 and a restart move none."""
    net, made = ways, flows(FLOWS // 2)
    set_policy(net, policy)
    expected = paths(net, made)
    share = [sum(1 for mac in expected.values() if mac == wanted) for wanted in set(expected.values())]
    assert len(share) == 3 and min(share) > len(made) // 50, f"{share}: the paths are not all in use"
    for tier in ("express", "engine"):
        start(net, tier)
        assert not net.bora.guard(), net.bora.guard()
        before = net.bora.totals()
        same(expected, paths(net, made), made, f"{tier}, policy {policy}")
        after = net.bora.totals()
        by_bora = after["sent"] - before["sent"]
        say(f"policy {policy}, {tier}: {by_bora} of {len(made)} packets by Bora itself")
        # the engine decides all of it; express leaves to Linux what it cannot hash
        assert by_bora >= (len(made) * 0.99 if tier == "engine" else 0 if policy == 3 else len(made) * 0.2)
        net.bora.kill()
        same(expected, paths(net, made), made, f"after kill -9 of {tier}, policy {policy}")
        net.bora.start()
        net.bora.wait_in_sync()
        same(expected, paths(net, made), made, f"{tier} started again, policy {policy}")
        net.bora.stop()
        net.bora = None


def test_a_new_seed_is_followed(ways):
    """net.ipv4.fib_multipath_hash_seed (Linux 6.11) may change at any time."""
    net, made = ways, flows(1000, "plain")
    try:
        net.router.get_sysctl("net/ipv4/fib_multipath_hash_seed")
    except FileNotFoundError:
        return  # the kernel has one seed for ever
    before = paths(net, made)
    start(net, "engine")
    same(before, paths(net, made), made, "random seed")
    net.router.set_sysctl("net/ipv4/fib_multipath_hash_seed", 12345)
    time.sleep(1.5)
    seeded = paths(net, made)
    assert seeded != before
    net.bora.kill()
    same(seeded, paths(net, made), made, "after kill -9 with a seed")


def test_use_neigh(ways):
    """With fib_multipath_use_neigh plain IPv4 routes keep off a next hop whose neighbour has failed."""
    net, made = ways, [flow for flow in flows(1000, "plain") if len(flow[0]) == 4]
    net.router.set_sysctl("net/ipv4/fib_multipath_use_neigh", 1)
    address, device, mac = gateways(net, 4)[1]
    dead = gateways(net, 4)[3][0]
    net.router.ip("route", "replace", NET4["plain"], "nexthop", "via", gateways(net, 4)[0][0],
                  "nexthop", "via", dead, "nexthop", "via", gateways(net, 4)[2][0])
    expected = paths(net, made)
    assert packets.mac(mac) not in expected.values()
    for tier in ("express", "engine"):
        start(net, tier)
        same(expected, paths(net, made), made, f"{tier}, use_neigh")
        net.bora.stop()
        net.bora = None


def answer(net, family):
    """Gives h1 and h2 an address each that answers ARP and neighbour discovery; returns both."""
    addresses = ["10.0.1.50", "10.0.2.50"] if family == 4 else ["2001:db8:1::50", "2001:db8:2::50"]
    for link, address in enumerate(addresses, 1):
        host = net.namespaces[1 + link]
        host.set_sysctl(f"net/ipv6/conf/h{link}/disable_ipv6", 0)
        host.ip("link", "set", f"h{link}", "arp", "on")
        host.ip("address", "add", f"{address}/{24 if family == 4 else 64}", "dev", f"h{link}",
                *(["nodad"] if family == 6 else []))
    return addresses


def wait_for_neighbour(net, address, wanted, seconds=20):
    deadline = time.monotonic() + seconds
    while not wanted(entry := net.router.ip("neighbour", "show", address).stdout):
        assert time.monotonic() < deadline, f"after {seconds} s: {entry or 'no entry'}"
        time.sleep(0.05)


@pytest.mark.parametrize("family", [4, 6])
def test_next_hops_are_resolved_before_the_first_packet(kernel_net, bora_path, family):
    """A new route's gateways are known without a packet, kept by Linux, and let go with the route."""
    net = kernel_net
    addresses = answer(net, family)
    start(net, bora_path)
    prefix = (NET4 if family == 4 else NET6)["plain"]
    hops = [word for address in addresses for word in ("nexthop", "via", address)]
    net.router.ip(f"-{family}", "route", "add", prefix, *hops)
    for address in addresses:
        wait_for_neighbour(net, address, lambda entry: "lladdr" in entry and "managed" in entry)
    net.bora.wait_in_sync()
    made = [flow for flow in flows(5000, "plain") if len(flow[0]) == (4 if family == 4 else 16)]
    made = [(key, packet) for key, packet in made if packet[9 if family == 4 else 6] in (6, 17)]
    before = net.bora.totals()
    now = paths(net, made)
    after = net.bora.totals()
    assert len(set(now.values())) == 2
    assert after["drops"] == before["drops"], "a flow to a known next hop was dropped"
    net.bora.kill()
    same(now, paths(net, made), made, f"after kill -9 of {bora_path}")
    assert all("PERMANENT" in net.router.ip("neighbour", "show", address).stdout
               for address in (net.host4(1), net.host6(1))), "permanent entries were touched"
    net.router.ip(f"-{family}", "route", "del", prefix)
    net.bora.start()  # what the killed one asked for is let go
    for address in addresses:
        wait_for_neighbour(net, address, lambda entry: "managed" not in entry)


def test_a_burst_keeps_its_order(kernel_net, bora_path):
    """30 000 packets of one flow to a route that has just come: all arrive, in order."""
    net = kernel_net
    addresses = answer(net, 4)
    start(net, bora_path)
    hops = [word for address in addresses for word in ("nexthop", "via", address)]
    net.router.ip("route", "add", NET4["plain"], *hops)
    dst = ipaddress.ip_address("203.0.113.7").packed
    body = struct.pack("!HHHH", 4000, 5000, 12, 0)
    made = [net.frame(ipv4(17, source4(1), dst, body + struct.pack("!I", n))) for n in range(30_000)]
    came, sent, deadline = [], 0, time.monotonic() + 60
    while len(came) < len(made) and time.monotonic() < deadline:
        for frame in made[sent:min(sent + 100, len(came) + 400)]:
            net.hosts[0].send(frame)
            sent += 1
        for port in wait_readable(net.hosts, 0.02):
            while (frame := port.receive_now()) is not None:
                if key_of(frame) == source4(1):
                    came.append(frame[42:46])
    assert len(came) == len(made), f"{len(made) - len(came)} packets did not come: {net.bora.totals()}"
    assert came == sorted(came), "packets overtook others"
