"""Express goes by Bora's FIB, and by Linux's where Bora's does not say; the kernel's `ip route get` is the judge."""

import ipaddress
import random
import time

import pytest

from test_full_table import COUNT, START_SECONDS, gateways, write
from lib import routes
from lib.bora import Bora
from lib.churn import Churn
from lib.packets import udp4, udp6
from lib.routes import RTM_NEWROUTE, synthetic_table
from lib.traffic import both_families, load

pytestmark = pytest.mark.bora

ROUNDS = 6
MOVED = 5000  # routes of each family that get another gateway in a round
SAMPLES = 40  # samples of these, and as many of the others
SYNC_SECONDS = 30


@pytest.fixture
def express(kernel_net, tmp_path):
    """Starts express with this many MiB for nodes of the FIB."""

    def start(memory=16):
        config = tmp_path / "bora.toml"
        ports = "".join(f'[[port]]\nname = "{port}"\n' for port in ("r0", "r1", "r2"))
        config.write_text(f'path = "express"\n{ports}[fib]\nexpress_memory = {memory}\n')
        kernel_net.bora = Bora(kernel_net.router, [], None, ["--config", str(config)])
        kernel_net.bora.start()
        kernel_net.bora.wait_in_sync(START_SECONDS)
        return kernel_net

    return start


def asked(net):
    """Packets for which Linux's FIB was asked."""
    return sum(port["asked"] for port in net.bora.show("ports"))


def ways(net):
    """What `bora show sync` says of express."""
    return net.bora.show("sync")["express"]


def inside(source, prefix, length):
    """A random address of a prefix."""
    host_part = source.randrange(1 << (8 * len(prefix) - length))
    number = int.from_bytes(prefix, "big") | host_part
    return str(ipaddress.ip_address(number.to_bytes(len(prefix), "big")))


def compare(net, addresses):
    """Packets to these addresses leave where the kernel's routes lead."""
    for address in addresses:
        v6 = ":" in address
        answer = net.router.ip(f"-{6 if v6 else 4}", "route", "get", address).stdout
        wanted = 1 if "dev r1" in answer else 2 if "dev r2" in answer else None
        packet = udp6(net.behind6(0), address) if v6 else udp4(net.behind4(0), address)
        assert net.path_of(packet, timeout=0.5) == wanted, f"{address}: {answer}"


@pytest.fixture(scope="module")
def tables():
    return {family: synthetic_table(family, COUNT[family], seed=family) for family in (4, 6)}


@pytest.mark.slow
def test_next_hops_under_changes(express, tables, say):
    """A full table whose routes move between two gateways: each packet takes the way that the kernel would."""
    net = express(32)  # the table of the tests is less regular than the Internet's
    write(net, tables)
    net.bora.wait_in_sync(SYNC_SECONDS)
    source = random.Random(5)
    for number in range(ROUNDS):
        addresses = []
        for family, rows in tables.items():
            moved = source.sample(rows, MOVED)
            # all to one gateway, then all to the other: the nodes are replaced twice
            for gateway in (gateways(net, family)[number % 2], gateways(net, family)[1 - number % 2]):
                routes.write(net.router.name, routes.table_messages(moved, [gateway], RTM_NEWROUTE))
            addresses += [inside(source, *row) for row in moved[:SAMPLES] + source.sample(rows, SAMPLES)]
        net.bora.wait_in_sync(SYNC_SECONDS)
        compare(net, addresses)
    say(f"{ROUNDS * 4 * SAMPLES} packets, of which {asked(net)} by Linux's FIB; {ways(net)}")
    assert asked(net) == 0
    net.bora.check_conservation()


@pytest.mark.slow
@pytest.mark.alone
def test_memory_is_used_again(express, say):
    """While 50 000 routes a second change, the nodes stay within the program's memory, and no packet is lost."""
    net = express(1)
    with Churn(net, 50_000, 5) as churn:
        for port in net.hosts:
            port.drain()
        with load(net, both_families(net), 5_000) as traffic:
            done = churn.run()
            report = traffic.finish()
    say(f"{done}; {report}; {ways(net)}")
    assert report.lost <= 20 and report.reordered == report.duplicated == 0
    assert asked(net) == 0
    net.bora.wait_in_sync(SYNC_SECONDS)
    fib = net.bora.show("fib")
    assert all(fib[version]["node_bytes"] <= 2 << 20 for version in ("ipv4", "ipv6"))


