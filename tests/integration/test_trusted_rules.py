"""Rules that leave transit alone: Bora forwards beside them, and no packet passes that a new rule forbids."""

import time

import pytest

from test_guard import FORBIDDEN, guarded, passes, shell  # noqa: F401

FOLLOW_SECONDS = 30  # Bora reads the rules again after ten times what a look took
EMPTY = "nft add table inet t; nft add chain inet t f '{ type filter hook forward priority 0; }'"
EDGE = """nft 'table inet t {
    chain in { type filter hook input priority 0; policy drop; ct state established,related accept; udp dport 179 accept; }
    chain f { type filter hook forward priority 0; iifname "lo" drop; counter; }
}'"""


def wait_for_bora(net):
    """Until Bora itself sends all packets past the rules; none may be lost before."""
    deadline = time.monotonic() + FOLLOW_SECONDS
    for family in (4, 6):
        before, sent = 0, 0
        while sent - before < 20:
            assert time.monotonic() < deadline, (net.bora.show("drops"), net.bora.show("sync")["guard"])
            before = net.bora.totals()["sent"]
            assert passes(net, family, FORBIDDEN) == 20
            sent = net.bora.totals()["sent"]


@pytest.mark.parametrize("ruleset", [EMPTY, EDGE], ids=["an empty chain", "input alone, with conntrack"])
def test_beside_rules_that_leave_transit_alone(guarded, ruleset):  # noqa: F811
    try:
        shell(guarded, ruleset)
        wait_for_bora(guarded)
        for _ in range(5):
            shell(guarded, "nft add rule inet t f udp dport 4444 drop")
            assert passes(guarded, 4, FORBIDDEN) == passes(guarded, 6, FORBIDDEN) == 0, "at once"
            shell(guarded, "nft flush chain inet t f")
            wait_for_bora(guarded)
    finally:
        shell(guarded, "nft delete table inet t")


def test_the_qdisc_clsact_alone_is_no_filter(guarded):  # noqa: F811
    """It does nothing until a filter is there, and then at once."""
    try:
        for device in ("r0", "r1"):
            shell(guarded, f"tc qdisc add dev {device} clsact")
        wait_for_bora(guarded)
        for device, side in (("r0", "ingress"), ("r1", "egress")):
            shell(guarded, f"tc filter add dev {device} {side} protocol ip u32 match ip dport {FORBIDDEN} 0xffff action mirred egress redirect dev r2")
            assert passes(guarded, 4, FORBIDDEN) == 0, f"at once: {side}"
            shell(guarded, f"tc filter del dev {device} {side}")
            wait_for_bora(guarded)
    finally:
        for device in ("r0", "r1"):
            shell(guarded, f"tc qdisc del dev {device} clsact", check=False)
