"""Routes that change: Bora follows the kernel, other flows are not disturbed, flows keep their paths."""

import collections
import subprocess
import tempfile
import time

import pytest

from lib import packets
from lib.packets import udp4, udp6

WITHIN_SECONDS = 1.0
TARGET4, TARGET6 = "203.0.113.7", "2001:db8:dead::7"
MAKE = {4: udp4, 6: udp6}


def behind(net, family, link=0):
    return net.behind4(link) if family == 4 else net.behind6(link)


def gateway(net, family, link):
    return net.host4(link) if family == 4 else net.host6(link)


def add_target(net, family, how):
    net.route("203.0.113.0/24" if family == 4 else "2001:db8:dead::/48", how, family)


def path(net, family, **header):
    target = TARGET4 if family == 4 else TARGET6
    return net.path_of(MAKE[family](behind(net, family), target, **header), timeout=0.1)


def wait_for_path(net, family, wanted):
    """The path must be `wanted` within the bound and then stay so."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while (now := path(net, family)) != wanted:
        assert time.monotonic() < deadline, f"after {WITHIN_SECONDS} s traffic goes to {now}, not to {wanted}"
    for _ in range(3):
        assert path(net, family) == wanted


def restore(net, link):
    net.router.ip("link", "set", f"r{link}", "up")
    net.wait_for_links()
    net.configure_link(link)


@pytest.mark.parametrize("family", [4, 6])
def test_61_route_deleted(net, family):
    """A route deleted in the kernel is gone from the FIB within a second; the next best takes over."""
    add_target(net, family, f"via {gateway(net, family, 1)} metric 200")
    add_target(net, family, f"via {gateway(net, family, 2)} metric 100")
    net.settle()
    wait_for_path(net, family, 2)
    net.router.ip(f"-{family}", "route", "del", "203.0.113.0/24" if family == 4 else "2001:db8:dead::/48",
                  "via", gateway(net, family, 2))
    wait_for_path(net, family, 1)


@pytest.mark.parametrize("family", [4, 6])
def test_61_link_down(net, family):
    """Linux deletes the routes of a link that goes down, IPv4 ones without an event."""
    add_target(net, family, f"via {gateway(net, family, 1)} metric 200")
    add_target(net, family, f"via {gateway(net, family, 2)} metric 100")
    net.settle()
    wait_for_path(net, family, 2)
    net.later(lambda: restore(net, 2))
    net.router.ip("link", "set", "r2", "down")
    wait_for_path(net, family, 1)


@pytest.mark.parametrize("family", [4, 6])
def test_61_last_address_gone(net, family):
    """With the last address of an interface Linux deletes its IPv4 routes, without an event; IPv6 ones
    lose only the connected prefix, so a gateway route stays as the kernel keeps it."""
    prefix = "203.0.113.0/24" if family == 4 else "2001:db8:dead::/48"
    add_target(net, family, f"via {gateway(net, family, 1)} metric 200")
    add_target(net, family, f"via {gateway(net, family, 2)} metric 100")
    net.settle()
    wait_for_path(net, family, 2)
    net.later(lambda: restore(net, 2))
    address = f"{net.router4(2)}/24" if family == 4 else f"{net.router6(2)}/64"
    net.router.ip("address", "del", address, "dev", "r2")
    left = net.router.ip(f"-{family}", "route", "show", prefix).stdout
    wait_for_path(net, family, 2 if "r2" in left else 1)
    if family == 4:
        assert "r2" not in left, "this kernel no longer deletes the routes: the test proves nothing"


@pytest.mark.parametrize("family", [4, 6])
def test_61_carrier_lost(net, family):
    """With ignore_routes_with_linkdown a route over a link without carrier does not count."""
    add_target(net, family, f"via {gateway(net, family, 1)} metric 200")
    add_target(net, family, f"via {gateway(net, family, 2)} metric 100")
    for scope in ("all", "r2"):
        net.sysctl(f"ipv{family}/conf/{scope}/ignore_routes_with_linkdown", 1)
    net.settle()
    wait_for_path(net, family, 2)
    far = net.namespaces[3]
    net.later(lambda: restore(net, 2))
    net.later(lambda: far.ip("link", "set", "h2", "up"))
    far.ip("link", "set", "h2", "down")
    wait_for_path(net, family, 1)


@pytest.mark.parametrize("family", [4, 6])
def test_61_route_added_and_replaced(net, family):
    """New routes and replaced ones count within a second, too."""
    prefix = "203.0.113.0/24" if family == 4 else "2001:db8:dead::/48"
    wait_for_path(net, family, None)
    add_target(net, family, f"via {gateway(net, family, 1)}")
    wait_for_path(net, family, 1)
    net.router.ip(f"-{family}", "route", "replace", prefix, "via", gateway(net, family, 2))
    wait_for_path(net, family, 2)


@pytest.mark.parametrize("family", [4, 6])
def test_61_neighbour_changed(net, family):
    """A neighbour's new MAC is used within a second."""
    address, other = gateway(net, family, 1), "02:bc:00:00:00:98"
    net.later(lambda: net.configure_link(1))
    net.router.ip("neighbour", "replace", address, "lladdr", other, "dev", "r1")
    deadline = time.monotonic() + WITHIN_SECONDS
    while True:
        packet = MAKE[family](behind(net, family), behind(net, family, 1))
        for port in net.hosts:
            port.drain()
        net.hosts[0].send(net.frame(packet))
        got = net.collect(1, 0.1)
        if got == [(1, packets.ethernet(other, net.router_mac(1), packets.hop(packet)))]:
            return
        assert time.monotonic() < deadline, "still the old MAC"


