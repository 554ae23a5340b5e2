"""IPv4 header: malformed packets are dropped and counted; of good ones only TTL and checksum change."""

import struct

import pytest
from scapy.layers.inet import ICMP, IP, UDP, IPOption
from scapy.packet import Raw

from lib import packets
from lib.packets import fill_header_checksum, payload, udp4


def discarded(net):
    """The sum of all that the kernel, Bora and the cards count as malformed or dropped."""
    snmp = net.router.snmp()
    total = snmp["IpInHdrErrors"] + snmp["IpExtInTruncatedPkts"] + snmp["IpInDiscards"]
    return total + (net.bora.totals()["dropped"] if net.bora else 0) + net.over.discarded(net)


def check_malformed(net, packet):
    before = discarded(net)
    net.exchange([net.frame(packet, kind=0x0800)] * 3)
    assert discarded(net) - before >= 3, "dropped, but counted nowhere"


def good(net, **header):
    return udp4(net.behind4(0), net.behind4(1), **header)


@pytest.mark.parametrize("wrong", [1, 0x0100, 0x8000])
def test_01_bad_header_checksum(net, wrong):
    """RFC 1812 5.2.2 (2): a header whose checksum is wrong is silently discarded."""
    packet = good(net)
    value = int.from_bytes(packet[10:12], "big") ^ wrong
    check_malformed(net, packet[:10] + struct.pack("!H", value) + packet[12:])


@pytest.mark.parametrize("version", [0, 3, 5, 6, 15])
def test_02_version_not_four(net, version):
    """RFC 1812 5.2.2 (3): the version must be 4."""
    packet = good(net)
    check_malformed(net, fill_header_checksum(bytes([version << 4 | 5]) + packet[1:]))


@pytest.mark.parametrize("words", [0, 1, 4])
def test_03_header_length_below_five(net, words):
    """RFC 1812 5.2.2 (4): the header length must be at least 5 words."""
    packet = good(net)
    header = bytes([0x40 | words]) + packet[1:10] + b"\0\0" + packet[12:]
    # The checksum is right over the full 20 bytes, so that only the length can be the reason.
    check_malformed(net, header[:10] + struct.pack("!H", packets.checksum(header[:20])) + header[12:])


@pytest.mark.parametrize("length", [0, 19])
def test_04_total_length_below_header(net, length):
    """RFC 1812 5.2.2 (5): the total length must hold the header."""
    packet = good(net)
    check_malformed(net, fill_header_checksum(packet[:2] + struct.pack("!H", length) + packet[4:]))


@pytest.mark.parametrize("more", [1, 1000])
def test_05_total_length_beyond_frame(net, more):
    """RFC 1812 5.2.2: a packet that the frame does not hold is truncated, hence discarded."""
    packet = good(net)
    check_malformed(net, fill_header_checksum(packet[:2] + struct.pack("!H", len(packet) + more) + packet[4:]))


@pytest.mark.parametrize("size", [0, 1, 17])
def test_06_ethernet_padding_trimmed(net, size):
    """RFC 894, RFC 1812 5.2.2: what follows the total length is padding and is not forwarded.

    veth does not pad to 60 bytes on sending; zero padding by another driver is accepted."""
    packet = good(net, size=size)
    frame = net.frame(packet)
    net.exchange(frame + b"\xee" * (60 - len(frame)), {1: [net.forwarded(packet, 1)]})


def test_06_long_padding_trimmed(net):
    """A trailer longer than the minimum frame needs is trimmed too."""
    packet = good(net, size=100)
    net.exchange(net.frame(packet) + b"\xee" * 64, {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("ttl", [2, 3, 64, 128, 255])
def test_07_ttl_two_becomes_one(net, ttl):
    """RFC 1812 5.3.1: the TTL is lessened by one, the checksum stays valid, nothing else changes."""
    packet = good(net, ttl=ttl)
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("value", [0x0000, 0x0001, 0x00FF, 0x0100, 0xFEFE, 0xFEFF, 0xFF00, 0xFF01, 0xFFFE])
def test_08_incremental_checksum_corners(net, value):
    """RFC 1624: an incremental update must agree with a full computation at the ends of the range."""
    packet = good(net, id=0)
    # The ID is one word of the sum: choose it so that the checksum comes out as wanted.
    now = int.from_bytes(packet[10:12], "big")
    identification = now - value if now >= value else now - value + 0xFFFF
    packet = fill_header_checksum(packet[:4] + struct.pack("!H", identification) + packet[6:])
    assert int.from_bytes(packet[10:12], "big") == value
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


def test_08_minus_zero_is_zero(net):
    """RFC 1624 section 3: a checksum field of 0xffff means 0x0000 and is as valid."""
    packet = good(net, id=0)
    now = int.from_bytes(packet[10:12], "big")
    packet = packet[:4] + struct.pack("!H", now) + packet[6:10] + b"\xff\xff" + packet[12:]
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


def test_10_ttl_one_to_the_router_is_accepted(net):
    """RFC 1812 4.2.2.9: a router must not discard a packet for itself because its TTL is 1."""
    source = net.behind4(0)
    data = payload(56)
    request = bytes(IP(src=source, dst=net.router4(1), ttl=1) / ICMP(type=8, id=7, seq=1) / Raw(data))
    net.exchange(net.frame(request), {0: [echo_reply(net.router4(1), source, 7, 1, data)]})


def echo_reply(src, dst, identifier, sequence, data, tos=0):
    """Expectation: an echo reply, whole but for its own IP ID."""

    def expected(got):
        number = int.from_bytes(got[4:6], "big")
        reply = IP(src=src, dst=dst, ttl=64, id=number, tos=tos) / ICMP(type=0, id=identifier, seq=sequence)
        return bytes(reply / Raw(data))

    expected.text = f"echo reply from {src}"
    return expected


def test_11_longest_match_nested(net):
    """RFC 1812 5.2.4.3: among nested prefixes /0 to /32 the longest that matches decides."""
    base = int.from_bytes(bytes([20, 90, 165, 60]), "big")
    commands, undo = [], []
    for length in range(33):
        prefix = base >> (32 - length) << (32 - length)
        text = f"{dotted(prefix)}/{length}"
        commands.append(f"route add {text} via {net.host4(1 + length % 2)}")
        undo.append(f"route del {text}")
    net.router.batch(commands)
    net.later(lambda: net.router.batch(undo))
    net.settle()
    frames, expect = [], {1: [], 2: []}
    for length in range(33):
        address = base if length == 32 else base ^ 1 << (31 - length)
        packet = udp4(net.behind4(0), dotted(address))
        link = 1 + length % 2
        frames.append(net.frame(packet))
        expect[link].append(net.forwarded(packet, link))
    net.exchange(frames, expect)


def dotted(number):
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))


