"""A bridge of ports that has the router's addresses: express sends the frames that Linux alone sends. tests/vm/bridge_guest.py has
VLANs, which not every machine's kernel has."""

import pytest

from vm import bridge_guest

pytestmark = [pytest.mark.bora, pytest.mark.alone]


@pytest.mark.slow
def test_a_bridge(say):
    """Stations send, move, age, are behind a port that is down or blocked. Where br_netfilter looks at bridged packets, it is told
    not to matter."""
    bridge_guest.one_bridge(bridge_guest.ALONE, bridge_guest.STEPS, say, ["--bypass", "netfilter"])


@pytest.mark.slow
def test_a_filter_of_the_bridge(say):
    """nftables, family bridge, holds the traffic back."""
    punts = bridge_guest.one_bridge(bridge_guest.ALONE, (bridge_guest.filtered,), say)
    assert punts["guard"] > 0, punts


def test_the_engine(say):
    """It leaves bridges to Linux."""
    bridge_guest.engine(bridge_guest.ALONE, say)
