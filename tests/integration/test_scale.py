"""Thousands of links that are no ports cost nothing while they are idle, and the control loop follows all of them.

The long tests have the sizes of a provider's router; `-m long` runs them."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from lib import routes
from lib.bora import Bora, runtime_folder
from lib.routes import synthetic_table, table_messages

pytestmark = [pytest.mark.bora, pytest.mark.alone]

IDLE_SECONDS = {"short": 10, "long": 30}
IDLE_SHARE = 0.005  # a core's share, beside what Bora takes without links
SETTLED = 5  # seconds after which nothing of a start or a change is left to do
STUCK_AFTER = 15  # seconds without a round of the control loop after which the lease ends
SIZES = [
    pytest.param("short", id="short"),
    pytest.param("long", id="long", marks=pytest.mark.long),
]
LINKS = {"short": 400, "long": 4000}
FLAPPING = {"short": 50, "long": 200}
TABLE = {"short": 50_000, "long": 1_000_000}
ROUNDS = {"short": 2, "long": 5}


def add_links(net, count):
    """veth pairs v0-w0, v1-w1, …, up and with addresses; returns the seconds it took."""
    started = time.monotonic()
    lines = []
    for n in range(count // 2):
        lines += [
            f"link add v{n} type veth peer name w{n}",
            f"addr add 100.{n >> 8}.{n & 255}.1/24 dev v{n}",
            f"link set v{n} up",
            f"link set w{n} up",
        ]
    net.router.batch(lines, timeout=600)
    return time.monotonic() - started


def start(net, tier, seconds=60):
    net.bora = Bora(net.router, ["r0", "r1", "r2"], tier)
    net.bora.start()
    net.bora.wait_in_sync(seconds)


def process(net):
    """The daemon's process id; `ip netns exec` has replaced itself by the daemon."""
    return net.bora.process.pid


def used(pid):
    """CPU time that a process has used, in seconds, by thread."""
    ticks = os.sysconf("SC_CLK_TCK")
    times = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, rest = (task / "stat").read_text().rsplit(")", 1)
        fields = rest.split()
        times[name.split("(", 1)[1] + " " + task.name] = (int(fields[11]) + int(fields[12])) / ticks
    return times


def idle_share(net, seconds):
    """Share of a core that Bora uses while nothing happens; by thread, of those that use any."""
    before, begun = used(process(net)), time.monotonic()
    time.sleep(seconds)
    after, seconds = used(process(net)), time.monotonic() - begun
    shares = {name.split()[0]: (after[name] - before.get(name, 0)) / seconds for name in after}
    return {name: share for name, share in shares.items() if share > 0}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_idle_links_cost_nothing(kernel_net, bora_path, size, say):
    """They add less than Bora without links takes, whose audits are bounded, and half a percent of a core.

    A share alone says little, because cores differ and the host moves them apart."""
    net = kernel_net
    start(net, bora_path)
    time.sleep(SETTLED)
    alone = idle_share(net, IDLE_SECONDS[size])
    say(f"{LINKS[size]} links made in {add_links(net, LINKS[size]):.1f} s")
    net.bora.wait_in_sync(60)
    time.sleep(SETTLED)
    linked = idle_share(net, IDLE_SECONDS[size])
    for shares, links in (alone, 0), (linked, LINKS[size]):
        told = ", ".join(f"{name} {share:.2%}" for name, share in shares.items())
        say(f"{bora_path}, {links} links, idle: {sum(shares.values()):.2%} of a core ({told})")
    assert sum(linked.values()) < 2 * sum(alone.values()) + IDLE_SHARE


class Asking:
    """Sends one short request after the other; `longest` is the time of the slowest answer, in seconds."""

    def __init__(self, net):
        self.net, self.longest, self.count = net, 0.0, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._ask)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def _ask(self):
        while not self.ended.is_set():
            begun = time.monotonic()
            self.net.bora.show("workers")
            self.longest, self.count = max(self.longest, time.monotonic() - begun), self.count + 1
            time.sleep(0.05)


@pytest.mark.parametrize("size", SIZES)
def test_links_that_flap_together(kernel_net, size, say):
    """Their routes go and come back in a large table. The loop answers all the time, and the FIB agrees with Linux."""
    net, flapping = kernel_net, range(FLAPPING[size])
    add_links(net, LINKS[size])
    table = synthetic_table(4, TABLE[size], seed=1)
    routes.write(net.router.name, table_messages(table, [net.host4(1), net.host4(2)]))
    start(net, "engine", 120)

    def way(n):
        return [f"route add 101.{n >> 8}.{n & 255}.0/24 via 100.{n >> 8}.{n & 255}.2"]

    net.router.batch([line for n in flapping for line in way(n)])
    with Asking(net) as asking:
        for _ in range(ROUNDS[size]):
            net.router.batch([f"link set v{n} down" for n in flapping])
            net.router.batch([line for n in flapping for line in [f"link set v{n} up", *way(n)]])
        settled = time.monotonic()
        net.bora.wait_in_sync(120)
        settled = time.monotonic() - settled
    say(f"{len(flapping)} of {LINKS[size]} links flapping beside {len(table)} routes: {asking.count} answers, "
        f"the slowest after {asking.longest:.2f} s; equal to Linux {settled:.1f} s after the end")
    assert "stuck" not in net.bora.output()
    assert asking.longest < STUCK_AFTER and asking.count > 2  # how many depends on how long the links take
    net.bora.check_conservation()


@pytest.mark.slow
def test_clients_that_are_slow(kernel_net, say):
    """Clients that never finish their request or never read the answer do not block others."""
    net = kernel_net
    routes.write(net.router.name, table_messages(synthetic_table(4, 20_000, seed=1), [net.host4(1)]))
    start(net, "engine")
    path = str(runtime_folder(net.router) / "api.sock")
    clients = []
    for n in range(100):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        whole = b"GET /v1/routes HTTP/1.1\r\nHost: x\r\n\r\n"
        client.sendall(whole[: len(whole) // 2] if n % 2 else whole)
        clients.append(client)
    with Asking(net) as asking:
        time.sleep(5)
    for client in clients:
        client.close()
    say(f"beside {len(clients)} slow clients: {asking.count} answers, the slowest after {asking.longest:.2f} s")
    assert asking.count >= 5 and "stuck" not in net.bora.output()
    net.bora.wait_in_sync()
