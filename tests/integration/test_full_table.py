"""A full Internet table in the kernel: Bora loads it, stays in sync with it, and forwards by it.

With BORA_TABLES=DIR the tables are DIR/tier1_v4.txt.xz and DIR/tier1_v6.txt.xz (lines that begin with
a prefix); without, a synthetic table of the same size and lengths, the same each time."""

import ipaddress
import json
import lzma
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from lib import routes
from lib.bird import Bird
from lib.bora import Bora, binary
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
CHANGES_BY_BIRD = 1000  # a second
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


def swaps(net, folder):
    """Configurations of BIRD, each with its own gateway for as many routes as shall change in a second."""
    for number, gateway in enumerate((net.host4(1), net.host4(2))):
        prefixes = (f"100.{64 + at // 256}.{at % 256}.0/24" for at in range(CHANGES_BY_BIRD))
        statics = " ".join(f"route {prefix} via {gateway};" for prefix in prefixes)
        file = folder / f"swap{number}.conf"
        file.write_text("log stderr { fatal }; router id 192.0.2.1; protocol device {} protocol static { ipv4; " + statics + " }"
                        "protocol kernel { ipv4 { import none; export all; }; scan time 3600; }")
        yield file


def cpu_of_proof(pid):
    """Seconds of CPU that the proof's thread has had."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "bora-prove":
            return int((task / "schedstat").read_text().split()[0]) / 1e9
    return None


@pytest.mark.slow
@pytest.mark.bora
@pytest.mark.alone
@pytest.mark.long
def test_proof_beside_bird(kernel_net, bora_path, tables, say, tmp_path):
    """Linux says the same of every address of a full table, while BIRD changes a thousand routes a second."""
    net = kernel_net
    write(net, tables)
    net.bora = Bora(net.router, ["r0", "r1", "r2"], bora_path)
    net.bora.start()
    net.bora.wait_in_sync(START_SECONDS)
    files = list(swaps(net, tmp_path))
    bird = Bird(net.router, files[0].read_text(), tmp_path, "bird")
    try:
        proof, cpu, changes = prove_beside(net, bird, files)
    finally:
        bird.close()
    progress = proof["progress"]
    say(f"{bora_path}: {progress['compared']} answers in {proof['seconds']:.0f} s ({cpu:.1f} s of CPU) beside {changes} changes by BIRD: "
        f"{progress['differ']} differ, {progress['unsettled']} changed all the time, left to Linux: {progress['left_to_linux']}")
    assert changes > 1000 and progress["differ"] == 0, proof["differences"][:3]
    assert progress["compared"] > 2 * sum(map(len, tables.values()))


def prove_beside(net, bird, files):
    """A proof for one input, the CPU that it took, and how many routes BIRD has changed meanwhile."""
    changes, cpu, pid = 0, 0, net.bora.process.pid
    with net.router.popen(binary(), "prove", "--json", "--input", "r0", stdout=subprocess.PIPE, text=True) as asked:
        while asked.poll() is None:
            bird.ask(f'configure "{files[changes // CHANGES_BY_BIRD % 2 - 1]}"')
            changes += CHANGES_BY_BIRD
            cpu = cpu_of_proof(pid) or cpu
            time.sleep(1)
        return json.loads(asked.stdout.read()), cpu, changes


def test_the_table_itself(kernel_net, tables, say):
    """The oracle: the plain kernel accepts the whole table and forwards by it."""
    net = kernel_net
    say(f"{sum(map(len, tables.values()))} routes written into the kernel in {write(net, tables):.1f} s")
    check_forwarding(net, tables)
