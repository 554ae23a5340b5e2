"""The steps of a soak: one function for each kind. A step ends in the state in which it began. All its randomness comes
from its `rng`, so that it can be repeated alone."""

import ipaddress
import json
import random
import time

from lib import packets, routes
from lib.bora import binary
from lib.routes import RTM_DELROUTE, RTM_NEWROUTE, message
from lib.traffic import flow_frame
from soak import fuzz
from soak.clients import bad_questions, hanging_handshakes, memif_peer, questions, readers
from soak.neighbours import advertisements, moved_host, neighbours

TYPES = ("blackhole", "unreachable", "prohibit")


class Stage:
    """The network, the counts for the report, and the load that flows during a step."""

    def __init__(self, net, configuration, folder):
        self.net = net
        self.configuration = configuration
        self.folder = folder
        self.counts = {}

    def count(self, what, number=1):
        """Adds to a count of the report."""
        self.counts[what] = self.counts.get(what, 0) + number

    def apply(self, text, check=True):
        """`bora apply` of a text."""
        path = self.folder / "applied.toml"
        path.write_text(text)
        return self.net.router.exec(binary(), "apply", str(path), check=check, timeout=60)

    def leaves_by(self, prefix, link):
        """Sends a packet to the first host of a prefix from behind host 0; whether it leaves by a link."""
        target = str(ipaddress.ip_network(prefix)[1])
        make, source = (packets.udp6, self.net.behind6(0)) if ":" in target else (packets.udp4, self.net.behind4(0))
        return self.net.path_of(make(source, target), timeout=0.3) == link


