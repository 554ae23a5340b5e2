"""Jumbo frames: packets that need several buffers of a driver. What Linux alone does is done once, and then expected."""

import pytest

from lib import bora, packets
from lib.bora import Bora
from lib.watching import traced

pytestmark = pytest.mark.bora

MTU = 9000  # the links 0 and 1 have it; link 2 has 1280
ONE_BUFFER = 3438  # MTU of a port without several buffers
HEADERS = {4: 28, 6: 48}


@pytest.fixture
def net(kernel_net):
    """Two links with a long MTU."""
    net = kernel_net
    for link in (0, 1):
        net.namespaces[1 + link].ip("link", "set", f"h{link}", "mtu", str(MTU))
        net.router.ip("link", "set", f"r{link}", "mtu", str(MTU))
    net.settle()
    return net


def datagram(net, family, length, to=1, **header):
    """A datagram of this many octets, with its IP header."""
    make, behind = (packets.udp4, net.behind4) if family == 4 else (packets.udp6, net.behind6)
    return make(behind(0), behind(to), size=length - HEADERS[family], **header)


def frames(net):
    """What is sent, by name, and whether Bora forwards it."""
    for family in (4, 6):
        for length in (600, 1500, ONE_BUFFER, ONE_BUFFER + 1, 4096, 8000, MTU):
            yield f"IPv{family}, {length} octets", net.frame(datagram(net, family, length)), True
            last = {"ttl" if family == 4 else "hlim": 1}
            yield f"IPv{family}, {length} octets, TTL 1", net.frame(datagram(net, family, length, **last)), False
        yield f"IPv{family}, to a small MTU", net.frame(datagram(net, family, MTU, to=2)), False
        yield f"IPv{family}, padded", net.frame(datagram(net, family, 5000)) + bytes(1000), True
        whole = net.frame(datagram(net, family, 7000))
        yield f"IPv{family}, cut off", whole[:6000], False
        yield f"IPv{family}, cut off in the first buffer", whole[:2000], False
    yield "IPv4, to a small MTU, DF", net.frame(datagram(net, 4, MTU, to=2, flags="DF")), False
    good = datagram(net, 4, 8000)
    yield "bad checksum", net.frame(good[:10] + b"\xba\xad" + good[12:]), False


def sent(net, frame):
    """What comes of a frame at the hosts; IDs of ICMP errors are Linux's to choose."""
    for port in net.hosts:
        port.drain()
    net.hosts[0].send(frame)
    got = net.collect(quiet=0.15)
    return sorted((host, without_id(frame)) for host, frame in got)


def without_id(frame):
    """An ICMP error without its ID and the checksum that depends on it."""
    is_icmp = frame[12:14] == b"\x08\0" and frame[23] == 1
    return frame[:18] + b"--" + frame[20:24] + b"--" + frame[26:] if is_icmp else frame


def by_bora(net):
    return sum(port["tx_packets"] for port in net.bora.show("ports"))


def test_jumbo_frames(net, say):
    """All frames are as with Linux, and those that fit the output are Bora's."""
    cases = list(frames(net))
    alone = {name: sent(net, frame) for name, frame, _ in cases}
    assert all(alone[name] for name, _, forwarded in cases if forwarded), [name for name in alone if not alone[name]]
    net.bora = Bora(net.router, ["r0", "r1", "r2"], "express")
    net.bora.start()
    net.bora.wait_in_sync()
    for name, frame, forwarded in cases:
        before = by_bora(net)
        assert sent(net, frame) == alone[name], name
        assert by_bora(net) - before == forwarded, f"{name}: {net.bora.totals()}"
    [port] = [port for port in net.bora.show("ports") if port["name"] == "r0"]
    assert port["rx_bytes"] >= sum(len(frame) for _, frame, _ in cases)
    long = datagram(net, 4, MTU, dport=1001)
    one = traced(net, [net.frame(long)], "udp dst port 1001", count=1)[1001]
    assert (one["outcome"], one["length"]) == ("sent", MTU + 14) and one["before"] == net.frame(long).hex()[:256], one
    net.bora.check_conservation()


def test_check(net):
    """`bora check` takes such an interface."""
    done = net.router.exec(bora.binary(), "check", "r0", check=False)
    assert "MTU" not in done.stdout + done.stderr, done
