"""A flood of exceptions must not disturb a good flow."""

import time

import pytest

from lib.traffic import both_families, flow_frame, load

pytestmark = pytest.mark.alone

RATE = 5_000
SECONDS = 3
STRAY = 0.002  # share of the good flow that a busy two-core machine may lose by itself


def exceptional(net, kind):
    """64 frames of host 2, all of them exceptions."""
    more = {"ttl 1": {"ttl": 1}, "no route": {}, "no neighbour": {}, "to the router": {}}[kind]
    targets = {
        "no route": lambda n, family: f"203.0.113.{n}" if family == 4 else f"2001:db8:dead::{n}",
        "no neighbour": lambda n, family: f"10.0.1.{100 + n}" if family == 4 else f"2001:db8:1::{100 + n}",
        "to the router": lambda n, family: net.router4(1) if family == 4 else net.router6(1),
    }
    target = targets.get(kind, lambda n, family: None)
    return [
        flow_frame(net, n, family, link=2, to=1, target=target(n, family), **more)
        for n, family in ((n, 6 if n % 2 else 4) for n in range(64))
    ]


def good_flow(net):
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(SECONDS)
        return traffic.finish()


@pytest.mark.parametrize("kind", ["ttl 1", "no route", "no neighbour", "to the router"])
def test_flood(flooded, kind, say):
    """The good flow loses no more than without the flood."""
    net, quiet = flooded
    with load(net, exceptional(net, kind), 0, link=2, to=2) as flood:
        time.sleep(0.2)
        report = good_flow(net)
        flooding = flood.finish(drain=0.1)
    say(f"{net.backend}, {kind}: flood {flooding.sent / flooding.seconds:.0f}/s; good flow: {report}")
    assert flooding.sent > 10 * RATE, "the test sent too few packets for a flood"
    assert report.lost <= quiet.lost + report.sent * STRAY
    assert report.reordered == 0 and report.duplicated == 0
    if net.bora is not None:
        assert net.bora.alive(), net.bora.output()
        net.bora.check_conservation()


@pytest.fixture(scope="module")
def flooded(backend):
    """The network, and how much the good flow loses without a flood."""
    from lib.topology import Network

    network = Network(backend)
    try:
        quiet = good_flow(network)
        assert quiet.lost <= quiet.sent * STRAY, f"this machine loses packets even without a flood: {quiet}"
        yield network, quiet
    finally:
        network.close()
