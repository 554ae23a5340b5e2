"""The FIB in a running Bora: what it shows, and what happens when it is full."""

import random
import time

import pytest

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
