"""A full table by BGP: how long until it is in Linux and in Bora's FIB, and how long packets are lost when a peer is.

    source --- router (FRR, Bora) === peer 0, peer 1 (BIRD), each with all routes

Both peers' paths are equal, so zebra makes groups of two next hops. Prints a table and writes target/bench/bgp.json. With `--updates` routes
change instead, for some minutes (updates.py): target/bench/bgp-updates.json. docs/bench-bgp.md describes the method. Everything is
in network namespaces.
"""

import argparse
import dataclasses
import ipaddress
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.packet import Raw  # noqa: E402

import lib.bora  # noqa: E402
from lib import packets  # noqa: E402
from lib.load import Load, trailer  # noqa: E402
from lib.routes import synthetic_table  # noqa: E402
from lib.traffic import FILL  # noqa: E402

import updates  # noqa: E402
from network import FRR_SPEAKER, ROUTER_MAC, SOURCE_MAC, Network, wait  # noqa: E402

FLOWS = 50
RATE = 10_000
STOP_SECONDS = 60  # with a million routes, on a busy machine
SUBJECTS = ("Linux alone", "engine", "express")


def lose_a_peer(network, table):
    """Takes peer 0's link down under load; milliseconds until the last of its flows comes to peer 1."""
    mac = packets.mac(ROUTER_MAC) + packets.mac(SOURCE_MAC) + b"\x08\x00"
    targets = [str(ipaddress.ip_address(int.from_bytes(prefix, "big") + 1)) for prefix, length in table if length == 24]
    step = len(targets) // FLOWS
    frames = [mac + bytes(IP(src="10.0.0.2", dst=targets[flow * step]) / UDP(sport=20_000 + flow, dport=5000)
                          / Raw(FILL + trailer(flow))) for flow in range(FLOWS)]
    with Load((network.source.name, "uplink"), (network.peers[1].name, "uplink"), frames, RATE) as traffic:
        time.sleep(1)
        there = {flow for _, flow, _ in list(traffic.arrivals)}
        moved = set(range(FLOWS)) - there
        down = network.take_down(0)
        wait("all flows at peer 1", lambda: moved <= {flow for _, flow, _ in traffic.arrivals[-4 * FLOWS:]})
        time.sleep(0.5)
        first = {}
        for at, flow, _ in traffic.arrivals:
            first.setdefault(flow, at)
        traffic.finish()
    return 1000 * max(first[flow] - down for flow in moved)


def row(case, subject, unit, values, base):
    """A line of the JSON list."""
    median = statistics.median(values)
    ratio = median / base[1] if base[1] else 0.0
    return {"case": case, "subject": subject, "metric": "time", "unit": unit, "median": median, "low": min(values),
            "high": max(values), "ratio_to": base[0], "ratio": ratio}


def main():
    """Runs all subjects in turn."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--routes", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--updates", type=float, metavar="MINUTES", help="change routes for so long; the published figure has 30")
    options.add_argument("--subject", action="append", choices=SUBJECTS, help="may be given several times; default: all")
    options = options.parse_args()
    lib.bora.STOP_SECONDS = STOP_SECONDS
    table = synthetic_table(4, options.routes, 1)
    subjects = [subject for subject in SUBJECTS if subject in (options.subject or SUBJECTS)]
    folder = Path(tempfile.mkdtemp(prefix="bora-bgp-"))
    try:
        routes = folder / "routes.conf"
        routes.write_text("".join(f"route {ipaddress.ip_address(prefix)}/{length} blackhole;\n" for prefix, length in table))
        if options.updates:
            change(subjects, (folder, routes, table), 60 * options.updates)
        else:
            converge(subjects, (folder, routes, table), options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def change(subjects, work, seconds):
    """Routes change, one subject after the other."""
    folder, routes, table = work
    rows = []
    for subject in subjects:
        network = Network(path_of(subject), folder, routes, FRR_SPEAKER)
        try:
            network.converge(table)
            result = updates.run(network, table, subject, seconds)
            print("\n".join(updates.text(result)), flush=True)
            rows.append(dataclasses.asdict(result))
            write("bgp-updates.json", rows)
        finally:
            network.close()


def converge(subjects, work, options):
    """Routes come, and a peer is lost, in rounds."""
    times = {}
    for number in range(options.rounds):
        for subject in subjects:
            measure(subject, work, times)
            print(f"round {number + 1}, {subject}: done", file=sys.stderr)
    report(options, times)


def path_of(subject):
    """Bora's tier, or None."""
    return None if subject == SUBJECTS[0] else subject


def measure(subject, work, times):
    """One round of one subject."""
    folder, routes, table = work
    network = Network(path_of(subject), folder, routes)
    try:
        linux, both = network.converge(table)
        outage = lose_a_peer(network, table)
    finally:
        network.close()
    for case, value in (("routes in Linux", linux), ("routes in the FIB", both if network.bora else None), ("peer lost", outage)):
        if value is not None:
            times.setdefault((case, subject), []).append(value)


def report(options, times):
    """Prints the table and writes the file."""
    rows = []
    print(f"{options.routes} routes of two peers; medians of {options.rounds} rounds (lowest to highest).\n")
    print("| case | subject | time | ratio to Linux alone |\n| --- | --- | ---: | ---: |")
    for (case, subject), values in sorted(times.items()):
        unit = "ms" if case == "peer lost" else "s"
        base = times.get(("peer lost" if case == "peer lost" else "routes in Linux", SUBJECTS[0]), [0.0])
        line = row(case, subject, unit, values, ("Linux alone", statistics.median(base)))
        rows.append(line)
        print(f"| {case} | {subject} | {line['median']:.1f} {unit} ({line['low']:.1f} to {line['high']:.1f}) | {line['ratio']:.2f} |")
    write("bgp.json", rows)


def write(name, rows):
    """Writes results to a file in target/bench."""
    target = ROOT / "target/bench"
    target.mkdir(parents=True, exist_ok=True)
    (target / name).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
