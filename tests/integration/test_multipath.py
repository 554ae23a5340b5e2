"""Kernel, express and engine choose the same next hop for every flow, so kill -9, a restart or another tier moves no flow.

    h0 ---- r0 [ router ] r1 ---- h1, with three gateways told apart by their MACs
                          r2 ---- h2, with one
"""

import ipaddress
import struct
import time

import pytest

from lib import packets
from lib.bora import Bora
from lib.multipath import NET4, NET6, configure, flows, ipv4, key_of, paths, same, set_policy, source4, write_policy
from lib.port import wait_readable

FLOWS = 5_000  # for each IP version and policy


def gateways(net, family):
    """[(address, device, MAC)]: two behind r1, one behind r2, and one behind r1 that is dead."""
    base = [("10.0.1.2", "10.0.1.3", "10.0.2.2", "10.0.1.9"),
            ("2001:db8:1::2", "2001:db8:1::3", "2001:db8:2::2", "2001:db8:1::9")][family == 6]
    devices = ("r1", "r1", "r2", "r1")
    macs = (net.host_mac(1), "02:bc:00:00:00:93", net.host_mac(2), None)
    return list(zip(base, devices, macs))


def start(net, path):
    net.bora = Bora(net.router, ["r0", "r1", "r2"], path)
    net.bora.start()
    net.bora.wait_in_sync()
    net.wait_until_forwarding()


@pytest.fixture
def ways(kernel_net):
    configure(kernel_net, gateways)
    return kernel_net


@pytest.mark.parametrize("policy", [0, 1, 2, 3])
def test_every_tier_takes_the_same_path(ways, policy, say):
    """Each packet takes the same path under kernel, express and engine; kill -9 and a restart move none."""
    net, made = ways, flows(FLOWS)
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
        # the engine decides for all packets; express leaves those that it cannot hash to Linux
        assert by_bora >= (len(made) * 0.99 if tier == "engine" else 0 if policy == 3 else len(made) * 0.2)
        net.bora.kill()
        same(expected, paths(net, made), made, f"after kill -9 of {tier}, policy {policy}")
        net.bora.start()
        net.bora.wait_in_sync()
        same(expected, paths(net, made), made, f"{tier} started again, policy {policy}")
        net.bora.stop()
        net.bora = None


def test_a_hash_that_came_with_the_packet(ways):
    """Policy 1: Linux uses the hash that the sender has computed, here to choose among its queues. Bora does not see it, and
    leaves such packets to Linux."""
    net, made = ways, flows(1000, "plain")
    net.namespaces[1].exec("ethtool", "-L", "h0", "tx", "2")
    net.router.exec("ethtool", "-L", "r0", "rx", "2")
    set_policy(net, 1)
    expected = paths(net, made)
    net.namespaces[1].exec("ethtool", "-L", "h0", "tx", "1")
    assert paths(net, made) != expected, "the sender's hash makes no difference, and the test proves nothing"
    net.namespaces[1].exec("ethtool", "-L", "h0", "tx", "2")
    for tier in ("express", "engine"):
        start(net, tier)
        before = net.bora.show("drops")["punts"].get("multipath", 0)
        same(expected, paths(net, made), made, tier)
        assert net.bora.show("drops")["punts"]["multipath"] > before
        net.bora.kill()
        same(expected, paths(net, made), made, f"after kill -9 of {tier}")
        net.bora.stop()
        net.bora = None


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["express", "engine"])
def test_a_new_policy_counts_at_once(ways, tier):
    """Bora reads sysctls once a second; until then Linux chooses the path."""
    net, made = ways, flows(500)
    expected = {}
    for policy in (0, 1):
        set_policy(net, policy)
        expected[policy] = paths(net, made)
    assert expected[0] != expected[1]
    start(net, tier)
    for policy in (0, 1, 0):
        before = net.bora.show("drops")["punts"].get("multipath", 0)
        write_policy(net, policy)
        same(expected[policy], paths(net, made), made, f"{tier}, policy {policy}, at once")
        assert net.bora.show("drops")["punts"]["multipath"] > before, "Bora knew already: the test proves nothing"
        time.sleep(1.5)
        same(expected[policy], paths(net, made), made, f"{tier}, policy {policy}")


def test_a_new_seed_is_followed(ways):
    """net.ipv4.fib_multipath_hash_seed (Linux 6.11) may change at any time."""
    net, made = ways, flows(1000, "plain")
    try:
        net.router.get_sysctl("net/ipv4/fib_multipath_hash_seed")
    except FileNotFoundError:
        return  # this kernel has no setting for the seed
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
    """With fib_multipath_use_neigh plain IPv4 routes avoid a next hop whose neighbour has failed."""
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
    """The gateways of a new route are resolved without a packet, kept by Linux, and forgotten with the route."""
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
    net.bora.start()  # it releases the neighbours that the killed one requested
    for address in addresses:
        wait_for_neighbour(net, address, lambda entry: "managed" not in entry)


def test_a_burst_keeps_its_order(kernel_net, bora_path):
    """30 000 packets of one flow to a new route all arrive, in order."""
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
