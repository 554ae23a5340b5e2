"""Rules that leave transit alone: Bora forwards beside them, and no packet passes that a new rule forbids."""

import time

import pytest

from lib.packets import udp4, udp6
from test_guard import FORBIDDEN, guarded, passes, shell  # noqa: F401

FOLLOW_SECONDS = 30  # Bora reads the rules again after ten times what a look took
EMPTY = "nft add table inet t; nft add chain inet t f '{ type filter hook forward priority 0; }'"
EDGE = """nft 'table inet t {
    chain in { type filter hook input priority 0; policy drop; ct state established,related accept; udp dport 179 accept; }
    chain f { type filter hook forward priority 0; iifname "lo" drop; counter; }
}'"""


def wait_for_bora(net):
    """Until Bora forwards past the rules."""
    deadline = time.monotonic() + FOLLOW_SECONDS
    while lines := [line for line in net.bora.show("sync")["guard"] if "IPv" in line]:
        assert time.monotonic() < deadline, lines
        time.sleep(0.2)


def forwarded(net):
    """Packets that Bora itself has sent."""
    return net.bora.totals()["sent"]


@pytest.mark.parametrize("ruleset", [EMPTY, EDGE], ids=["an empty chain", "input alone, with conntrack"])
def test_beside_rules_that_leave_transit_alone(guarded, ruleset):  # noqa: F811
    try:
        shell(guarded, ruleset)
        wait_for_bora(guarded)
        for family in (4, 6):
            before = forwarded(guarded)
            assert passes(guarded, family, FORBIDDEN) == 20
            assert forwarded(guarded) - before >= 20, guarded.bora.show("drops")
        for _ in range(5):
            shell(guarded, "nft add rule inet t f udp dport 4444 drop")
            assert passes(guarded, 4, FORBIDDEN) == passes(guarded, 6, FORBIDDEN) == 0, "at once"
            shell(guarded, "nft flush chain inet t f")
            wait_for_bora(guarded)
    finally:
        shell(guarded, "nft delete table inet t")
