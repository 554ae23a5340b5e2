"""Traffic that only Linux can forward: it has no budget, and does not disturb a good flow."""

import time

import pytest

from lib.bora import Bora
from lib.topology import Network
from lib.traffic import both_families, flow_frame, load

pytestmark = pytest.mark.alone

BUDGET = 10_000  # exceptions, packets a second
RATE = 3 * BUDGET
GOOD = 5_000
SECONDS = 2
STRAY = 0.002  # share of packets that a busy two-core machine may lose by itself
# Share of packets that may be reordered: in Linux when a veth's NAPI moves to another CPU; behind the engine once, when it
# has seen many packets and the program then passes the rest to Linux directly.
OVERTAKEN = {"kernel": STRAY, "express": STRAY, "engine": 0.03}
SMALL_MTU = 1280


@pytest.fixture(scope="module")
def net(backend):
    """The network, of which r2 is no port of Bora."""
    network = Network("kernel")
    try:
        if backend != "kernel":
            network.bora = Bora(network.router, ["r0", "r1"], backend)
            network.bora.start()
            network.bora.wait_in_sync()
        yield network
    finally:
        network.close()


def between(net, link, to, rate):
    """IPv4 and IPv6 from host `link` to host `to`."""
    return load(net, both_families(net, link=link, to=to), rate, link=link, to=to)


def no_port(net):
    return between(net, 0, 2, RATE), between(net, 0, 1, GOOD)


def hairpin(net):
    return between(net, 0, 0, RATE), between(net, 0, 1, GOOD)


def fragments(net):
    """Each packet becomes two fragments; the second has the trailer that Load looks for."""
    net.ip(f"link set r1 mtu {SMALL_MTU}", undo="link set r1 mtu 1500")
    net.settle()
    frames = [flow_frame(net, number, to=1, fill=bytes(SMALL_MTU)) for number in range(8)]
    return load(net, frames, RATE / 2, to=1), between(net, 1, 0, GOOD)


@pytest.mark.slow
@pytest.mark.parametrize("bulk", [no_port, hairpin, fragments])
def test_bulk(net, backend, bulk, say):
    """No packet is lost, neither of this traffic nor of the good flow."""
    bulk_load, good_flow = bulk(net)
    with bulk_load as much, good_flow as good:
        time.sleep(SECONDS)
        reports = {"bulk": much.finish(), "good flow": good.finish()}
    for name, report in reports.items():
        say(f"{backend}, {bulk.__name__}, {name}: {report}")
        assert report.lost <= report.sent * STRAY
        overtaken = OVERTAKEN[backend] if name == "bulk" else 0
        assert report.duplicated == 0 and report.reordered <= overtaken * report.sent
    assert reports["bulk"].sent > 1.2 * BUDGET * SECONDS, "the test sent too little bulk traffic"
    if net.bora is not None:
        net.bora.check_conservation()
    net.undo()


@pytest.mark.parametrize("family", [4, 6])
def test_own_prefix(net, family):
    """All packets to a prefix that is the router's own reach Linux."""
    prefix, address = {4: ("203.0.113.0/24", "203.0.113.77"), 6: ("2001:db8:a::/48", "2001:db8:a::77")}[family]
    net.ip(f"-{family} route add local {prefix} dev lo", undo=f"-{family} route del local {prefix} dev lo")
    net.settle()
    before = without_socket(net, family)
    with load(net, [flow_frame(net, n, family, target=address) for n in range(8)], RATE) as much:
        time.sleep(SECONDS)
        sent = much.finish(drain=0.5).sent
    assert without_socket(net, family) - before >= sent * (1 - STRAY)
    net.undo()


def without_socket(net, family):
    """UDP packets to the router that no socket waited for, as Linux counts them."""
    name = "UdpNoPorts" if family == 4 else "Udp6NoPorts"
    counts = net.router.exec("nstat", "-az", name).stdout.splitlines()
    return int(counts[-1].split()[1])
