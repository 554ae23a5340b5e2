"""How long the control loop follows nothing while something large changes.

    r0, r1 --- one router (Bora), alone: what the loop has to do counts, and not packets

Each case prepares a large state, waits until Bora agrees with Linux, and then makes the change several times. Meanwhile a probe asks
Bora's API something small, again and again: the slowest answer is how long the loop was busy with one thing. Where
`bora show lease` knows the longest turn of the loop itself, and it was in this case, that counts. Beside it stands how long it takes
until Bora agrees with Linux again. Prints a table and writes target/bench/scale.json. Everything is in a network namespace.
"""

import argparse
import contextlib
import ipaddress
import json
import re
import socket
import statistics
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

import lib.bora  # noqa: E402
from lib import routes  # noqa: E402
from lib.bora import Bora  # noqa: E402
from lib.routes import synthetic_table  # noqa: E402
from lib.testbed import Testbed  # noqa: E402

AIM = 10.0  # ms
PATIENCE = 300  # s
REQUEST = b"GET /v1/%s HTTP/1.1\r\nHost: bora\r\nConnection: close\r\n\r\n"
GATEWAYS = [f"10.0.{port}.2" for port in range(2)]


class Probe:
    """Asks Bora something small all the time, from a thread."""

    def __init__(self, router):
        self._path, self.times, self._ended = router.api(), [], threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _run(self):
        while not self._ended.is_set():
            begun = time.monotonic()
            ask(self._path, "workers")
            self.times.append(time.monotonic() - begun)
            time.sleep(0.002)


def ask(path, report):
    """A report of the API, whole, as bytes."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(path)
        client.sendall(REQUEST % report.encode())
        parts = []
        while part := client.recv(1 << 20):
            parts.append(part)
    answer = b"".join(parts)
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"{report}: {answer[:200]!r}")
    return answer


class Router(Testbed):
    """A router whose ports lead to neighbours that never change."""

    def __init__(self):
        super().__init__()
        self.space = self._router("scale")
        for port, gateway in enumerate(GATEWAYS):
            self.space.batch([f"link add r{port} type veth peer name w{port}", f"link set r{port} up", f"link set w{port} up",
                              f"addr add 10.0.{port}.1/24 dev r{port}",
                              f"neigh add {gateway} lladdr 02:00:00:00:00:0{port} dev r{port} nud permanent"])

    def start(self, tier):
        """Starts Bora and waits until it agrees with Linux."""
        self.bora = Bora(self.space, ["r0", "r1"], tier)
        self.bora.start()
        self.bora.wait_in_sync(PATIENCE)

    def api(self):
        """The socket of this Bora's API: the one that is bound in its namespace."""
        sockets = Path(f"/proc/{self.bora.process.pid}/net/unix").read_text()
        return re.search(r"/\S+/api\.sock", sockets)[0]

    def longest_turn(self, seconds):
        """The loop's longest turn in ms, if Bora says it and it was within the last seconds."""
        turn = self.bora.show("lease").get("longest_turn")
        return turn["took_ms"] if turn and turn["seconds_ago"] <= seconds else None


# Each case gets a router without Bora, how large it is, and returns what changes something and what to ask for meanwhile.


def group(router, count):
    """A next-hop group that all routes share gets another member."""
    router.space.batch(["nexthop add id 1 via 10.0.0.2 dev r0", "nexthop add id 2 via 10.0.1.2 dev r1",
                        "nexthop add id 10 group 1/2"])
    routes.write(router.space.name, (routes.group_message(prefix, length, 10) for prefix, length in synthetic_table(4, count, 1)))
    return lambda turn: router.space.ip("nexthop", "replace", "id", "10", "group", "1" if turn % 2 else "1/2")


def mtu(router, count):
    """A port with `count` neighbours gets another MTU."""
    first = int(ipaddress.ip_address("10.64.0.1"))
    router.space.batch(["addr add 10.64.0.1/10 dev r1",
                        *(f"neigh add {ipaddress.ip_address(first + 1 + n)} lladdr 02:00:01:{n >> 16:02x}:{n >> 8 & 255:02x}:{n & 255:02x} "
                          "dev r1 nud permanent" for n in range(count))], timeout=PATIENCE)
    return lambda turn: router.space.ip("link", "set", "r1", "mtu", str(1400 + turn % 2))


