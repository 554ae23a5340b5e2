"""A full table by BGP: how long until it is in Linux and in Bora's FIB, and how long packets are lost when a peer is.

    source --- router (FRR, Bora) === peer 0, peer 1 (BIRD), each with all routes

Both peers' paths are equal, so zebra makes groups of two next hops. Prints a table and writes target/bench/bgp.json; docs/bench-bgp.md
describes the method. Everything is in network namespaces.
"""

import argparse
import contextlib
import ipaddress
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.packet import Raw  # noqa: E402

from lib import packets  # noqa: E402
from lib.bora import Bora  # noqa: E402
from lib.frr import Frr  # noqa: E402
from lib.load import Load, trailer  # noqa: E402
from lib.netns import Namespace, run  # noqa: E402
from lib.routes import synthetic_table  # noqa: E402
from lib.traffic import FILL  # noqa: E402

PEERS = 2
FLOWS = 50
RATE = 10_000
PATIENCE = 300  # seconds
SUBJECTS = (None, "engine", "express")
FRR = """router bgp 65000
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 bgp bestpath as-path multipath-relax
 neighbor 10.1.0.2 remote-as 65100
 neighbor 10.1.1.2 remote-as 65101
 address-family ipv4 unicast
  maximum-paths 2
"""
BIRD = """router id 10.1.{peer}.2;
protocol device {{}}
protocol static all_routes {{
  ipv4;
  include "{routes}";
}}
protocol bgp bora {{
  local 10.1.{peer}.2 as 6510{peer};
  neighbor 10.1.{peer}.1 as 65000;
  ipv4 {{ import none; export all; next hop self; }};
}}
"""


def wait(what, done, every=0.05):
    """Until `done()` is true."""
    start = time.monotonic()
    while not done():
        if time.monotonic() - start > PATIENCE:
            raise TimeoutError(f"{what}: not within {PATIENCE} s")
        time.sleep(every)


