"""Policy routing: with the same rules and routes, packets take the same path through Bora as through Linux alone."""

import itertools
import random
import threading
import time

import pytest

from lib import packets
from lib.packets import udp4, udp6
from lib.topology import BEHIND4, BEHIND6, Network

SEED = 7
RANDOM_SETS, RANDOM_PACKETS = 12, 12
FAMILIES = (4, 6)
TABLE = 100


class Pair:
    """A network with Bora and one with Linux alone, configured alike."""

    def __init__(self, path):
        self.path = path
        self.oracle = Network("kernel")
        try:
            self.net = Network(path)
        except BaseException:
            self.oracle.close()
            raise

    def ip(self, command):
        for net in (self.oracle, self.net):
            net.router.ip(*command.split())

    def settle(self):
        self.net.bora.wait_in_sync()

    def reset(self):
        """Removes all rules and tables of a test."""
        for net in (self.oracle, self.net):
            for family in FAMILIES:
                rules = net.router.ip(f"-{family}", "rule", "show").stdout.splitlines()
                for priority in {int(line.split(":")[0]) for line in rules} - {0, 32766, 32767}:
                    while net.router.ip(f"-{family}", "rule", "del", "pref", str(priority), check=False).returncode == 0:
                        pass
                for table in (TABLE, TABLE + 1):
                    net.router.ip(f"-{family}", "route", "flush", "table", str(table), check=False)
        self.settle()

    def paths(self, packet, link=0):
        """Where the packet comes out: Linux alone, Bora."""
        return tuple(net.path_of(packet, link, timeout=0.1) for net in (self.oracle, self.net))

    def close(self):
        self.net.close()
        self.oracle.close()


@pytest.fixture(scope="module")
def both(bora_path):
    pair = Pair(bora_path)
    yield pair
    pair.close()


@pytest.fixture
def pair(both):
    yield both
    both.reset()
    both.net.bora.check_conservation()


def gateway(family, link):
    return Network.host4(link) if family == 4 else Network.host6(link)


def behind(family, link, number):
    return str((BEHIND4 if family == 4 else BEHIND6)[link][number])


def udp(family, **header):
    """From behind host 0 to behind host 1, unless the header says otherwise."""
    make = udp4 if family == 4 else udp6
    tos = header.pop("tos", 0)
    header["tos" if family == 4 else "tc"] = tos
    return make(header.pop("src", behind(family, 0, 5)), header.pop("dst", behind(family, 1, 5)), **header)


def prepare(pair, family):
    """Table 100 sends everything to host 2."""
    pair.ip(f"-{family} route add default via {gateway(family, 2)} table {TABLE}")


NET = {4: ("198.18.7.0/24", "198.18.7.9", "198.19.7.0/24", "198.19.7.9"),
       6: ("2001:db8:f0::700/120", "2001:db8:f0::709", "2001:db8:f1::700/120", "2001:db8:f1::709")}

