"""More workers than queues: one port queue shared by several workers."""

import time

import pytest

from lib.bora import Bora
from lib.traffic import both_families, load

pytestmark = pytest.mark.bora
RATE = 10_000
STRAY = 5  # packets in 30 000 that a busy two-core machine may lose by itself; the numbers are printed


@pytest.mark.parametrize("mode", ["adaptive", "moderated"])
def test_two_workers_on_ports_with_one_queue(kernel_net, mode, say):
    """Both forward, nothing is lost, no flow is reordered, and every packet is accounted for."""
    net = kernel_net
    net.bora = Bora(net.router, ["r0", "r1", "r2"], "engine", ["--cores", "0,1", "--mode", mode])
    net.bora.start()
    net.bora.wait_in_sync()
    net.wait_until_forwarding()
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(3)
        report = traffic.finish()
    say(f"{mode}: {report}")
    assert report.sent > 2 * RATE, "the test sent too little to prove anything"
    assert report.lost <= STRAY and report.reordered == 0 and report.duplicated == 0
    workers = net.bora.show("workers")
    assert len(workers) == 2
    net.bora.check_conservation()
    net.bora.stop()
