"""The FIB in a running Bora: what it shows, and what happens when it is full."""

import random
import time

import pytest
from scapy.layers.inet import ICMP, IP

from lib import packets
from lib.packets import udp4
from lib.routes import RTM_DELROUTE, synthetic_table, table_messages, write

ROUTES = 500_000  # with random next hops they need more than the smallest limit
LIMIT = ["--fib-memory", "1"]  # MiB
SECONDS = 30


@pytest.mark.bora
def test_show(engine):
    """`show fib` counts what is there; `show route` says what the FIB does with an address."""
    net = engine()
    before = net.bora.show("fib")
    net.router.ip("route", "add", "203.0.113.0/25", "via", net.host4(1))
    net.router.ip("route", "add", "blackhole", "203.0.113.128/25")
    net.bora.wait_in_sync()
    after = net.bora.show("fib")
    assert after["ipv4"]["prefixes"] == before["ipv4"]["prefixes"] + 2
    assert after["ipv4"]["updates"] > before["ipv4"]["updates"]
    assert after["ipv4"]["missing"] == 0 < after["ipv4"]["table_bytes"]
    found = net.bora.show("route", "203.0.113.5")
    assert found["prefix"] == "203.0.113.0/25" and net.host4(1) in found["via"]
    assert net.host_mac(1) in found["fib"] and "r1" in found["fib"]
    assert "blackhole" in net.bora.show("route", "203.0.113.200")["fib"]


@pytest.mark.slow
@pytest.mark.bora
@pytest.mark.parametrize("kind", ["tree", "dir24"])
def test_full_and_room_again(engine, kind, say):
    """When the FIB is full, Bora says so and Linux forwards that IP version, until there is room again."""
    net = engine(*LIMIT, "--fib", kind)
    assert forwards(net) and engine_packets(net) > 0
    rows = synthetic_table(4, ROUTES, seed=5)
    write_scattered(net, rows)
    wait(lambda: net.bora.show("fib")["ipv4"]["missing"] > 0, "the FIB never filled up")
    time.sleep(1.2)  # the guard is checked once a second
    report = net.bora.show("sync")
    assert not report["in_sync"] and any("no room" in line for line in report["guard"]), report["guard"]
    fib = net.bora.show("fib")["ipv4"]
    say(f"{kind}: {fib['prefixes']} prefixes in {fib['node_bytes'] >> 10} KiB of nodes, {fib['missing']} without room")
    assert fib["node_bytes"] <= fib["max_bytes"]
    engine_before = engine_packets(net)
    check_forwarding(net, rows)
    assert engine_packets(net) == engine_before, "the engine forwards although its table lacks routes"
    write_scattered(net, rows, kind=RTM_DELROUTE)
    wait(lambda: net.bora.show("sync")["in_sync"], "no recovery once there is room")
    net.bora.wait_in_sync(SECONDS)
    wait(lambda: forwards(net) and engine_packets(net) > engine_before, "the engine has not taken over again")
    net.bora.check_conservation()


def test_what_icmp_errors_tell(net):
    """An accepted redirect, and a path MTU so small that Linux locks it, concern forwarded packets, too."""
    other, elsewhere = "10.0.1.3", "02:bc:00:00:00:77"
    for scope in ("all", "r1"):
        net.router.set_sysctl(f"net/ipv4/conf/{scope}/accept_redirects", 1)
        net.router.set_sysctl(f"net/ipv4/conf/{scope}/secure_redirects", 0)
    net.router.ip("neighbour", "replace", other, "lladdr", elsewhere, "dev", "r1")
    redirected, narrow = net.behind4(1), net.behind4(1)
    for address, message in ((redirected, ICMP(type=5, code=1, gw=other)), (narrow, ICMP(type=3, code=4, nexthopmtu=300))):
        ping = bytes(IP(src=address, dst=net.router4(1)) / ICMP(id=7))
        net.hosts[1].send(net.frame(ping, 1))
        reply = IP(src=net.router4(1), dst=address, flags="DF", len=900) / ICMP(type=0, id=7)  # the router's own, that the error is about
        net.hosts[1].send(net.frame(bytes(IP(src=net.host4(1), dst=net.router4(1)) / message / reply), 1))
        net.hosts[1].send(net.frame(ping, 1))  # what the router says now goes as the error has told

    def follows():
        to_other = udp4(net.behind4(0), redirected)
        for port in net.hosts:
            port.drain()
        for packet in (to_other, udp4(net.behind4(0), narrow, size=600, flags="DF")):
            net.hosts[0].send(net.frame(packet))
        got = net.collect(2)
        went = packets.ethernet(elsewhere, net.router_mac(1), packets.hop(to_other))
        return any(host == 1 and packets.same(went, frame) for host, frame in got) and \
            [host for host, frame in got if frame[23] == 1] == [0]

    wait(follows, "forwarded packets do not go as the errors have told")
    assert net.path_of(udp4(net.behind4(0), net.behind4(1))) == 1, "and others as before"


def write_scattered(net, rows, **kind):
    """Writes adjacent prefixes with different next hops, so that nothing can be compressed."""
    write(net.router.name, table_messages(rows, [net.host4(1), net.host4(2)], **kind))


def check_forwarding(net, rows):
    source = random.Random(3)
    for prefix, length in source.sample(rows, 60):
        address = ".".join(map(str, prefix))
        answer = net.router.ip("route", "get", address).stdout
        wanted = 1 if "dev r1" in answer else 2
        assert net.path_of(udp4(net.behind4(0), address), timeout=0.5) == wanted, f"{address}/{length}: {answer}"


def forwards(net):
    return net.path_of(udp4(net.behind4(0), net.behind4(1))) == 1


def engine_packets(net):
    return sum(worker["rx_packets"] for worker in net.bora.show("workers"))


def wait(condition, otherwise):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)
