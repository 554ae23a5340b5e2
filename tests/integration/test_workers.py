"""More workers than queues: several workers share one queue of a port."""

import time

import pytest

from lib.bora import Bora, binary
from lib.traffic import both_families, load

pytestmark = [pytest.mark.bora, pytest.mark.alone]
RATE = 10_000
STRAY = 5  # packets in 30 000 that a busy two-core machine may lose by itself; the numbers are printed


@pytest.mark.parametrize("mode", ["adaptive", "moderated"])
def test_two_workers_on_ports_with_one_queue(kernel_net, mode, say):
    """Both workers forward, nothing is lost, no flow is reordered, and every packet is accounted for."""
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


def test_workers_are_placed_and_shown(kernel_net):
    """`--workers` chooses CPUs, `--cores` names them, both are refused; `show workers` has CPUs and shared queues."""
    net = kernel_net
    net.bora = Bora(net.router, ["r0", "r1"], "engine", ["--workers", "1"])
    net.bora.start()
    worker = net.bora.show("workers")[0]
    assert isinstance(worker["core"], int) and worker["node"] is not None
    assert worker["core"] not in worker["shares_with"]
    assert "SHARES WITH" in net.router.exec(binary(), "show", "workers").stdout
    net.bora.stop()
    for options, words in ((["--workers", "1", "--cores", "0"], "cannot be used with"),
                           (["--workers", "200"], "the machine has")):
        done = net.router.exec(binary(), "run", "--port", "r0", "--path", "engine", *options, check=False)
        assert done.returncode != 0 and words in done.stderr, done.stderr
