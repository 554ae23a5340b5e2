"""Four simulated HERO cards under `bora run`: what Linux answers, what engine and cards forward, and which destinations
move between engine and cards. The cards run in virtual time, some hundred times slower than real ones."""

import hashlib
import os
import socket
import struct
import threading
import time

import pytest

from lib import required
from lib.bora import hero_binary
from lib.hero import CARDS, HeroNetwork, model
from lib.netns import inside
from lib.ping import ping

pytestmark = [pytest.mark.bora, pytest.mark.alone]
PATIENCE = 60
PORT = 9000


def needs_model():
    """Skips without the cards' library."""
    if not model().exists():
        required.skip(f"no {model()}: `make hero-model` builds it")


@pytest.fixture(scope="module", params=["no", "yes"], ids=["slow path", "fast path"])
def net(request):
    needs_model()
    network = HeroNetwork(f",offload={request.param}")
    network.offload = request.param == "yes"
    yield network
    network.close()


@pytest.fixture(scope="module")
def fast():
    needs_model()
    network = HeroNetwork()
    yield network
    network.close()


def wait_for(what, look, seconds=PATIENCE):
    """The first true answer of `look`."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"no {what} in {seconds} s"
        time.sleep(0.05)
    return found


class Sink:
    """Receives `Flow`s at an address, and records their numbers."""

    def __init__(self, namespace, address):
        with inside(namespace.name):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind((address, PORT))
        self.socket.settimeout(0.1)
        self.numbers, self.twice = set(), 0
        self.stopping = False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.stopping:
            try:
                number, = struct.unpack("!I", self.socket.recv(2048)[:4])
            except TimeoutError:
                continue
            self.twice += number in self.numbers
            self.numbers.add(number)

    def close(self):
        self.stopping = True
        self.thread.join()
        self.socket.close()


class Flow:
    """Sends numbered packets at a rate until closed."""

    def __init__(self, namespace, address, rate, size=100, first=0):
        with inside(namespace.name):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address, self.rate, self.size, self.first = address, rate, size, first
        self.sent = 0
        self.stopping = False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        start = time.monotonic()
        while not self.stopping:
            self.socket.sendto(struct.pack("!I", self.first + self.sent) + bytes(self.size - 4), (self.address, PORT))
            self.sent += 1
            time.sleep(max(0, start + self.sent / self.rate - time.monotonic()))

    def close(self):
        self.stopping = True
        self.thread.join()
        self.socket.close()


class Parts:
    """Collects flows and sinks, and closes them at the end, flows first."""

    def __init__(self):
        self.parts = []

    def add(self, part):
        self.parts.append(part)
        return part

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for part in sorted(self.parts, key=lambda part: isinstance(part, Sink)):
            part.close()


def transfer(source, target, address, data):
    """Sends data by TCP; returns a digest of what arrived."""
    with inside(target.name):
        listener = socket.create_server((address, PORT))
    digest = hashlib.sha256()

    def take():
        with listener.accept()[0] as connection:
            connection.settimeout(PATIENCE)
            while octets := connection.recv(65536):
                digest.update(octets)

    with listener:
        listener.settimeout(PATIENCE)
        taker = threading.Thread(target=take)
        taker.start()
        with inside(source.name):
            sender = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with sender:
            sender.settimeout(PATIENCE)
            sender.connect((address, PORT))
            sender.sendall(data)
            sender.shutdown(socket.SHUT_WR)
            taker.join()
    return digest.digest()


def test_all_hosts_reach_each_other(net):
    """ARP and ND by Linux on the twins, transit by engine or cards."""
    for source in range(CARDS):
        assert ping(net.hosts[source], f"10.0.{source}.1", 2), "the router itself"
        for target in range(CARDS):
            if source != target:
                assert ping(net.hosts[source], f"10.0.{target}.2", 3, size=600), (source, target)
                assert ping(net.hosts[source], f"2001:db8:{target}::2", 3), (source, target)
        neighbour = net.hosts[source].ip("neigh", "show", f"10.0.{source}.1").stdout
        assert net.port(source)["mac"] in neighbour
    net.bora.wait_in_sync()
    for size in (56, 1472):
        assert len(ping(net.hosts[0], "10.0.2.2", 50, size=size, interval=0.01, patience=30)) == 50


@pytest.mark.slow
def test_tcp_both_ways(net, say):
    data = os.urandom(400_000)
    for source, target in ((0, 3), (3, 0), (1, 2)):
        start = time.monotonic()
        assert transfer(net.hosts[source], net.hosts[target], f"10.0.{target}.2", data) == hashlib.sha256(data).digest()
        rate = len(data) * 8 / (time.monotonic() - start) / 1e6
        say(f"TCP from host {source} to {target}: {rate:.1f} Mbit/s of wall clock")
    by_cards = sum(net.card(number, "fast_path") for number in range(CARDS))
    assert (by_cards > 0) == net.offload, by_cards


@pytest.mark.slow
def test_udp_without_loss(net, say):
    """Three simultaneous flows of 300 packets/s each lose nothing."""
    assert ping(net.hosts[1], "10.0.3.2", 2)
    with Parts() as parts:
        sinks = [parts.add(Sink(net.hosts[target], f"10.0.{target}.2")) for target in (2, 3, 0)]
        flows = [parts.add(Flow(net.hosts[source], f"10.0.{target}.2", 300))
                 for source, target in ((0, 2), (1, 3), (2, 0))]
        time.sleep(4)
        for flow, sink in zip(flows, sinks):
            flow.close()
            wait_for("last packet", lambda: len(sink.numbers) == flow.sent)
            assert sink.twice == 0
    on_fast = {port for port, _ in net.fast()}
    say(f"on the fast path: {sorted(net.fast())}")
    assert bool(on_fast) == net.offload


def test_traceroute(net):
    """Like traceroute: TTL 1 ends in the router, TTL 2 at the host, whichever tier forwards."""
    for source, target in ((0, 1), (2, 3)):
        assert ping(net.hosts[source], f"10.0.{target}.2", 2)
        with inside(net.hosts[source].name):
            errors = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with errors, probe:
            errors.settimeout(PATIENCE)
            for ttl, hop, kind in ((1, f"10.0.{source}.1", 11), (2, f"10.0.{target}.2", 3)):
                probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
                probe.sendto(b"x" * 20, (f"10.0.{target}.2", 33434 + ttl))
                answer, sender = errors.recvfrom(2048)
                assert (sender[0], answer[20]) == (hop, kind)


def test_every_loss_is_counted(net, say):
    totals = net.bora.check_conservation(30)
    say(f"{totals}")
    for number in range(CARDS):
        port = net.port(number)
        card = port["card"]
        received = card.get("fast_path", 0) + card.get("to_host", 0)
        drops = {key: value for key, value in port["dropped_by_reason"].items() if key in card}
        assert card["received"] == received + sum(drops.values()), port
        assert card.get("bus_error", 0) == 0 and card.get("resets", 0) == 0


@pytest.mark.slow
def test_the_busiest_destination_moves_to_the_fast_path(fast, say):
    """Two hosts behind one card share one slot: the busier one gets it, and the move loses nothing."""
    fast.hosts[1].ip("address", "add", "10.0.1.3/24", "dev", "eth0")
    assert ping(fast.hosts[0], "10.0.1.2", 2) and ping(fast.hosts[0], "10.0.1.3", 2)
    with Parts() as parts:
        sinks = [parts.add(Sink(fast.hosts[1], f"10.0.1.{end}")) for end in (2, 3)]
        flows = [parts.add(Flow(fast.hosts[0], f"10.0.1.{end}", rate)) for end, rate in ((2, 40), (3, 200))]
        wait_for("10.0.1.3 on the fast path", lambda: fast.fast().get(("hero0", "10.0.1.3/32")) == "hero1")
        wait_for("packets by the card", lambda: fast.card(0, "fast_path") > 100)
        assert ("hero0", "10.0.1.2/32") not in fast.fast()
        slow = [one for one in fast.bora.show("offload") if one["path"] == "slow" and one["port"] == "hero0"]
        assert any(one["destination"] == "10.0.1.2/32" and "less busy" in one["why"] for one in slow), slow
        for flow in flows:
            flow.close()
        again = parts.add(Flow(fast.hosts[0], "10.0.1.2", 200, first=1_000_000))
        wait_for("10.0.1.2 on the fast path", lambda: fast.fast().get(("hero0", "10.0.1.2/32")) == "hero1")
        assert ("hero0", "10.0.1.3/32") not in fast.fast()
        again.close()
        sent = [flows[0].sent + again.sent, flows[1].sent]
        wait_for("last packets", lambda: [len(sink.numbers) for sink in sinks] == sent)
        say(f"{sent[0]} and {sent[1]} packets, each once")
        assert all(sink.twice == 0 for sink in sinks)


def on_fast_path(network, destination="198.51.100.0/24"):
    return ("hero0", destination) in network.fast()


@pytest.fixture
def beyond(fast):
    """A network behind host 1, on the fast path to its card; hosts 2 and 3 can reach it too."""
    for number in (1, 2, 3):
        fast.hosts[number].ip("address", "replace", "198.51.100.1/32", "dev", "lo")
    for number in range(CARDS):
        assert number == 0 or ping(fast.hosts[0], f"10.0.{number}.2", 2)
    fast.router.ip("route", "replace", "198.51.100.0/24", "via", "10.0.1.2")
    with Parts() as parts:
        fast.sinks = [None] + [parts.add(Sink(fast.hosts[n], "198.51.100.1")) for n in (1, 2, 3)]
        fast.flow = parts.add(Flow(fast.hosts[0], "198.51.100.1", 150))
        wait_for("the network on the fast path", lambda: on_fast_path(fast))
        yield fast
        fast.flow.close()
        wait_for("last packet", lambda: len(set().union(*(sink.numbers for sink in fast.sinks[1:]))) == fast.flow.sent)
        assert sum(len(sink.numbers) + sink.twice for sink in fast.sinks[1:]) == fast.flow.sent, "each packet once"
        fast.flow = None
    fast.router.ip("route", "flush", "198.51.100.0/24", check=False)
    fast.router.ip("route", "del", "198.51.100.0/24", check=False)


def leaves(network, seconds=5):
    """Waits until the destination is off the fast path. It stays off until busy ones are chosen again, once a second."""
    deadline = time.monotonic() + seconds
    while on_fast_path(network):
        assert time.monotonic() < deadline, network.bora.show("offload")


def test_a_changed_route_leaves_the_fast_path_at_once(beyond):
    """Packets follow the new route, none is lost, and the new route moves to the fast path by itself."""
    beyond.router.ip("route", "replace", "198.51.100.0/24", "via", "10.0.2.2")
    wait_for("packets on the new way", lambda: len(beyond.sinks[2].numbers) > 5)
    old = len(beyond.sinks[1].numbers)
    wait_for("the new way on the fast path", lambda: beyond.fast().get(("hero0", "198.51.100.0/24")) == "hero2")
    wait_for("more packets", lambda: len(beyond.sinks[2].numbers) > 50)
    assert len(beyond.sinks[1].numbers) == old


def test_linux_says_what_the_card_does(beyond):
    """What a card forwards by itself is proved as it does it."""
    proof = beyond.bora.prove()
    assert proof["progress"]["differ"] == 0, proof["differences"][:3]
    assert on_fast_path(beyond) and proof["progress"]["same"] > 0, proof["progress"]


def test_a_more_specific_route_is_not_hidden(beyond):
    """Cards use the first match, not the longest: a prefix leaves the fast path when a more specific one appears."""
    beyond.router.ip("route", "add", "198.51.100.1/32", "via", "10.0.3.2")
    wait_for("packets on the specific way", lambda: len(beyond.sinks[3].numbers) > 5)
    assert not on_fast_path(beyond)
    wait_for("the specific one on the fast path", lambda: on_fast_path(beyond, "198.51.100.1/32"))
    assert not on_fast_path(beyond)
    beyond.router.ip("route", "del", "198.51.100.1/32")
    wait_for("the wider one again", lambda: beyond.fast().get(("hero0", "198.51.100.0/24")) == "hero1")


@pytest.mark.parametrize("what", ["nft", "mtu", "rp_filter"])
def test_a_destination_that_a_card_must_not_forward(beyond, what):
    """A forward chain, a small MTU or a source check keeps the destination off the fast path."""
    router = beyond.router
    on, off, why = {
        "nft": (lambda: router.exec("nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }"),
                lambda: router.exec("nft", "delete table ip t"), "Linux has a say"),
        "mtu": (lambda: router.ip("link", "set", "hero1", "mtu", "1400"),
                lambda: router.ip("link", "set", "hero1", "mtu", "1500"), "MTU"),
        "rp_filter": (lambda: router.set_sysctl("net/ipv4/conf/hero0/rp_filter", 1),
                      lambda: router.set_sysctl("net/ipv4/conf/hero0/rp_filter", 0), "rp_filter"),
    }[what]
    on()
    try:
        leaves(beyond)
        count = len(beyond.sinks[1].numbers)
        wait_for("packets on the slow path", lambda: len(beyond.sinks[1].numbers) > count + 200)
        assert not on_fast_path(beyond)
        slow = [one for one in beyond.bora.show("offload") if one["port"] == "hero0" and one["path"] == "slow"]
        assert any(why in one["why"] for one in slow), slow
    finally:
        off()
    wait_for("the fast path again", lambda: on_fast_path(beyond))


def test_a_port_that_goes_down_gives_its_traffic_to_another(beyond):
    """The kernel takes the next best route; Bora and its cards follow."""
    beyond.router.ip("route", "add", "198.51.100.0/24", "via", "10.0.2.2", "metric", "100")
    beyond.bora.wait_in_sync()
    # change the route first, because a port that is down drops its last packets, as in Linux
    beyond.router.ip("route", "del", "198.51.100.0/24", "metric", "0")
    wait_for("the other way", lambda: beyond.fast().get(("hero0", "198.51.100.0/24")) == "hero2")
    beyond.router.ip("link", "set", "hero1", "down")
    wait_for("a port that is down", lambda: beyond.port(1)["state"] == "down")
    assert beyond.fast().get(("hero0", "198.51.100.0/24")) == "hero2", "the fast path does not use that port"
    beyond.configure(1)
    wait_for("the port", lambda: beyond.port(1)["state"] == "up")


def test_a_neighbour_that_stops_answering(fast):
    """Without a neighbour there is no fast path. Linux resolves it again, and the fast path comes back."""
    fast.router.ip("route", "replace", "203.0.113.0/24", "via", "10.0.3.2")
    fast.hosts[3].ip("address", "replace", "203.0.113.1/32", "dev", "lo")
    assert ping(fast.hosts[0], "203.0.113.1", 2)
    with Parts() as parts:
        sink = parts.add(Sink(fast.hosts[3], "203.0.113.1"))
        parts.add(Flow(fast.hosts[0], "203.0.113.1", 100))
        wait_for("the network on the fast path", lambda: on_fast_path(fast, "203.0.113.0/24"))
        # a host gets another address of its card
        fast.hosts[3].ip("link", "set", "eth0", "down")
        fast.hosts[3].ip("link", "set", "eth0", "address", "02:00:00:00:33:03")
        fast.configure(3)
        fast.router.ip("neigh", "flush", "dev", "hero3")
        count = len(sink.numbers)
        wait_for("packets to the new address", lambda: len(sink.numbers) > count + 100)
        wait_for("the fast path again", lambda: on_fast_path(fast, "203.0.113.0/24"))
        by_card = fast.card(0, "fast_path")
        wait_for("packets by the card", lambda: fast.card(0, "fast_path") > by_card + 100)


@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two CPUs")
def test_two_workers_and_a_port_that_is_removed(say, tmp_path):
    """Both workers use every card. When `bora apply` removes a card, only its routes leave the fast path."""
    needs_model()
    network = HeroNetwork(more=("--cores", "0,1"))
    try:
        with Parts() as parts:
            assert ping(network.hosts[0], "10.0.1.2", 2) and ping(network.hosts[0], "10.0.2.2", 2)
            sinks = [parts.add(Sink(network.hosts[target], f"10.0.{target}.2")) for target in (1, 2)]
            flows = [parts.add(Flow(network.hosts[0], f"10.0.{target}.2", 100)) for target in (1, 2)]
            for target in (1, 2):
                wait_for("both on the fast path", lambda: ("hero0", f"10.0.{target}.2/32") in network.fast())
            head, *ports = network.router.exec(hero_binary(), "save").stdout.split("[[port]]")
            kept = [port for port in ports if 'name = "hero1"' not in port]
            assert len(kept) == CARDS - 1
            (tmp_path / "bora.toml").write_text("[[port]]".join([head, *kept]))
            say(network.router.exec(hero_binary(), "apply", str(tmp_path / "bora.toml")).stdout.strip())
            assert ("hero0", "10.0.1.2/32") not in network.fast()
            assert ("hero0", "10.0.2.2/32") in network.fast()
            flows[1].close()
            wait_for("last packet", lambda: len(sinks[1].numbers) == flows[1].sent)
        network.bora.check_conservation(30)
    finally:
        network.close()