class Bird:
    """BIRD in a namespace."""

    def __init__(self, namespace, folder, peer, routes):
        self.socket = folder / f"bird{peer}.ctl"
        config = folder / f"bird{peer}.conf"
        config.write_text(BIRD.format(peer=peer, routes=routes))
        self.process = namespace.popen("bird", "-f", "-c", str(config), "-s", str(self.socket), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
        wait("BIRD", lambda: self.process.poll() is not None or "bird" in self.ask("show status"))
        if self.process.poll() is not None:
            raise RuntimeError(f"BIRD does not run: {self.process.stderr.read()}")

    def ask(self, command):
        """What `birdc` says."""
        done = run("birdc", "-s", str(self.socket), *command.split(), check=False)
        return done.stdout.lower()

    def close(self):
        """Ends it."""
        self.process.kill()
        self.process.wait(10)


class Network:
    """The router with its peers; `path` is Bora's tier, or None for Linux alone."""

    def __init__(self, path, folder, routes):
        self.stack = contextlib.ExitStack()
        self.bora = None
        try:
            self._make(path, folder, routes)
        except BaseException:
            self.stack.close()
            raise

    def _namespace(self, role):
        namespace = Namespace(role)
        self.stack.callback(namespace.close)
        return namespace

    def _make(self, path, folder, routes):
        self.router = self._namespace("r")
        for key, value in {"ip_forward": 1, "fib_multipath_hash_policy": 1, "conf/all/rp_filter": 0,
                           "conf/default/rp_filter": 0}.items():
            self.router.set_sysctl(f"net/ipv4/{key}", value)
        self.source = self._namespace("source")
        self._link("s", self.source, "10.0.0", "02:bc:00:00:00:01")
        self.peers = [self._namespace(f"p{peer}") for peer in range(PEERS)]
        for peer, namespace in enumerate(self.peers):
            self._link(f"p{peer}", namespace, f"10.1.{peer}", f"02:bc:00:00:01:0{peer}")
        for peer, namespace in enumerate(self.peers):
            self.stack.callback(Bird(namespace, folder, peer, routes).close)
        if path:
            self.bora = Bora(self.router, ["s", *(f"p{peer}" for peer in range(PEERS))], path)
            self.stack.callback(self.bora.stop)
            self.bora.start()

    def _link(self, name, other, net, mac):
        self.router.ip("link", "add", name, "address", mac, "type", "veth", "peer", "name", "uplink", "netns", other.name)
        other.exec("ethtool", "-K", "uplink", "gro", "on")
        other.batch([f"address add {net}.2/24 dev uplink", "link set uplink up"])
        self.router.batch([f"address add {net}.1/24 dev {name}", f"link set {name} up"])

    def in_linux(self):
        """Prefixes in Linux's main table."""
        text = self.router.exec("cat", "/proc/net/fib_triestat").stdout
        return int(re.search(r"Prefixes:\s+(\d+)", text).group(1))

    def in_bora(self):
        """Prefixes in Bora's FIB."""
        return self.bora.show("fib")["ipv4"]["prefixes"]

    def converge(self, table):
        """Starts BGP; seconds until the routes are in Linux, and in Bora's FIB."""
        frr = Frr(self.router, {"bgpd": FRR})
        self.stack.callback(frr.close)
        start, count = time.monotonic(), len(table)
        wait("routes in Linux", lambda: self.in_linux() >= count)
        linux = time.monotonic() - start
        if self.bora:
            wait("routes in the FIB", lambda: self.in_bora() >= count)
        both = time.monotonic() - start
        # zebra changes single next hops to groups when the second peer's routes come
        wait("groups of two", lambda: self.has_groups(table), every=1)
        if self.bora:
            wait("Bora agrees with Linux", lambda: self.bora.show("sync")["in_sync"])
        return linux, both

    def has_groups(self, table):
        """Whether prefixes all over the table have two next hops."""
        sample = [f"{ipaddress.ip_address(prefix)}/{length}" for prefix, length in table[:: len(table) // FLOWS]]
        return all(self.router.ip("route", "show", prefix).stdout.count("nexthop") == PEERS for prefix in sample)

    def lose_a_peer(self, table):
        """Takes peer 0's link down under load; milliseconds until the last of its flows comes to peer 1."""
        mac = packets.mac("02:bc:00:00:00:01") + packets.mac("02:bc:00:00:00:02") + b"\x08\x00"
        targets = [str(ipaddress.ip_address(int.from_bytes(prefix, "big") + 1)) for prefix, length in table if length == 24]
        step = len(targets) // FLOWS
        frames = [mac + bytes(IP(src="10.0.0.2", dst=targets[flow * step]) / UDP(sport=20_000 + flow, dport=5000)
                              / Raw(FILL + trailer(flow))) for flow in range(FLOWS)]
        with Load((self.source.name, "uplink"), (self.peers[1].name, "uplink"), frames, RATE) as traffic:
            time.sleep(1)
            there = {flow for _, flow, _ in list(traffic.arrivals)}
            moved = set(range(FLOWS)) - there
            down = time.monotonic()
            self.peers[0].ip("link", "set", "uplink", "down")
            wait("all flows at peer 1", lambda: moved <= {flow for _, flow, _ in traffic.arrivals[-4 * FLOWS:]})
            time.sleep(0.5)
            first = {}
            for at, flow, _ in traffic.arrivals:
                first.setdefault(flow, at)
            traffic.finish()
        return 1000 * max(first[flow] - down for flow in moved)

    def close(self):
        """Ends and removes everything."""
        self.stack.close()


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
    options = options.parse_args()
    table = synthetic_table(4, options.routes, 1)
    folder = Path(tempfile.mkdtemp(prefix="bora-bgp-"))
    try:
        routes = folder / "routes.conf"
        routes.write_text("".join(f"route {ipaddress.ip_address(prefix)}/{length} blackhole;\n" for prefix, length in table))
        times = {}
        for number in range(options.rounds):
            for path in SUBJECTS:
                measure(path, (folder, routes, table), times)
                print(f"round {number + 1}, {path or 'Linux alone'}: done", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report(options, times)


def measure(path, work, times):
    """One round of one subject."""
    folder, routes, table = work
    network = Network(path, folder, routes)
    try:
        linux, both = network.converge(table)
        outage = network.lose_a_peer(table)
    finally:
        network.close()
    subject = path or "Linux alone"
    for case, value in (("routes in Linux", linux), ("routes in the FIB", both if path else None), ("peer lost", outage)):
        if value is not None:
            times.setdefault((case, subject), []).append(value)


def report(options, times):
    """Prints the table and writes the file."""
    rows = []
    print(f"{options.routes} routes of two peers; medians of {options.rounds} rounds (lowest to highest).\n")
    print("| case | subject | time | ratio to Linux alone |\n| --- | --- | ---: | ---: |")
    for (case, subject), values in sorted(times.items()):
        unit = "ms" if case == "peer lost" else "s"
        base = times["peer lost" if case == "peer lost" else "routes in Linux", "Linux alone"]
        line = row(case, subject, unit, values, ("Linux alone", statistics.median(base)))
        rows.append(line)
        print(f"| {case} | {subject} | {line['median']:.1f} {unit} ({line['low']:.1f} to {line['high']:.1f}) | {line['ratio']:.2f} |")
    target = ROOT / "target/bench"
    target.mkdir(parents=True, exist_ok=True)
    (target / "bgp.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
