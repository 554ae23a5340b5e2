"""The link layer: ARP, and 802.1Q tags on a port that has no VLAN."""

import itertools
import platform
import struct
import time
from pathlib import Path

import pytest
from scapy.layers.l2 import ARP, Ether

from lib import packets, port
from lib.netns import run
from lib.packets import udp4

BROADCAST = "ff:ff:ff:ff:ff:ff"
NEW_HOSTS = (f"10.0.1.{number}" for number in itertools.count(100))


def arp(net, link, **fields):
    fields.setdefault("hwsrc", net.host_mac(link))
    return bytes(Ether(src=net.host_mac(link), dst=fields.pop("to", BROADCAST)) / ARP(**fields))


@pytest.fixture
def new_host(net):
    """A host without a neighbour entry, and not one of before: to one whose entry was deleted Bora sends on, until Linux has asked."""
    address = next(NEW_HOSTS)
    yield address
    net.router.ip("neighbour", "del", address, "dev", "r1", check=False)


def is_request(frame):
    return frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\x01"


def resolve(net, frames, answer):
    """Sends frames for a host without a neighbour entry, answers the first ARP request with `answer`,
    and returns (requests seen, the IP frames that h1 got)."""
    for port in net.hosts:
        port.drain()
    for frame in frames:
        net.hosts[0].send(frame)
    requests = [frame for host, frame in net.collect(1) if host == 1 and is_request(frame)]
    assert requests, "no ARP request"
    net.hosts[1].send(answer)
    rest = [frame for host, frame in net.collect(1) if host == 1]
    return requests + [frame for frame in rest if is_request(frame)], [f for f in rest if not is_request(f)]


def reply(net, mac, host):
    return arp(net, 1, op=2, hwsrc=mac, psrc=host, hwdst=net.router_mac(1), pdst=net.router4(1),
               to=net.router_mac(1))


@pytest.mark.parametrize("mac", ["03:bc:00:00:00:55", BROADCAST])
def test_40_arp_reply_with_group_mac(net, mac, new_host):
    """RFC 1812 3.3.2 forbids accepting a broadcast or multicast link-layer address; Linux accepts it."""
    packet = udp4(net.behind4(0), new_host)
    _, got = resolve(net, [net.frame(packet)], reply(net, mac, new_host))
    assert got == [packets.ethernet(mac, net.router_mac(1), packets.hop(packet))]


def test_41_arp_probe_answered(net):
    """RFC 5227 2.1.1: a probe (sender address 0) for the router's address is answered."""
    probe = arp(net, 0, op=1, psrc="0.0.0.0", hwdst="00:00:00:00:00:00", pdst=net.router4(0))
    answer = ARP(op=2, hwsrc=net.router_mac(0), psrc=net.router4(0), hwdst=net.host_mac(0), pdst="0.0.0.0")
    net.exchange(probe, {0: [bytes(Ether(src=net.router_mac(0), dst=net.host_mac(0)) / answer)]})


def test_41_arp_request_answered(net):
    """RFC 826: a request for the router's address is answered to the sender."""
    request = arp(net, 0, op=1, psrc="10.0.0.9", hwdst="00:00:00:00:00:00", pdst=net.router4(0))
    net.later(lambda: net.router.ip("neighbour", "del", "10.0.0.9", "dev", "r0", check=False))
    answer = ARP(op=2, hwsrc=net.router_mac(0), psrc=net.router4(0), hwdst=net.host_mac(0), pdst="10.0.0.9")
    net.exchange(request, {0: [bytes(Ether(src=net.router_mac(0), dst=net.host_mac(0)) / answer)]})


def test_41_arp_request_for_others_is_not_answered(net):
    """The router is no proxy: a request for a third address stays unanswered."""
    net.exchange(arp(net, 0, op=1, psrc="10.0.0.2", hwdst="00:00:00:00:00:00", pdst="10.0.0.200"))


def test_42_packet_kept_while_resolving(net, new_host):
    """RFC 1122 2.3.2.2: at least the last packet waits for the answer; 2.3.2.1: requests are limited.

    Linux keeps all of a few packets and asks once a second."""
    sent = [udp4(net.behind4(0), new_host) for _ in range(5)]
    requests, got = resolve(net, [net.frame(packet) for packet in sent], reply(net, net.host_mac(1), new_host))
    assert len(requests) == 1, f"{len(requests)} requests at once"
    assert got == [net.forwarded(packet, 1) for packet in sent]


