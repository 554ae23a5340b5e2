"""A flood of exceptions or of foreign frames must disturb neither a good flow nor what a neighbour keeps with the router."""

import time

import pytest

from lib.sessions import Sessions
from lib.traffic import both_families, flow_frame, load

ALSO = ("engine-tap", "engine-af_packet")  # no XDP program stands in front of these ports

pytestmark = pytest.mark.alone

RATE = 5_000
SECONDS = 2
STRAY = 0.002  # share of the good flow that a busy two-core machine may lose by itself


def exceptional(net, kind):
    """64 frames of host 2, none of which Bora forwards."""
    more = {"ttl": 1} if kind == "ttl 1" else {}
    targets = {
        "no route": lambda n, family: f"203.0.113.{n}" if family == 4 else f"2001:db8:dead::{n}",
        "no neighbour": lambda n, family: f"10.0.1.{100 + n}" if family == 4 else f"2001:db8:1::{100 + n}",
        "to the router": lambda n, family: net.router4(1) if family == 4 else net.router6(1),
    }
    target = targets.get(kind, lambda n, family: None)
    frames = [
        flow_frame(net, n, family, link=2, to=1, target=target(n, family), **more)
        for n, family in ((n, 6 if n % 2 else 4) for n in range(64))
    ]
    return [b"\x02\xbc\0\0\x09\x09" + frame[6:] for frame in frames] if kind == "foreign mac" else frames


def good_flow(net):
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(SECONDS)
        return traffic.finish()


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("ttl 1", "no route", "no neighbour", "to the router")]


@pytest.mark.parametrize("kind", [*SLOW, "foreign mac"])
def test_flood(flooded, kind, say):
    """The good flow loses no more than without the flood; sessions of a neighbour stay up, and its pings are answered."""
    net, quiet = flooded
    with load(net, exceptional(net, kind), 0, link=2, to=2) as flood:
        time.sleep(0.2)
        sessions = Sessions(net)
        report = good_flow(net)
        kept = sessions.finish()
        flooding = flood.finish(drain=0.1)
    say(f"{net.backend}, {kind}: flood {flooding.sent / flooding.seconds:.0f}/s; good flow: {report}; {kept}")
    assert flooding.sent > 2 * report.sent, "the test sent too few packets for a flood"
    assert kept.good or net.bora is None
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
