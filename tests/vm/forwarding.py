"""Tests what a cell forwards, and what Linux answers to packets that cannot be forwarded."""

import struct
import time

from scapy.layers.inet import ICMP, IP, UDP, IPOption
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrHopByHop, PadN
from scapy.packet import Raw

from lib import packets
from lib.packets import icmp4_error, icmp6_error, payload, udp4, udp6
from lib.traffic import flow_frame, load

SIZES4 = (0, 18, 100, 777, 1472)  # octets of UDP data; the last makes a packet of 1500
SIZES6 = (0, 18, 100, 777, 1452)
NOWHERE4, NOWHERE6 = "203.0.113.9", "2001:db8:dead::9"
TO_LINUX = 0.02  # largest share of plain transit packets that may go to Linux
FLOWS, RATE = 64, 200
SMALLER_MTU = 1300


def transit(net):
    """Both families in both directions, from the smallest packet to the largest; each must arrive as expected."""
    for link in (0, 1):
        to = 1 - link
        sent = [udp4(net.behind4(link), net.behind4(to), size=size) for size in SIZES4]
        sent += [udp6(net.behind6(link), net.behind6(to), size=size) for size in SIZES6]
        frames = [net.frame(packet, link) for packet in sent]
        net.exchange(frames, {to: [net.forwarded(packet, to) for packet in sent]}, link=link, timeout=5)
    return 2 * (len(SIZES4) + len(SIZES6))


def counted(net):
    """Bora's counters: totals, and packets to Linux by reason."""
    return net.bora.totals(), net.bora.show("drops")["punts"]


def reasons(before, after):
    """Packets to Linux by reason, between two results of `counted`."""
    return {name: count - before[1].get(name, 0) for name, count in after[1].items()
            if count != before[1].get(name, 0)}


def wait_until_seen(net, seconds=10):
    """Sends until Bora sees packets: a driver may lose the program when its device is reopened; Bora notices by traffic."""
    deadline = time.monotonic() + seconds
    while True:
        before = counted(net)[0]["received"]
        count = transit(net)
        if counted(net)[0]["received"] - before >= count:
            return
        assert time.monotonic() < deadline, f"after {seconds} s packets still bypass Bora"
        time.sleep(0.5)


def transit_afterwards(net):
    """As `transit_on_tier`, after MTU and state of a port have changed."""
    wait_until_seen(net)
    return transit_on_tier(net)


def transit_on_tier(net):
    """As `transit`, a few times; Bora and not Linux must forward. Returns the packets that went to Linux."""
    before = counted(net)
    try:
        count = sum(transit(net) for _ in range(3))
    except AssertionError as error:
        raise AssertionError(f"went to Linux: {reasons(before, counted(net))}; {error}")
    net.bora.check_conservation(10)
    after = counted(net)
    received, passed = (after[0][key] - before[0][key] for key in ("received", "passed"))
    why = reasons(before, after)
    assert received >= count, f"Bora has seen {received} of {count} packets; the others bypassed it"
    assert passed <= TO_LINUX * count, f"{passed} of {count} plain transit packets went to Linux: " \
                                       f"{why}, guard: {net.bora.guard()}"
    return {"packets": count, "to_linux": passed, "reasons": why}


def spread(net, queues):
    """Many flows arrive in order and without loss; with several queues each worker gets some."""
    before = [worker["rx_packets"] for worker in net.bora.show("workers")]
    frames = [flow_frame(net, number, 6 if number % 2 else 4) for number in range(FLOWS)]
    with load(net, frames, RATE) as traffic:
        time.sleep(2)
        report = traffic.finish(drain=3)
    assert report.sent >= FLOWS, "the test sent too little to prove anything"
    assert (report.lost, report.reordered, report.duplicated) == (0, 0, 0), str(report)
    workers = [worker["rx_packets"] - old for worker, old in zip(net.bora.show("workers"), before)]
    if queues > 1 and len(workers) > 1:
        assert all(workers), f"{queues} queues, {FLOWS} flows, but the workers received {workers}"
    return {"workers": workers, "queues": queues}


