"""Linux's neighbour timers go on for what Bora sends, as they do for what Linux sends itself."""

import time

import pytest

from lib import packets, waiting
from lib.traffic import flow_frame, load

HOSTS = 40  # for each IP version, beside a gateway
WRONG = "02:bc:00:00:00:77"
NET = {4: "203.0.113.0/24", 6: "2001:db8:dead::/48"}
BEHIND = {4: "203.0.113.7", 6: "2001:db8:dead::7"}  # the gateway


def address(family, number):
    return f"10.0.1.{100 + number}" if family == 4 else f"2001:db8:1::{100 + number}"


@pytest.fixture
def answering(net):
    """Hosts on link 1 that answer ARP and neighbour discovery, the first of them a gateway; Linux's timers are short."""
    for family in ("ipv4", "ipv6"):
        for key, value in (("base_reachable_time_ms", 500), ("delay_first_probe_time", 1), ("retrans_time_ms", 100)):
            net.router.set_sysctl(f"net/{family}/neigh/r1/{key}", value)
    host = net.namespaces[2]
    host.set_sysctl("net/ipv6/conf/h1/disable_ipv6", 0)
    host.ip("link", "set", "h1", "arp", "on")
    host.batch([f"address add {address(family, n)}/{24 if family == 4 else 64} dev h1" + " nodad" * (family == 6)
                for family in (4, 6) for n in range(HOSTS + 1)])
    for family, prefix in NET.items():
        net.router.ip(f"-{family}", "route", "add", prefix, "via", address(family, 0))
    waiting.until("the hosts answer", lambda: not missing(net), seconds=15)
    return net


def packet_to(net, family, target):
    make = packets.udp4 if family == 4 else packets.udp6
    return make(net.behind4(0) if family == 4 else net.behind6(0), target)


def missing(net):
    """Sends a packet to each host and one by each gateway; the packets that did not come."""
    targets = [(family, address(family, n)) for family in (4, 6) for n in range(1, HOSTS + 1)]
    made = [packet_to(net, *target) for target in targets + list(BEHIND.items())]
    for port in net.hosts:
        port.drain()
    for packet in made:
        net.hosts[0].send(net.frame(packet))
    wanted = {net.forwarded(packet, 1) for packet in made}
    deadline = time.monotonic() + 0.5
    while wanted and time.monotonic() < deadline:
        wanted -= {frame for _, frame in net.collect(len(wanted), 0.1)}
    return wanted


def test_wrong_addresses_are_found(answering):
    """Hosts and gateways whose entries have wrong addresses and are stale are asked, and found again. Hosts that
    nothing is sent to are not asked."""
    net = answering
    idle = [address(family, HOSTS + 9) for family in (4, 6)]
    net.router.batch([f"neighbour replace {address(family, n)} lladdr {WRONG} dev r1 nud stale"
                      for family in (4, 6) for n in range(HOSTS + 1)])
    net.router.batch([f"neighbour replace {one} lladdr {WRONG} dev r1 nud stale" for one in idle])
    assert missing(net)
    waiting.until("all are found", lambda: not missing(net), lambda: f"{len(missing(net))} packets do not come", seconds=12)
    for one in idle:
        assert "STALE" in net.router.ip("neighbour", "show", one).stdout
    if net.bora:
        before = net.bora.totals()["sent"]
        assert not missing(net)
        assert net.bora.totals()["sent"] - before >= 2 * HOSTS, net.bora.totals()


def test_flush_under_load(answering, say):
    """Neighbours in use are flushed again and again, and no packet is lost or overtaken."""
    net = answering
    targets = [(family, address(family, n)) for family in (4, 6) for n in (1, 2, 3)] + list(BEHIND.items())
    flows = [flow_frame(net, number, family, target=target) for number, (family, target) in enumerate(targets)]
    with load(net, flows, 4000) as traffic:
        for _ in range(10):
            time.sleep(0.2)
            net.router.ip("-4", "neighbour", "flush", "dev", "r1", check=False)  # what is in use comes back at once
            net.router.ip("-6", "neighbour", "flush", "dev", "r1", check=False)
        report = traffic.finish()
    say(f"{net.backend}: {report}")
    assert report.sent > 4000
    assert report.lost <= report.sent * 0.001 and report.reordered == 0, net.bora and net.bora.totals()


def test_port_without_arp(net):
    """Without ARP (`ip link set arp off`) Linux sends to the port's own address, and asks nobody."""
    net.router.ip("link", "set", "r1", "arp", "off")
    if net.bora:
        net.bora.wait_in_sync()
    made = [packet_to(net, family, address(family, n % 100)) for family in (4, 6) for n in range(1500)]
    wanted = {packets.ethernet(net.router_mac(1), net.router_mac(1), packets.hop(packet)) for packet in made}
    assert len(wanted) == len(made)
    for port in net.hosts:
        port.drain()
    for packet in made:
        net.hosts[0].send(net.frame(packet))
    got = {frame for host, frame in net.collect(len(made), 3) if host == 1}
    assert got == wanted, f"{len(wanted - got)} of {len(wanted)} did not come: {net.bora and net.bora.totals()}"