def report(router, count):
    """Somebody asks for all routes."""
    routes.write(router.space.name, routes.table_messages(synthetic_table(4, count, 1), GATEWAYS))
    return lambda turn: ask(router.api(), "routes")


def nft(router, count):
    """A ruleset with `count` chains gets a rule, and loses it."""
    lines = ["add table inet scale", "add chain inet scale changing"]
    lines += [f"add chain inet scale c{n}" for n in range(count)]
    router.space.exec("nft", "-f", "-", input="\n".join(lines), timeout=PATIENCE)

    def change(turn):
        what = "flush chain inet scale changing" if turn % 2 else "add rule inet scale changing counter"
        router.space.exec("nft", *what.split(), timeout=PATIENCE)
    return change


def links(router, count):
    """One of `count` links that are no ports goes down, or up."""
    lines = []
    for n in range(count // 2):
        lines += [f"link add v{n} type veth peer name x{n}", f"addr add 100.{n >> 8}.{n & 255}.1/24 dev v{n}",
                  f"link set v{n} up", f"link set x{n} up"]
    router.space.batch(lines, timeout=PATIENCE)
    return lambda turn: router.space.ip("link", "set", "v7", "down" if turn % 2 else "up")


CASES = [("group", group, 200_000, "next-hop group of {} routes changes"), ("mtu", mtu, 100_000, "MTU of a port with {} neighbours"),
         ("routes", report, 300_000, "/v1/routes of {} routes"), ("routes", report, 1_000_000, "/v1/routes of {} routes"),
         ("nft", nft, 20_000, "nft transaction beside {} chains"), ("links", links, 4_000, "a link of {} changes")]


def measure(case, size, options):
    """Milliseconds of the loop's longest turn, of each change, and the seconds until Bora agrees with Linux again."""
    router, turns, settled = Router(), [], []
    try:
        change = case(router, size)
        router.start(options.tier)
        for number in range(options.rounds):
            with Probe(router) as probe:
                time.sleep(0.2)  # what an answer takes when nothing happens is among the times
                begun = time.monotonic()
                change(number)
                time.sleep(1.2)  # the loop looks at some things each second
            turn = router.longest_turn(time.monotonic() - begun)
            turns.append(turn if turn is not None else 1000 * max(probe.times))
            begun = time.monotonic()
            router.bora.wait_in_sync(PATIENCE)
            settled.append(time.monotonic() - begun)
        return turns, settled
    finally:
        with contextlib.suppress(FileNotFoundError):
            router.close()


def row(name, subject, metric, unit, values):
    """A line of the JSON list; the ratio is to the aim."""
    median = statistics.median(values)
    return {"case": name, "subject": subject, "metric": metric, "unit": unit, "median": median, "low": min(values), "high": max(values),
            "ratio_to": f"aim, {AIM:.0f} ms", "ratio": median / AIM if unit == "ms" else 0.0}


def main():
    """Runs all cases."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--rounds", type=int, default=5, help="changes in each case")
    options.add_argument("--tier", choices=["engine", "express"], default="engine")
    options.add_argument("--divide", type=int, default=1, help="sizes are smaller by this; for a first look")
    options.add_argument("--only", action="append", choices=sorted({name for name, *_ in CASES}), help="may be given several times")
    options = options.parse_args()
    lib.bora.STOP_SECONDS = 60  # with a million routes, on a busy machine
    rows, missed = [], 0
    print("| case | longest turn of the loop | aim | | in sync after |\n| --- | ---: | ---: | --- | ---: |")
    for name, case, size, text in CASES:
        if options.only and name not in options.only:
            continue
        size //= options.divide
        text = text.format(f"{size:,}".replace(",", " "))
        turns, settled = measure(case, size, options)
        rows += [row(text, options.tier, "longest turn", "ms", turns), row(text, options.tier, "in sync", "s", settled)]
        met = statistics.median(turns) <= AIM
        missed += not met
        print(f"| {text} | {statistics.median(turns):.1f} ms ({min(turns):.1f} to {max(turns):.1f}) | {AIM:.0f} ms | "
              f"{'met' if met else '**missed**'} | {statistics.median(settled):.1f} s |", flush=True)
    path = ROOT / "target/bench/scale.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"\n{missed} of {len(rows) // 2} aims missed; written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