def test_12_prefix_31_has_no_broadcast(net):
    """RFC 3021: both addresses of a /31 are hosts."""
    net.ip("address add 192.0.2.0/31 dev r1", "address del 192.0.2.0/31 dev r1")
    net.ip(f"neighbour replace 192.0.2.1 lladdr {net.host_mac(1)} dev r1", "neighbour del 192.0.2.1 dev r1")
    net.settle()
    packet = udp4(net.behind4(0), "192.0.2.1")
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})
    source = net.behind4(0)
    request = bytes(IP(src=source, dst="192.0.2.0") / ICMP(type=8, id=3, seq=4) / Raw(b"thirty-one"))
    net.exchange(net.frame(request), {0: [echo_reply("192.0.2.0", source, 3, 4, b"thirty-one")]})


@pytest.mark.parametrize("identification", [0, 1, 0x1234, 0xFFFF])
@pytest.mark.parametrize("flags", ["DF", 0])
def test_19_id_unchanged(net, identification, flags):
    """RFC 6864 4: the ID is not touched; atomic datagrams with equal IDs all pass."""
    source, target = net.behind4(0), net.behind4(1)
    sent = [udp4(source, target, id=identification, flags=flags) for _ in range(4)]
    net.exchange([net.frame(packet) for packet in sent], {1: [net.forwarded(packet, 1) for packet in sent]})


@pytest.mark.parametrize("option", [b"\x19\x04ab", b"\x99\x04ab", b"\x01\x01\x01\x01", b"\x5e\x08bora!!"])
def test_20_unknown_option_unchanged(net, option):
    """RFC 1812 4.2.2.1: options that are not understood (and NOPs) are passed on as they are."""
    packet = bytes(IP(src=net.behind4(0), dst=net.behind4(1), options=[IPOption(option)]) / UDP() / Raw(payload()))
    assert packet[20:20 + len(option)] == option
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("kind", [0x83, 0x89], ids=["loose", "strict"])
def test_21_source_route_dropped(net, kind):
    """RFC 7126 4.3, 4.4: source-routed packets are dropped by default. Linux drops them silently."""
    route = bytes([kind, 7, 4]) + bytes([10, 0, 1, 2])
    packet = bytes(
        IP(src=net.behind4(0), dst=net.router4(0), options=[IPOption(route + b"\0")]) / UDP() / Raw(payload())
    )
    transit = bytes(
        IP(src=net.behind4(0), dst=net.behind4(1), options=[IPOption(route + b"\0")]) / UDP() / Raw(payload())
    )
    net.exchange([net.frame(packet), net.frame(transit)])


@pytest.mark.parametrize("tos", [0x00, 0x01, 0x02, 0x03, 0x10, 0x28, 0xB8, 0xBB, 0xE0, 0xFF])
def test_37_38_dscp_and_ecn_unchanged(net, tos):
    """RFC 2474, RFC 3168: DSCP and ECN go through as they came (on fragments: test_16)."""
    packet = good(net, tos=tos)
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("size", [0, 1, 56, 1472])
@pytest.mark.parametrize("link", [0, 1, 2])
def test_39_echo_answered_intact(net, size, link):
    """RFC 1812 4.3.3.6: echo to any address of the router is answered, with the data intact."""
    source, data = net.behind4(0), payload(size)
    request = bytes(IP(src=source, dst=net.router4(link)) / ICMP(type=8, id=99, seq=size) / Raw(data))
    net.exchange(net.frame(request), {0: [echo_reply(net.router4(link), source, 99, size, data)]})


@pytest.mark.parametrize("size", [0, 1, 18, 100, 1472])
@pytest.mark.parametrize("protocol", ["udp", "tcp", "other"])
def test_plain_transit_is_whole(net, size, protocol):
    """Packets of every size and protocol: only TTL, checksum and MACs change."""
    number = {"udp": 17, "tcp": 6, "other": 253}[protocol]
    body = payload(size + 8 if protocol != "tcp" else size + 20 if size < 1400 else 1480)
    packet = bytes(IP(src=net.behind4(0), dst=net.behind4(1), proto=number) / Raw(body))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})
