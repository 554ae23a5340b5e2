"""Routes change 100 000 times a second while traffic to other routes flows."""

import pytest

from lib.churn import Churn
from lib.traffic import both_families, load

pytestmark = pytest.mark.alone

CHANGES_PER_SECOND = 100_000
SECONDS = 10
RATE = 10_000
STRAY = 20  # packets in 100 000 that a busy two-core machine may lose by itself; the numbers are printed
SYNC_SECONDS = 10


@pytest.mark.slow
def test_churn(net, say):
    """No packet of unrelated flows is lost or misrouted, and the FIB agrees with the kernel's tables."""
    with Churn(net, CHANGES_PER_SECOND, SECONDS) as churn:
        for port in net.hosts:
            port.drain()
        with load(net, both_families(net), RATE) as traffic:
            done = churn.run()
            report = traffic.finish()
    say(f"{net.backend}: {done}; {report}")
    assert report.lost <= STRAY and report.reordered == 0 and report.duplicated == 0
    strays = [frame for host, frame in net.collect(quiet=0) if host == 2]
    assert not strays, f"{len(strays)} packets went to a wrong host"
    if net.bora is not None:
        net.bora.wait_in_sync(SYNC_SECONDS)
        net.bora.check_conservation()