def _prefixes(rng, count):
    table = routes.synthetic_table(4, 2 * count // 3, rng.random())
    return table + routes.synthetic_table(6, count - len(table), rng.random())


def _gateway(net, prefix, link):
    return ipaddress.ip_address(net.host4(link) if len(prefix) == 4 else net.host6(link)).packed


def _write(net, kind, table, links):
    routes.write(net.router.name, (message(kind, prefix, length, _gateway(net, prefix, link))
                                   for (prefix, length), link in zip(table, links)))


def route_churn(stage, rng):
    """Routes are added, change their gateways, and are removed; for some, packets must leave where Linux says."""
    net, count = stage.net, rng.randrange(50, 4000)
    table = _prefixes(rng, count)
    links = []
    for _ in range(rng.randrange(1, 4)):
        links = [rng.choice((1, 2)) for _ in table]
        _write(net, RTM_NEWROUTE, table, links)
        stage.count("route changes", len(table))
    net.bora.wait_in_sync(20)
    yield
    for prefix, length in rng.sample(table, min(8, len(table))):
        _follow(net, rng, prefix, length)
        stage.count("routes followed as Linux says")
    there = list(zip(table, links))
    rng.shuffle(there)
    _write(net, RTM_DELROUTE, *zip(*there))
    stage.count("route changes", len(table))


def _follow(net, rng, prefix, length):
    width = 8 * len(prefix)
    number = int.from_bytes(prefix, "big") | rng.getrandbits(width - length)
    address = str(ipaddress.ip_address(number.to_bytes(len(prefix), "big")))
    told = json.loads(net.router.ip("-j", "route", "get", address).stdout)[0]["dev"]
    make, source = (packets.udp4, net.behind4(0)) if width == 32 else (packets.udp6, net.behind6(0))
    went = net.path_of(make(source, address))
    assert f"r{went}" == told, f"{address} went to host {went}, Linux says {told}"


def route_types(stage, rng):
    """Routes that refuse packets; Linux answers for them."""
    net = stage.net
    kind, third = rng.choice(TYPES), rng.randrange(256)
    net.router.ip("route", "add", kind, f"203.0.{third}.0/24")
    net.router.ip("-6", "route", "add", kind, f"2001:db8:{third + 4096:x}::/48")
    net.bora.wait_in_sync(20)
    yield
    packet = packets.udp4(net.behind4(0), f"203.0.{third}.9")
    codes = {"unreachable": 1, "prohibit": 13}
    expect = [packets.icmp4_error(3, codes[kind], net.router4(0), packet)] if kind in codes else []
    net.exchange(net.frame(packet), {0: expect} if expect else None)
    stage.count("exceptions as in Linux")
    net.router.ip("route", "del", kind, f"203.0.{third}.0/24")
    net.router.ip("-6", "route", "del", kind, f"2001:db8:{third + 4096:x}::/48")


def flap(stage, rng):
    """An interface goes down and comes up again, several times; the kernel takes its routes away meanwhile."""
    net, link = stage.net, rng.randrange(3)
    for _ in range(rng.randrange(1, 4)):
        net.router.ip("link", "set", f"r{link}", "down")
        time.sleep(rng.random() * 0.7)
        net.configure_link(link)
        time.sleep(rng.random() * 0.7)
        stage.count("interface flaps")
    yield


def far_end_flap(stage, rng):
    """The other end of a cable goes down: the port loses its carrier, its routes stay."""
    net, link = stage.net, rng.choice((1, 2))
    net.namespaces[1 + link].ip("link", "set", f"h{link}", "down")
    time.sleep(rng.random())
    net.namespaces[1 + link].ip("link", "set", f"h{link}", "up")
    net.configure_link(link)
    stage.count("lost carriers")
    yield


def mtu(stage, rng):
    """The MTU of an output changes; Linux's answers change at once."""
    net, octets = stage.net, rng.randrange(1280, 1480)
    net.router.ip("link", "set", "r1", "mtu", str(octets))
    net.bora.wait_in_sync(20)
    stage.count("MTU changes")
    yield
    packet = packets.udp4(net.behind4(0), net.behind4(1), size=octets - 27, flags="DF")
    error = packets.icmp4_error(3, 4, net.router4(0), packet, rest=bytes(2) + octets.to_bytes(2, "big"))
    net.exchange(net.frame(packet), {0: [error]})
    stage.count("exceptions as in Linux")
    net.router.ip("link", "set", "r1", "mtu", "1500")


def kill_9(stage, rng):
    """Bora is killed; the kernel forwards, and the next Bora takes over."""
    net = stage.net
    for _ in range(rng.randrange(1, 3)):
        time.sleep(rng.random() * 0.5)
        net.bora.kill()
        time.sleep(rng.choice((0.0, 0.2, 1.0)) * rng.random())
        net.bora.start()
        stage.count("kill -9 and start")
    yield


def clean_restart(stage, rng):
    """SIGTERM and `bora stop --detach`, then a start."""
    net = stage.net
    net.bora.stop()
    time.sleep(rng.random() * 0.5)
    net.bora.start()
    stage.count("stop and start")
    yield


def ports(stage, rng):
    """A port that the load does not need is removed and added."""
    for _ in range(rng.randrange(1, 4)):
        stage.apply(stage.configuration.text(ports=("r0", "r1")))
        time.sleep(rng.random() * 0.3)
        stage.apply(stage.configuration.text())
        stage.count("ports removed and added")
    yield


def workers(stage, rng):
    """The workers move to other cores and back; each time all workers are replaced."""
    for _ in range(rng.randrange(1, 3)):
        stage.apply(stage.configuration.text(cores=rng.choice(([0], [1], [0, 1]))))
        time.sleep(rng.random() * 0.3)
        stage.apply(stage.configuration.text())
        stage.count("workers replaced")
    yield


def settings(stage, rng):
    """Quotas, budget, mode, classes and rules change, and change back."""
    mode = rng.choice(("poll", "adaptive", f"moderated:{rng.randrange(1, 64)}:{rng.randrange(50, 800)}"))
    more = f'[dscp]\nEF = 1\n[[rule]]\nprotocol = "udp"\nclass = {rng.randrange(2)}\n'
    queues = f'quota = {rng.randrange(1, 200)}\n[port.queues]\nrate = "1Gbit"\nclass = [{{}}, {{}}]\n'
    for _ in range(rng.randrange(1, 4)):
        stage.apply(stage.configuration.text(budget=rng.randrange(32, 300), mode=mode, queues=queues, more=more))
        time.sleep(rng.random() * 0.2)
        stage.apply(stage.configuration.text())
        stage.count("settings applied", 2)
    yield


def bad_apply(stage, rng):
    """Files that must be refused, so that nothing changes."""
    good = stage.configuration.text()
    before = stage.net.router.exec(binary(), "save").stdout
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(good))
        bad = rng.choice((
            good + "[[port]]\nname = \"no-such-if\"\n",
            good[:at] + rng.choice("\0[]{}=\"x") * rng.randrange(1, 4) + good[at:] + "[x",
            good + f"[workers]\nbudget = {rng.choice((-1, 'true', 10 ** 30))}\n",
        ))
        refused = stage.apply(bad, check=False)
        assert refused.returncode != 0, f"accepted: {bad}"
        stage.count("configurations refused")
    assert stage.net.router.exec(binary(), "save").stdout == before
    yield