def test_62_unrelated_changes_do_no_harm(net):
    """No packet is lost, reordered or misrouted while `ip` adds and deletes other routes as fast as it can.

    100 k changes a second for ten seconds: integration/test_churn.py."""
    with tempfile.NamedTemporaryFile("w", suffix=".batch") as batch:
        for verb in ("add", "del") * 3:
            for number in range(10_000):
                batch.write(f"route {verb} 20.{number >> 8}.{number & 255}.0/24 via {net.host4(2)}{net.over.words}\n")
        batch.flush()
        for port in net.hosts:
            port.drain()
        churn = net.router.popen("ip", "-batch", batch.name, stderr=subprocess.PIPE)
        frames, expected, got = [], [], []
        while churn.poll() is None and len(frames) < 200_000:
            packet = udp4(net.behind4(0), net.behind4(1)) if len(frames) % 2 else udp6(net.behind6(0), net.behind6(1))
            frames.append(net.frame(packet))
            expected.append((1, net.forwarded(packet, 1)))
            net.hosts[0].send(frames[-1])
        assert churn.wait(30) == 0, churn.stderr.read()
        churn.stderr.close()
    got = net.collect(len(frames), 2)
    for family in (0x08, 0x86):  # the order counts within a family: two flows
        sent = [item for item in expected if item[1][12] == family]
        came = [item for item in got if item[1][12] == family]
        assert len(sent) > 100, "the test sent too little to prove anything"
        assert came == sent, f"{len(sent)} sent, {len(came)} came, or in another order"
    net.settle()


FLOWS = 96


def flows(net, family):
    """{source port: path} for FLOWS flows, each asked twice."""
    source = net.behind4(0) if family == 4 else net.behind6(0)
    target = TARGET4 if family == 4 else TARGET6
    paths = {}
    for port in list(range(1, FLOWS + 1)) * 2:
        now = net.path_of(MAKE[family](source, target, sport=1000 + port * 7))
        assert now is not None, f"flow {port} was lost"
        assert paths.setdefault(port, now) == now, f"flow {port} changed its path without a reason"
    return paths


def by_ports(net, family):
    """The kernel's hash policy 1: addresses and ports."""
    net.sysctl(f"ipv{family}/fib_multipath_hash_policy", 1)