# name: (rule, what the packet is that it is for, what one is that it is not for); the rule's packets go to host 2
SELECTORS = {
    "from": ("from {src_net}", {"src": 1}, {}),
    "to": ("to {dst_net}", {"dst": 3}, {}),
    "not from": ("not from {src_net}", {}, {"src": 1}),
    "iif": ("iif r0", {}, None),
    "iif of another": ("iif r2", None, {}),
    "oif": ("oif r1", None, {}),
    "mark": ("fwmark 7", None, {}),
    "mark with mask 0": ("fwmark 0/0xff", {}, None),
    "ipproto": ("ipproto udp", {}, None),
    "another ipproto": ("ipproto tcp", None, {}),
    "dport": ("ipproto udp dport 4000-4999", {"dport": 4500}, {"dport": 5000}),
    "sport": ("sport 77", {"sport": 77}, {"sport": 78}),
    "not dport": ("not dport 4500", {"dport": 4501}, {"dport": 4500}),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", SELECTORS)
def test_selectors(pair, name, family):
    """A rule's packets, and only they, are looked up in its table, by Bora itself."""
    rule, inside, outside = SELECTORS[name]
    values = NET[family]
    prepare(pair, family)
    pair.ip(f"-{family} rule add pref 100 {rule.format(src_net=values[0], dst_net=values[2])} table {TABLE}")
    pair.settle()
    for wanted, header in ((2, inside), (1, outside)):
        if header is None:
            continue
        header = {key: values[value] if key in ("src", "dst") else value for key, value in header.items()}
        before = pair.net.bora.totals()["sent"]
        paths = [pair.paths(udp(family, **header)) for _ in range(3)]
        assert paths == [(wanted, wanted)] * 3, (rule, header)
        sent = pair.net.bora.totals()["sent"] - before
        assert sent == 3, f"Bora has sent {sent} of 3 packets"


def test_tos(pair):
    """TOS decides; only the bits that Linux looks at count."""
    prepare(pair, 4)
    pair.ip(f"rule add pref 100 tos 0x10 table {TABLE}")
    pair.settle()
    for tos, wanted in ((0x10, 2), (0x13, 2), (0x00, 1), (0x08, 1)):
        assert pair.paths(udp(4, tos=tos)) == (wanted, wanted), hex(tos)
    for tos in (0x30, 0x50):  # bits that kernels differ in
        ours = pair.paths(udp(4, tos=tos))
        assert ours[0] == ours[1], hex(tos)


# name: (rules, path of a packet; None: not forwarded)
ACTIONS = {
    "blackhole": (["pref 100 blackhole"], None),
    "unreachable": (["pref 100 unreachable"], None),
    "prohibit": (["pref 100 prohibit"], None),
    "goto": (["pref 100 goto 300", "pref 200 blackhole", "pref 300 table 100"], 2),
    "goto nowhere": (["pref 100 goto 301", "pref 200 table 100"], 2),
    "nop": (["pref 100 nop", "pref 200 table 100"], 2),
    "empty table": (["pref 100 table 101", "pref 200 table 100"], 2),
    "main first": (["pref 100 table main", "pref 200 table 100"], 1),
    "main without default": (["pref 100 table main suppress_prefixlength 0", "pref 200 table 100"], 1),
    "suppressed": (["pref 100 table 100 suppress_prefixlength 0"], 1),
    "suppressed more": (["pref 100 table 100 suppress_prefixlength 8"], 1),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ACTIONS)
def test_actions(pair, name, family):
    """What rules do with their packets."""
    rules, wanted = ACTIONS[name]
    prepare(pair, family)
    for rule in rules:
        if pair.oracle.router.ip(f"-{family}", "rule", "add", *rule.split(), check=False).returncode != 0:
            pytest.skip("this kernel does not know the rule")
        pair.net.router.ip(f"-{family}", "rule", "add", *rule.split())
    pair.settle()
    assert pair.paths(udp(family)) == (wanted, wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_main_suppressed(pair, family):
    """`table main suppress_prefixlength 0`: only main's default route does not count (as of VPN scripts)."""
    prepare(pair, family)
    far = "203.0.113.9" if family == 4 else "2001:db8:dead::9"
    pair.ip(f"-{family} route add default via {gateway(family, 1)}")
    try:
        pair.ip(f"-{family} rule add pref 100 table main suppress_prefixlength 0")
        pair.ip(f"-{family} rule add pref 200 table {TABLE}")
        pair.settle()
        assert pair.paths(udp(family, dst=far)) == (2, 2)
        assert pair.paths(udp(family)) == (1, 1)
    finally:
        pair.ip(f"-{family} route del default via {gateway(family, 1)}")


@pytest.mark.parametrize("family", FAMILIES)
def test_throw_and_unreachable(pair, family):
    """In a table: throw goes on with the next rule, unreachable ends."""
    prepare(pair, family)
    src_net, source, dst_net, destination = NET[family]
    pair.ip(f"-{family} route add throw {dst_net} table {TABLE}")
    pair.ip(f"-{family} rule add pref 100 table {TABLE}")
    pair.settle()
    assert pair.paths(udp(family, dst=destination)) == (1, 1)
    assert pair.paths(udp(family)) == (2, 2)
    pair.ip(f"-{family} route del throw {dst_net} table {TABLE}")
    pair.ip(f"-{family} route add unreachable {dst_net} table {TABLE}")
    pair.settle()
    assert pair.paths(udp(family, dst=destination)) == (None, None)


def random_rule(chance, family):
    """A rule as `ip rule add` takes it."""
    values = NET[family]
    words = []
    if chance.random() < 0.4:
        words += [chance.choice(["from", "not from"]), values[0]]
    elif chance.random() < 0.4:
        words += ["to", values[2]]
    if chance.random() < 0.3:
        words += ["iif", chance.choice(["r0", "r2"])]
    if chance.random() < 0.3:
        words += ["ipproto", chance.choice(["udp", "tcp"])]
    if chance.random() < 0.3:
        words += [chance.choice(["sport", "dport"]), chance.choice(["53", "4000-4500"])]
    if family == 4 and chance.random() < 0.2:
        words += ["tos", "0x10"]
    action = chance.choice(["table 100", "table 100", "table 101", "table main", "prohibit",
                            "table main suppress_prefixlength 0", "table 100 suppress_prefixlength 0"])
    return " ".join([*words, action])


@pytest.mark.parametrize("family", FAMILIES)
def test_random_rules(pair, family):
    """Random rules and packets: the paths are those of Linux alone."""
    chance = random.Random(SEED + family)
    values = NET[family]
    for number in range(RANDOM_SETS):
        pair.ip(f"-{family} route add {values[2]} via {gateway(family, 2)} table {TABLE}")
        if number % 2:
            pair.ip(f"-{family} route add default via {gateway(family, 1)} table {TABLE}")
        pair.ip(f"-{family} route add default via {gateway(family, 2)} table {TABLE + 1}")
        rules = [random_rule(chance, family) for _ in range(5)]
        for priority, rule in enumerate(rules):
            pair.ip(f"-{family} rule add pref {100 + priority} {rule}")
        pair.settle()
        for _ in range(RANDOM_PACKETS):
            header = {"sport": chance.choice([53, 4200, 9]), "dport": chance.choice([53, 4200, 9]),
                      "tos": chance.choice([0, 0x10]) if family == 4 else 0}
            if chance.random() < 0.5:
                header["src"] = values[1]
            if chance.random() < 0.5:
                header["dst"] = values[3]
            linux, bora = pair.paths(udp(family, **header))
            assert linux == bora, f"Linux: {linux}, Bora: {bora}: {header} with {rules}"
        pair.reset()


@pytest.mark.parametrize("family", FAMILIES)
def test_changes_under_traffic(pair, family):
    """A rule comes and goes under traffic: no packet is lost, and each goes to host 1 or host 2."""
    prepare(pair, family)
    pair.settle()
    net = pair.net
    sent, end = itertools.count(), threading.Event()
    for port in net.hosts:
        port.drain()

    def send():
        while not end.wait(0.002):
            net.hosts[0].send(net.frame(udp(family)))
            next(sent)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        rule = f"-{family} rule {{}} pref 100 to {behind(family, 1, 5)} table {TABLE}"
        for _ in range(10):
            net.router.ip(*rule.format("add").split())
            time.sleep(0.1)
            net.router.ip(*rule.format("del").split())
            time.sleep(0.1)
    finally:
        end.set()
        thread.join()
    count = next(sent)
    got = [host for host, frame in net.collect(None, 2.0, quiet=0.3) if packets.version(frame[14:]) == family]
    assert len(got) == count and set(got) == {1, 2}, f"{len(got)} of {count} came: {set(got)}"


def test_routes_of_a_table_change(pair):
    """Routes of a further table come, change and go; `show sync --verify` compares them, `show tables` counts them."""
    pair.ip(f"rule add pref 100 table {TABLE}")
    pair.settle()
    assert pair.paths(udp(4)) == (1, 1)
    for link in (2, 1, 2):
        pair.ip(f"route replace {BEHIND4[1]} via {gateway(4, link)} table {TABLE}")
        pair.settle()
        assert pair.paths(udp(4)) == (link, link)
    [further] = pair.net.bora.show("route", behind(4, 1, 5))["further"]
    assert (further["prefix"], further["table"]) == (str(BEHIND4[1]), str(TABLE)), further
    tables = pair.net.bora.show("tables")
    assert [(one["table"], one["prefixes4"]) for one in tables["tables"]] == [(TABLE, 1)], tables
    pair.ip(f"route del {BEHIND4[1]} table {TABLE}")
    pair.settle()
    assert pair.paths(udp(4)) == (1, 1)
    note = pair.net.bora.show("route", behind(4, 1, 5))["note"]
    assert "r0, r1, r2" in note, note


def test_neighbours_of_a_table(pair):
    """A connected route of a further table: hosts get next hops of their own there."""
    pair.ip(f"route add 10.0.2.0/24 dev r2 table {TABLE}")
    pair.ip(f"rule add pref 100 table {TABLE}")
    pair.ip("route add blackhole 10.0.2.2/32")
    try:
        pair.settle()
        before = pair.net.bora.totals()["sent"]
        assert pair.paths(udp(4, dst="10.0.2.2")) == (2, 2)
        assert pair.net.bora.totals()["sent"] == before + 1
    finally:
        pair.ip("route del blackhole 10.0.2.2/32")


@pytest.mark.parametrize("mode", [1, 2])
def test_source_check(pair, mode):
    """rp_filter looks up sources by the rules, too."""
    source_net, source, *_ = NET[4]
    for net in (pair.oracle, pair.net):
        net.sysctl("ipv4/conf/r0/rp_filter", mode)
    try:
        pair.net.settle()
        pair.ip(f"route add {source_net} via {gateway(4, 2)} table {TABLE}")
        pair.ip(f"rule add pref 100 to {source_net} table {TABLE}")
        pair.settle()
        linux, bora = pair.paths(udp(4, src=source))
        assert linux == bora == (None if mode == 1 else 1)
        assert pair.paths(udp(4)) == (1, 1)
    finally:
        for net in (pair.oracle, pair.net):
            net.undo()


def test_what_cannot_be_compiled_is_named(pair):
    """A rule that Bora does not compile leaves only its packets to Linux, and says so."""
    prepare(pair, 4)
    source_net, source, *_ = NET[4]
    pair.ip(f"rule add pref 100 from {source_net} table {TABLE} suppress_prefixlength 4")
    pair.settle()
    assert pair.paths(udp(4, src=source)) == (1, 1)
    left = pair.net.bora.show("tables")["left_to_linux"]
    assert len(left) == 1 and "ip rule 100" in left[0], left
    before = pair.net.bora.totals()["sent"]
    assert pair.paths(udp(4)) == (1, 1)
    assert pair.net.bora.totals()["sent"] == before + 1