def test_42_requests_are_limited(net, new_host):
    """RFC 1122 2.3.2.1: no flood of requests, however many packets come for a host that does not answer."""
    for port in net.hosts:
        port.drain()
    started = time.monotonic()
    for _ in range(50):
        net.hosts[0].send(net.frame(udp4(net.behind4(0), new_host)))
        time.sleep(0.01)
    requests = [frame for host, frame in net.collect() if host == 1 and is_request(frame)]
    most = 1 + int(time.monotonic() - started + 0.2)
    assert 1 <= len(requests) <= most, f"{len(requests)} requests, at most {most} allowed"


def tagged(frame, tag, kind=0x8100):
    return frame[:12] + struct.pack("!HH", kind, tag) + frame[12:]


@pytest.mark.parametrize("priority", [0, 5, 7])
def test_43_priority_tag_accepted(net, priority):
    """IEEE 802.1Q 6.9: a priority tag (VID 0) is no VLAN; the packet is forwarded, here without the tag."""
    packet = udp4(net.behind4(0), net.behind4(1))
    net.exchange(tagged(net.frame(packet), priority << 13), {1: [net.forwarded(packet, 1)]})


@pytest.mark.parametrize("vid", [1, 100, 4095])
@pytest.mark.parametrize("kind", [0x8100, 0x88A8])
def test_43_unknown_vlan_dropped(net, vid, kind):
    """IEEE 802.1Q: a VLAN that the port does not have is dropped."""
    net.exchange(tagged(net.frame(udp4(net.behind4(0), net.behind4(1))), vid, kind))


@pytest.fixture(scope="module")
def pushing(network, tmp_path_factory):
    """The network, where host 0 can send tags outside the frame, as a VLAN device on a veth does."""
    compiled = str(tmp_path_factory.mktemp("tag") / "push_tag.o")
    source = Path(port.__file__).parent / "push_tag.bpf.c"
    include = f"/usr/include/{platform.machine()}-linux-gnu"
    run("clang", "-target", "bpf", "-O2", "-g", "-I", include, "-c", str(source), "-o", compiled, timeout=120)
    host = network.namespaces[1]
    host.exec("tc", "qdisc", "add", "dev", "h0", "clsact")
    host.exec("tc", "filter", "add", "dev", "h0", "egress", "bpf", "da", "obj", compiled, "sec", "tc")
    yield network
    host.exec("tc", "qdisc", "del", "dev", "h0", "clsact")


def exchange_tagged(net, kind, tag, forwarded):
    """Ten packets whose tags are outside the frame: all are forwarded without the tag, or none."""
    for one in net.hosts:
        one.drain()
    wanted = []
    for make, address in [(udp4, net.behind4), (packets.udp6, net.behind6)] * 5:
        packet = make(address(0), address(1))
        net.hosts[0].send_tagged(net.frame(packet), kind, tag)
        wanted.append((1, net.forwarded(packet, 1)))
    assert net.probe(), f"{net.backend}: the good packet sent after the tagged ones did not arrive"
    got = net.extra + net.collect()
    assert got == (wanted if forwarded else []), f"{len(got)} of {len(wanted)} tagged packets were forwarded"


@pytest.mark.parametrize("vid", [1, 100, 4095])
@pytest.mark.parametrize("kind", [0x8100, 0x88A8])
def test_43_unknown_vlan_dropped_when_the_tag_is_not_in_the_frame(net, pushing, vid, kind):
    """The tag of a VLAN device at the other end of a veth is never in the frame, but the packet is still dropped."""
    exchange_tagged(net, kind, vid, forwarded=False)


@pytest.mark.parametrize("priority", [0, 5])
def test_43_priority_tag_accepted_when_it_is_not_in_the_frame(net, pushing, priority):
    """IEEE 802.1Q 6.9: a priority tag is no VLAN, so the packet is forwarded without the tag."""
    exchange_tagged(net, 0x8100, priority << 13, forwarded=True)


@pytest.mark.parametrize("kind", [0x0000, 0x05DC, 0x0801, 0x8847, 0x88CC, 0xFFFF])
def test_foreign_ethertype_not_forwarded(net, kind):
    """A frame of another type is not IP, whatever its bytes look like."""
    net.exchange(net.frame(udp4(net.behind4(0), net.behind4(1)), kind=kind))


@pytest.mark.parametrize("length", [14, 15, 33])
def test_short_frame_dropped(net, length):
    """A frame that ends within its headers is dropped."""
    net.exchange(net.frame(udp4(net.behind4(0), net.behind4(1)))[:length])
