"""Rates of ports and classes on real interfaces, with several queues and several workers."""

import time

import pytest

from lib.bora import Bora, binary
from lib.topology import Network
from lib.traffic import flow_frame, load

pytestmark = [pytest.mark.bora, pytest.mark.alone]
QUEUES = 4
FLOWS = 32
OFFERED = 8_000  # packets a second
SECONDS = 4
ENGINE = 'path = "engine"\n[workers]\ncores = [0, 1]\n'
PORTS = '[[port]]\nname = "r0"\n[[port]]\nname = "r1"\n'
RATE = PORTS + '[port.queues]\nrate = "20Mbit"\n'
CLASSES = RATE + 'class = [{}, { rate = "5Mbit" }]\n[[rule]]\nprotocol = "udp"\ndestination_ports = "6000"\nclass = 1\n'
MBIT = 1_000_000


@pytest.fixture
def net(tmp_path):
    """A network whose links have several queues; the test starts Bora."""
    network = Network(queues=QUEUES)
    yield network
    network.close()


def start(net, tmp_path, text):
    (tmp_path / "bora.toml").write_text(ENGINE + text)
    net.bora = Bora(net.router, [], None, ["--config", str(tmp_path / "bora.toml")])
    net.bora.start()
    net.bora.wait_in_sync()
    net.wait_until_forwarding()


def apply(net, tmp_path, text):
    (tmp_path / "bora.toml").write_text(ENGINE + text)
    return net.router.exec(binary(), "apply", str(tmp_path / "bora.toml")).stdout


def frames(net, high=0):
    """Packets of 1000 octets; `high` of the flows go to port 6000."""
    dport = lambda number: 6000 if number < high else 5000
    made = [flow_frame(net, number, dport=dport(number), fill=b"x" * 944) for number in range(FLOWS)]
    assert {len(frame) for frame in made} == {1000}
    return made


def rates(traffic, high=0):
    """Bits a second of the flows below `high` and of the others, from now on."""
    begin = time.monotonic()
    time.sleep(SECONDS)
    end = begin + SECONDS
    flows = [flow for at, flow, _ in list(traffic.arrivals) if begin <= at < end]
    count = sum(flow < high for flow in flows)
    return [8000 * number / SECONDS for number in (count, len(flows) - count)]


def about(measured, wanted):
    return abs(measured / wanted - 1) <= 0.01


def check_workers(net):
    workers = net.bora.show("workers")
    received = [worker["rx_packets"] for worker in workers]
    assert len(workers) == 2 and min(received) > 0.1 * sum(received), received


@pytest.mark.slow
def test_a_port_keeps_its_rate(net, tmp_path, say):
    """A port keeps its rate of 20 Mbit/s, whichever worker receives the packets."""
    start(net, tmp_path, RATE)
    with load(net, frames(net), OFFERED) as traffic:
        time.sleep(1)
        _, rate = rates(traffic)
        report = traffic.finish()
    say(f"20 Mbit/s with 2 workers: {rate / MBIT:.3f} Mbit/s; {report}")
    check_workers(net)
    assert about(rate, 20 * MBIT) and report.reordered == 0
    net.bora.check_conservation()


@pytest.mark.slow
def test_classes_keep_theirs(net, tmp_path, say):
    """The high class has 5 Mbit/s, and the other one gets all the rest."""
    start(net, tmp_path, CLASSES)
    with load(net, frames(net, FLOWS // 2), OFFERED) as traffic:
        time.sleep(1)
        high, low = rates(traffic, FLOWS // 2)
        report = traffic.finish()
    say(f"5 of 20 Mbit/s with 2 workers: {high / MBIT:.3f} and {low / MBIT:.3f} Mbit/s; {report}")
    check_workers(net)
    assert about(high, 5 * MBIT) and about(low, 15 * MBIT) and report.reordered == 0
    net.bora.check_conservation()


@pytest.mark.slow
def test_rates_come_and_go(net, tmp_path, say):
    """An apply under load gives a port a rate and takes it away."""
    start(net, tmp_path, PORTS)
    with load(net, frames(net), OFFERED) as traffic:
        for _ in range(2):
            assert "port r1: queues" in apply(net, tmp_path, RATE)
            time.sleep(1)
            _, with_rate = rates(traffic)
            apply(net, tmp_path, PORTS)
            time.sleep(1)
            _, without = rates(traffic)
            say(f"20 Mbit/s comes and goes: {with_rate / MBIT:.3f} and {without / MBIT:.1f} Mbit/s")
            assert about(with_rate, 20 * MBIT) and without > 40 * MBIT
        report = traffic.finish()
    say(str(report))
    assert report.duplicated == 0
    net.bora.check_conservation()