@pytest.mark.slow
def test_a_table_that_does_not_fit(express, tables, say):
    """With too little memory express asks Linux for what it cannot read, and says so."""
    net = express(1)
    write(net, tables)
    net.bora.wait_in_sync(SYNC_SECONDS)
    source = random.Random(6)
    compare(net, [inside(source, *row) for rows in tables.values() for row in source.sample(rows, SAMPLES)])
    say(f"{asked(net)} of {2 * SAMPLES} by Linux's FIB; {ways(net)}")
    assert 0 < asked(net) < 2 * SAMPLES
    assert any("raise fib.express_memory" in way for way in ways(net))
    net.bora.check_conservation()


def test_without_memory(express):
    """With no memory express asks Linux for each packet."""
    net = express(0)
    deadline = time.monotonic() + SYNC_SECONDS
    while asked(net) < 5:  # without a lease, as on a busy machine, Linux forwards
        assert net.probe()
        assert time.monotonic() < deadline, "express asks nothing"
    assert ways(net) == ["asks Linux's FIB for each packet (fib.express_memory)"]


def test_what_only_linux_knows(express):
    """Several paths, tunnels' routes and rules: Linux's FIB decides, and only for these packets."""
    net = express()
    assert net.probe() and asked(net) == 0
    net.ip(f"route add 198.51.100.0/24 nexthop via {net.host4(1)} nexthop via {net.host4(2)}")
    net.bora.wait_in_sync()
    assert net.path_of(udp4(net.behind4(0), "198.51.100.1")) in (1, 2)
    assert asked(net) == 1
    assert net.probe() and asked(net) == 1
    # another table, by a rule: every packet of interfaces that the rule is for is Linux's question from now on
    net.ip(f"route add 203.0.113.0/24 via {net.host4(1)}")
    net.ip(f"route add 203.0.113.0/24 via {net.host4(2)} table 100")
    net.bora.wait_in_sync()
    compare(net, ["203.0.113.1"])
    net.ip("rule add pref 50 table 100")
    net.bora.wait_in_sync()
    compare(net, ["203.0.113.1"])
    assert asked(net) == 2
    assert [one["table"] for one in net.bora.show("tables")["tables"]] == [100]
    net.ip("rule del pref 50")
    net.bora.wait_in_sync()
    compare(net, ["203.0.113.1"])
    assert asked(net) == 2


def test_restart(express):
    """A Bora that takes the program over brings its own FIB; the killed one's is not used again."""
    net = express()
    net.ip(f"route add 198.51.100.0/24 via {net.host4(1)}")
    net.bora.wait_in_sync()
    compare(net, ["198.51.100.1"])
    net.bora.kill()
    net.ip(f"route replace 198.51.100.0/24 via {net.host4(2)}")
    compare(net, ["198.51.100.1"])  # Linux forwards
    net.bora.start()
    net.bora.wait_in_sync()
    compare(net, ["198.51.100.1"])
    assert asked(net) == 0


def sent(net, name):
    return next(port["tx_packets"] for port in net.bora.show("ports") if port["name"] == name)


def test_interfaces_whose_numbers_end_alike(kernel_net):
    """The program finds a port by the low 12 bits of its interface's number (PORT_HINTS), and otherwise too."""
    net = kernel_net
    number = int(net.router.exec("cat", "/sys/class/net/r0/ifindex").stdout)
    net.router.ip("link", "add", "p9", "index", str(number + 4096), "type", "veth", "peer", "name", "q9")
    net.router.ip("link", "set", "p9", "up")
    net.bora = Bora(net.router, ["r0", "r1", "r2", "p9"], "express")
    net.bora.start()
    net.bora.wait_in_sync(START_SECONDS)
    for count in range(1, 6):
        assert net.probe()
        assert sent(net, "r1") == count, "Linux forwarded it"
    net.bora.check_conservation()
