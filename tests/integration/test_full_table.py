"""A full Internet table in the kernel: Bora loads it, stays in sync with it, and forwards by it.

With BORA_TABLES=DIR the tables are DIR/tier1_v4.txt.xz and DIR/tier1_v6.txt.xz (lines that begin with
a prefix); without, a synthetic table of the same size and lengths, the same each time."""

import ipaddress
import lzma
import os
import random
import time
from pathlib import Path

import pytest

from lib import routes
from lib.bora import Bora
from lib.churn import Churn
from lib.packets import udp4, udp6
from lib.routes import RTM_DELROUTE, RTM_NEWROUTE, synthetic_table, table_messages
from lib.traffic import both_families, load

COUNT = {4: 900_000, 6: 160_000}
START_SECONDS = 60  # from the start of Bora until the FIB agrees with the kernel
FOLLOW_SECONDS = 90  # from the first route written while Bora runs until the same
SAMPLES = 150
CHURN_SECONDS = 15
CHANGES_PER_SECOND = 100_000
RATE = 10_000
STRAY = 25  # packets in 150 000 that a busy two-core machine may lose by itself; the numbers are printed


def table(family):
    """[(packed prefix, length)] of a full table."""
    folder = os.environ.get("BORA_TABLES")
    if not folder:
        return synthetic_table(family, COUNT[family], seed=family)
    rows = []
    with lzma.open(Path(folder) / f"tier1_v{family}.txt.xz", "rt") as file:
        for line in file:
            prefix, length = line.split()[0].split("/")
            rows.append((ipaddress.ip_address(prefix).packed, int(length)))
    return rows


@pytest.fixture(scope="module")
def tables():
    return {family: table(family) for family in (4, 6)}


def gateways(net, family):
    return [net.host4(1), net.host4(2)] if family == 4 else [net.host6(1), net.host6(2)]


def write(net, tables, kind=RTM_NEWROUTE):
    """Writes the tables into the kernel; returns the seconds it took."""
    started = time.monotonic()
    for family, rows in tables.items():
        routes.write(net.router.name, table_messages(rows, gateways(net, family), kind))
    return time.monotonic() - started


def check_forwarding(net, tables):
    """Packets to random addresses inside the table go where the kernel's route leads."""
    source = random.Random(9)
    for family, rows in tables.items():
        make, mine = (udp4, net.behind4(0)) if family == 4 else (udp6, net.behind6(0))
        for prefix, length in source.sample(rows, SAMPLES):
            host_part = source.randrange(1 << (8 * len(prefix) - length))
            number = int.from_bytes(prefix, "big") | host_part
            address = str(ipaddress.ip_address(number.to_bytes(len(prefix), "big")))
            answer = net.router.ip(f"-{family}", "route", "get", address).stdout
            wanted = 1 if "dev r1" in answer else 2 if "dev r2" in answer else None
            assert net.path_of(make(mine, address), timeout=0.5) == wanted, f"{address}: {answer}"


@pytest.mark.slow
def test_full_table(kernel_net, bora_path, tables, say):
    """Bora loads the table at the start, forwards, follows its removal and a new load, and is in sync after each."""
    net, count = kernel_net, sum(map(len, tables.values()))
    say(f"{count} routes written into the kernel in {write(net, tables):.1f} s")
    net.bora = Bora(net.router, ["r0", "r1", "r2"], bora_path)
    started = time.monotonic()
    net.bora.start()
    ready = time.monotonic() - started
    net.bora.wait_in_sync(START_SECONDS)
    say(f"{bora_path}: ready after {ready:.1f} s, in sync after {time.monotonic() - started:.1f} s")
    check_forwarding(net, tables)
    for what, kind in (("removed", RTM_DELROUTE), ("written again", RTM_NEWROUTE)):
        started = time.monotonic()
        seconds = write(net, tables, kind)
        net.bora.wait_in_sync(FOLLOW_SECONDS)
        say(f"{bora_path}: {what} in {seconds:.1f} s, in sync {time.monotonic() - started - seconds:.1f} s later")
    check_forwarding(net, tables)
    net.bora.check_conservation()


@pytest.mark.slow
@pytest.mark.bora
@pytest.mark.alone
def test_churn_in_a_full_table(kernel_net, tables, request, say):
    """With a million routes and 100 000 changes a second to others, the engine's flows lose nothing."""
    if "engine" not in (request.config.getoption("backend") or ["engine"]):
        pytest.skip("the engine is not part of this run")
    net = kernel_net
    write(net, tables)
    net.bora = Bora(net.router, ["r0", "r1", "r2"], "engine")
    net.bora.start()
    net.bora.wait_in_sync(START_SECONDS)
    for port in net.hosts:
        port.drain()
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(CHURN_SECONDS / 3)
        calm = traffic.finish()
    with Churn(net, CHANGES_PER_SECOND, CHURN_SECONDS) as churn, load(net, both_families(net), RATE) as traffic:
        done = churn.run()
        busy = traffic.finish()
    say(f"without changes: {calm}")
    say(f"{done}: {busy}")
    assert calm.lost <= STRAY and busy.lost <= calm.lost + STRAY and busy.reordered == 0 == busy.duplicated
    net.bora.wait_in_sync(FOLLOW_SECONDS)
    net.bora.check_conservation()


def test_the_table_itself(kernel_net, tables, say):
    """The oracle: the plain kernel accepts the whole table and forwards by it."""
    net = kernel_net
    say(f"{sum(map(len, tables.values()))} routes written into the kernel in {write(net, tables):.1f} s")
    check_forwarding(net, tables)