# The exceptions: each is sent from host 0, and the whole answer is compared.


def ttl_used_up(net):
    packet = udp4(net.behind4(0), net.behind4(1), ttl=1)
    net.exchange(net.frame(packet), {0: [icmp4_error(11, 0, net.router4(0), packet)]}, timeout=5)


def hop_limit_used_up(net):
    packet = udp6(net.behind6(0), net.behind6(1), hlim=1)
    net.exchange(net.frame(packet), {0: [icmp6_error(3, 0, net.router6(0), packet)]}, timeout=5)


def no_route(net):
    packet = udp4(net.behind4(0), NOWHERE4)
    net.exchange(net.frame(packet), {0: [icmp4_error(3, 0, net.router4(0), packet)]}, timeout=5)


def no_route_v6(net):
    packet = udp6(net.behind6(0), NOWHERE6)
    net.exchange(net.frame(packet), {0: [icmp6_error(1, 0, net.router6(0), packet)]}, timeout=5)


def _until_error(net, packet, expected, asked):
    """Sends a packet for a silent neighbour: the router asks host 1 for it, then host 0 gets the error."""
    for port in net.hosts:
        port.drain()
    net.hosts[0].send(net.frame(packet))
    got, deadline = [], time.monotonic() + 10
    while not any(host == 0 for host, _ in got):
        assert time.monotonic() < deadline, f"no error after 10 s, only {[packets.describe(f) for _, f in got]}"
        got += net.collect(1, 0.5)
    assert any(host == 1 and asked(frame) for host, frame in got), "the router did not ask for the neighbour"
    frame = next(frame for host, frame in got if host == 0)
    assert packets.same(net.out(expected(frame[14:]), 0), frame), \
        packets.difference(net.out(expected(frame[14:]), 0), frame)


def no_neighbour(net):
    """Nobody answers ARP: Unreachable, code 1."""
    packet = udp4(net.behind4(0), "10.0.1.77")
    net.later(lambda: net.router.ip("neighbour", "del", "10.0.1.77", "dev", "r1", check=False))
    error = icmp4_error(3, 1, net.router4(0), packets.hop(packet))
    _until_error(net, packet, error, lambda frame: frame[12:14] == b"\x08\x06")


def no_neighbour_v6(net):
    """Nobody answers Neighbour Discovery: Unreachable, code 3."""
    packet = udp6(net.behind6(0), "2001:db8:1::77")
    net.later(lambda: net.router.ip("neighbour", "del", "2001:db8:1::77", "dev", "r1", check=False))
    error = icmp6_error(1, 3, net.router6(0), packets.hop(packet))
    _until_error(net, packet, error, lambda frame: frame[12:14] == b"\x86\xdd" and frame[54] == 135)


def options(net):
    """Unknown options are forwarded unchanged (RFC 1812 4.2.2.1), and so are hop-by-hop headers."""
    with_nops = bytes(IP(src=net.behind4(0), dst=net.behind4(1), options=[IPOption(b"\x01" * 4)])
                      / UDP() / Raw(payload()))
    hop_by_hop = bytes(IPv6(src=net.behind6(0), dst=net.behind6(1)) / IPv6ExtHdrHopByHop(
        options=[PadN(optdata=b"\0" * 4)]) / UDP() / Raw(payload()))
    for packet in (with_nops, hop_by_hop):
        net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]}, timeout=5)


def padding(net):
    """What the sender padded with is not forwarded: a short frame has zeros behind the packet, if anything (RFC 894)."""
    for packet in (udp4(net.behind4(0), net.behind4(1), size=1), udp4(net.behind4(0), net.behind4(1), size=100)):
        frame = net.frame(packet)
        net.exchange(frame + b"\xee" * max(8, 60 - len(frame)), {1: [net.forwarded(packet, 1)]}, timeout=5)