def exceptions(stage, rng):
    """Packets that Linux must answer or drop, and frames with octets changed at random, among the load."""
    net, count = stage.net, rng.randrange(100, 1000)
    for _ in range(count):
        net.hosts[0].send(_exception(net, rng))
    stage.count("exceptions and damaged frames sent", count)
    yield
    # otherwise Linux continues to ask for damaged addresses
    for family in (4, 6):
        net.router.ip(f"-{family}", "neigh", "flush", "dev", "r0", "nud", "incomplete", check=False)


def _exception(net, rng):
    v6 = rng.random() < 0.4
    make, source, target = (packets.udp6, net.behind6(0), net.behind6(2)) if v6 else (packets.udp4, net.behind4(0), net.behind4(2))
    kind = rng.randrange(6)
    if kind == 0:
        return net.frame(make(source, target, **{"hlim" if v6 else "ttl": rng.randrange(2)}))
    if kind == 1:
        return net.frame(make(source, "2001:db8:dead::1" if v6 else "203.0.113.7"))
    if kind == 2:
        return net.frame(make(source, target, size=1300))  # the MTU of link 2 is 1280
    if kind == 3:
        return net.frame(make(source, net.router6(0) if v6 else net.router4(0)))
    frame = bytearray(net.frame(make(source, target, size=rng.randrange(8, 600))))
    # keep the MAC addresses, because the router ignores frames of other stations
    for _ in range(rng.randrange(1, 8)):
        frame[rng.randrange(12, len(frame))] = rng.randrange(256)
    return bytes(frame[:rng.randrange(14, len(frame) + 1)] if kind == 5 else frame)


def fuzzing(stage, rng):
    """Runs one fuzz target for a short time beside the load."""
    targets = fuzz.targets()
    name = rng.choice(sorted(targets)) if targets else None
    seed = rng.randrange(1, 1 << 31)
    if name is not None:
        stage.count(f"fuzz {name}", fuzz.slice_of(name, targets[name], seed, stage.folder))
    yield


# Each kind of step, and what it may cost the load: "quiet" steps lose nothing, others may interrupt forwarding.
QUIET, HANDS_OVER, CUTS = "quiet", "hands over", "cuts"
STEPS = {
    route_churn: (QUIET, 4), route_types: (QUIET, 2), neighbours: (QUIET, 1), flap: (CUTS, 2), far_end_flap: (CUTS, 1),
    mtu: (QUIET, 1), kill_9: (HANDS_OVER, 3), clean_restart: (HANDS_OVER, 1), ports: (QUIET, 2), workers: (QUIET, 2),
    settings: (QUIET, 2), bad_apply: (QUIET, 1), questions: (QUIET, 1), bad_questions: (QUIET, 1), exceptions: (QUIET, 3),
    fuzzing: (QUIET, 2), memif_peer: (QUIET, 1), readers: (QUIET, 1), hanging_handshakes: (QUIET, 1), moved_host: (QUIET, 1),
    advertisements: (QUIET, 1),
}
ENGINE_ONLY = (workers, settings, memif_peer)


def choose(rng, tier):
    """Chooses a kind of step."""
    kinds = [kind for kind in STEPS if tier.startswith("engine") or kind not in ENGINE_ONLY]
    return rng.choices(kinds, [STEPS[kind][1] for kind in kinds])[0]


def as_linux(net, rng: random.Random):
    """Sends frames whose treatment by Linux is known, and compares the answers whole."""
    for family in ("-4", "-6"):  # Linux asks three times, a second apart, for hosts that do not exist
        net.router.ip(family, "neigh", "flush", "nud", "incomplete")
    time.sleep(0.05)
    make = ((packets.udp4, net.behind4, net.router4, packets.icmp4_error, 11), (packets.udp6, net.behind6, net.router6, packets.icmp6_error, 3))
    one, other = rng.sample(range(3), 2)
    for build, behind, router, error, time_exceeded in make:
        packet = build(behind(one), behind(other), size=rng.randrange(10, 1000))
        net.exchange(net.frame(packet, one), {other: [net.forwarded(packet, other)]}, link=one)
        late = build(behind(one), behind(other), 1)
        net.exchange(net.frame(late, one), {one: [error(time_exceeded, 0, router(one), late)]}, link=one)


def load_frames(net, flows=8):
    """The load's frames: IPv4 and IPv6 from behind host 0 to behind host 1."""
    return [flow_frame(net, number, 6 if number % 2 else 4) for number in range(flows)]