def multipath(net, family, *weights):
    hops = " ".join(
        f"nexthop via {gateway(net, family, 1 + n)} weight {weight}" for n, weight in enumerate(weights)
    )
    add_target(net, family, hops)
    net.settle()


@pytest.mark.parametrize("family", [4, 6])
def test_63_flows_keep_their_paths(net, family):
    """RFC 2992: equal paths share the flows, and a flow stays where it is."""
    by_ports(net, family)
    multipath(net, family, 1, 1)
    share = collections.Counter(flows(net, family).values())
    assert set(share) == {1, 2}
    assert FLOWS * 0.25 <= share[1] <= FLOWS * 0.75, f"{share} over equal paths"


@pytest.mark.parametrize("family", [4, 6])
def test_63_weights(net, family):
    """A path of weight 3 carries about three times the flows of a path of weight 1."""
    by_ports(net, family)
    multipath(net, family, 3, 1)
    share = collections.Counter(flows(net, family).values())
    assert FLOWS * 0.55 <= share[1] <= FLOWS * 0.92, f"{share} over paths of weight 3 and 1"


@pytest.mark.parametrize("family", [4, 6])
def test_63_addresses_only_by_default(net, family):
    """Hash policy 0: ports do not matter; all flows between two hosts take one path."""
    multipath(net, family, 1, 1)
    assert len(set(flows(net, family).values())) == 1


@pytest.mark.parametrize("family", [4, 6])
def test_63_path_removed(net, family):
    """RFC 2992: when a path goes, its flows move to the one that is left, and no other flow moves."""
    by_ports(net, family)
    multipath(net, family, 1, 1)
    before = flows(net, family)
    prefix = "203.0.113.0/24" if family == 4 else "2001:db8:dead::/48"
    net.router.ip(f"-{family}", "route", "replace", prefix, "via", gateway(net, family, 1))
    net.settle()
    after = flows(net, family)
    assert set(before.values()) == {1, 2}
    assert set(after.values()) == {1}


@pytest.mark.parametrize("kind", ["hash-threshold", "resilient"])
def test_63_nexthop_group_loses_a_member(net, kind):
    """RFC 2992: hash-threshold moves at most about half of the flows; a resilient group only those of the lost member."""
    by_ports(net, 4)
    third = "10.0.1.3"  # a second gateway on link 1, told apart by its MAC
    net.ip(f"neighbour replace {third} lladdr {net.host_mac(1)[:-2]}93 dev r1", f"neighbour del {third} dev r1")
    for number, (address, device) in enumerate([(net.host4(1), "r1"), (third, "r1"), (net.host4(2), "r2")], 1):
        net.ip(f"nexthop add id {number} via {address} dev {device}", f"nexthop del id {number}")
    options = "type resilient buckets 96 idle_timer 0" if kind == "resilient" else ""
    net.ip(f"nexthop add id 10 group 1/2/3 {options}", "nexthop del id 10")
    add_target(net, 4, "nhid 10")
    net.settle()
    before = gateways(net)
    net.router.ip(*f"nexthop replace id 10 group 1/2 {options}".split())
    net.settle()
    after = gateways(net)
    lost = packets.mac(net.host_mac(2))
    assert lost in before.values() and lost not in after.values()
    moved = [port for port, old in before.items() if old != lost and after[port] != old]
    most = 0 if kind == "resilient" else FLOWS * 0.6
    assert len(moved) <= most, f"{len(moved)} of {FLOWS} flows moved without need"


def gateways(net):
    """{source port: MAC of the gateway} for FLOWS flows."""
    chosen, source = {}, "198.18.200.1"
    for port in range(FLOWS):
        for host in net.hosts:
            host.drain()
        net.hosts[0].send(net.frame(udp4(source, TARGET4, sport=1000 + port * 7)))
        got = net.collect(1, quiet=0)
        assert len(got) == 1, f"flow {port}: {len(got)} packets came"
        chosen[port] = got[0][1][:6]
    return chosen