def local_addresses(net):
    """The router answers echo requests to its addresses, including the one of its other interface."""
    for link in (0, 1):
        source, data = net.behind4(0), payload(40)
        request = bytes(IP(src=source, dst=net.router4(link)) / ICMP(id=7, seq=link) / Raw(data))
        reply = bytes(ICMP(type=0, id=7, seq=link) / Raw(data))
        net.exchange(net.frame(request), {0: [_reply4(net.router4(link), source, reply)]}, timeout=5)
        source, data = net.behind6(0), payload(40)
        request = bytes(IPv6(src=source, dst=net.router6(link)) / ICMPv6EchoRequest(id=7, seq=link, data=data))
        net.exchange(net.frame(request), {0: [_reply6(request)]}, timeout=5)


def _reply4(src, dst, body):
    def expected(got):
        return bytes(IP(src=src, dst=dst, ttl=64, proto=1, id=int.from_bytes(got[4:6], "big")) / Raw(body))

    expected.text = f"echo reply from {src}"
    return expected


def _reply6(request):
    """The reply to the request: addresses swapped, type changed, and the checksum changed by 256 because of the type."""
    total = int.from_bytes(request[42:44], "big") + 0xFFFF - 0x0100
    total = (total & 0xFFFF) + (total >> 16)
    reply = request[:8] + request[24:40] + request[8:24] + b"\x81\0" + struct.pack("!H", total) + request[44:]

    def expected(_got):
        return reply

    expected.text = "ICMPv6 echo reply"
    return expected


EXCEPTIONS = {
    "TTL 1": ttl_used_up, "hop limit 1": hop_limit_used_up,
    "no route": no_route, "no route IPv6": no_route_v6,
    "no neighbour": no_neighbour, "no neighbour IPv6": no_neighbour_v6,
    "options": options, "padding": padding, "router's addresses": local_addresses,
}


# Changes while it runs.


def mtu_change(net):
    """A smaller MTU of the output takes effect at once: larger packets get an error. Then the old MTU is restored."""
    net.router.ip("link", "set", "r1", "mtu", str(SMALLER_MTU))
    try:
        net.wait_for_links()
        net.settle()
        net.wait_until_forwarding()
        rest = struct.pack("!HH", 0, SMALLER_MTU)
        big = udp4(net.behind4(0), net.behind4(1), size=SMALLER_MTU - 27, flags="DF")
        fits = udp4(net.behind4(0), net.behind4(1), size=SMALLER_MTU - 28, flags="DF")
        net.exchange([net.frame(big), net.frame(fits)], {
            0: [icmp4_error(3, 4, net.router4(0), big, rest)], 1: [net.forwarded(fits, 1)]}, timeout=5)
        big = udp6(net.behind6(0), net.behind6(1), size=SMALLER_MTU - 47)
        fits = udp6(net.behind6(0), net.behind6(1), size=SMALLER_MTU - 48)
        net.exchange([net.frame(big), net.frame(fits)], {
            0: [icmp6_error(2, 0, net.router6(0), big, struct.pack("!I", SMALLER_MTU))],
            1: [net.forwarded(fits, 1)]}, timeout=5)
    finally:
        net.router.ip("link", "set", "r1", "mtu", "1500")
        net.wait_for_links()
    net.settle()
    net.wait_until_forwarding()
    transit(net)


def down_and_up(net):
    """While the output is down, Linux answers that there is no route; when it is up again with its routes, Bora forwards."""
    net.router.ip("link", "set", "r1", "down")
    try:
        net.settle()
        packet = udp4(net.behind4(0), net.behind4(1))
        net.exchange(net.frame(packet), {0: [icmp4_error(3, 0, net.router4(0), packet)]}, timeout=5)
    finally:
        net.configure_link(1)
        net.wait_for_links()
    net.settle()
    net.wait_until_forwarding()
    transit(net)
