"""Bora sends each flow by the same gateway as Linux alone, and so does Linux after kill -9."""

import functools
import time

from lib import multipath
from lib.bora import Bora
from vm.forwarding import counted, reasons

FLOWS = 5_000  # for each IP version
PASS_SECONDS = 120
# Time until Bora has turned off a card's own hash of flows, which Linux uses with policy 1 (igb on Linux 7).
HASHING_SECONDS = 2


def gateways(net, family):
    """[(address, device, MAC)]: three behind r1, and one that is dead."""
    host = "10.0.1.{}" if family == 4 else "2001:db8:1::{}"
    macs = (net.host_mac(1), "02:bc:00:00:00:93", "02:bc:00:00:00:94", None)
    return [(host.format(number), "r1", mac) for number, mac in zip((2, 3, 4, 9), macs)]


@functools.cache
def flows():
    """The flows, the same for every policy and tier."""
    return multipath.flows(FLOWS)


def attach(net, tier):
    """The first start. If it interrupts a link, Linux deletes the next-hop objects behind it."""
    net.bora = Bora(net.router, ["r0", "r1"], tier)
    net.bora.start()
    net.wait_for_links()
    net.wait_until_forwarding()


def one_path(net, tier, policy):
    """Compares the paths of 10 000 flows under one hash policy: Linux, Bora, Linux after kill -9. Then starts Bora."""
    if net.bora is None or not net.bora.alive():
        attach(net, tier)
    multipath.configure(net, gateways)
    multipath.set_policy(net, policy)
    time.sleep(HASHING_SECONDS)
    net.bora.kill()  # the program stays on the ports and passes everything
    made = flows()
    try:
        expected = multipath.paths(net, made, seconds=PASS_SECONDS)
        ways = set(expected.values())
        assert len(ways) == 3, f"the flows take {len(ways)} ways, not 3"
        net.bora.start()
        net.wait_for_links()
        net.bora.wait_in_sync()
        net.wait_until_forwarding()
        before = counted(net)
        multipath.same(expected, multipath.paths(net, made, seconds=PASS_SECONDS), made, f"policy {policy}")
        after = counted(net)
        engine = all(port["path"] == "engine" for port in net.bora.show("ports"))
        by_bora, why = after[0]["sent"] - before[0]["sent"], reasons(before, after)
        # policy 1: on a veth with several queues the sender has hashed the packets, and Linux uses that hash
        known = by_bora + (why.get("multipath", 0) if policy == 1 else 0)
        assert not engine or known >= 0.99 * len(made), f"the engine left packets to Linux: {why}"
        net.bora.kill()
        multipath.same(expected, multipath.paths(net, made, seconds=PASS_SECONDS), made, f"policy {policy}, after kill -9")
        return {"flows": len(made), "by_bora": by_bora, "reasons": why}
    finally:
        if not net.bora.alive():
            net.bora.start()
        multipath.set_policy(net, 0)
        multipath.remove(net)
