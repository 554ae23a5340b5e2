"""Runs in a guest with hero.ko: which routes get the places of the cards, and which packets the high priority.

    python3 hero/guest/policy_guest.py SHARED RESULTS [STEP ...]
"""

import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.guest.steps import (CARDS, Flood, ask, bring_up, counters, devlink_device, fast, high, inside, interfaces, main, offloaded, ping, run,
                              set_parameter, step, until, wait_for_link)

WIDE, NARROW, OTHER = "10.2.0.0/16", "10.1.1.0/24", "10.3.0.0/28"  # more than there are places
INSIDE = {WIDE: "10.2.0.1", NARROW: "10.1.1.1", OTHER: "10.3.0.1"}
QUIET_SECONDS = 8  # several measurements

step(bring_up)


def parameter(name, card=0):
    """A parameter's value at run time."""
    shown = json.loads(run(f"devlink -j dev param show {devlink_device(card)} name {name}"))
    return shown["param"][devlink_device(card)][0]["values"][0]["value"]


def refused(command, reason):
    """A command must fail, and say why."""
    text = run(f"{command} && echo it was done", check=False)
    assert "it was done" not in text and reason in text, f"{command}: {text}"


@step
def devlink():
    """What devlink says of a card; parameters, and values that they do not take."""
    said = json.loads(run(f"devlink -j dev info {devlink_device()}"))["info"][devlink_device()]
    fixed = said["versions"]["fixed"]
    assert said["driver"] == "hero" and fixed["interface"] == "1" and fixed["routes"] == "3", said
    assert (parameter("route_policy"), parameter("route_min_rate"), parameter("control_class")) == ("rate", 100, True)
    set_parameter("route_policy", "prefix")
    assert parameter("route_policy") == "prefix" and parameter("route_policy", 1) == "rate", "each card has its own"
    set_parameter("route_min_rate", 5)
    assert parameter("route_min_rate") == 5
    setting = f"devlink dev param set {devlink_device()} cmode runtime name"
    refused(f"{setting} route_policy value loudest", "the policies are prefix and rate")
    refused(f"{setting} route_min_rate value 2000000", "no card receives as many packets per second")
    assert (parameter("route_policy"), parameter("route_min_rate")) == ("prefix", 5)
    return json.dumps(said)


def slots():
    """What the first card's driver tells of slots and rates."""
    return run(f"cat /sys/kernel/debug/hero/{devlink_device().removeprefix('pci/')}/routes")


def on_the_card():
    """The routes in the first card's slots."""
    return re.findall(r"^slot \d+: (\S+) ", slots(), re.MULTILINE)


@step
def prefixes():
    """By their prefix, the widest route has the one place that there is, whatever carries packets."""
    run("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    ask(inside(1, "bash -c 'ip address add 10.2.0.1/16 dev lo; ip address add 10.3.0.1/28 dev lo'"))
    for card in range(CARDS):
        set_parameter("route_policy", "prefix", card)
    for prefix in (NARROW, OTHER, WIDE):
        run(f"ip route replace {prefix} via 10.0.1.2")
    ping(0, "10.0.1.2")
    until(lambda: on_the_card() == [WIDE], "the widest prefix has the place")
    with Flood(0, "10.1.1.1"):
        time.sleep(QUIET_SECONDS)
        assert on_the_card() == [WIDE]
    assert fast(0, "10.2.0.1") == 3 and fast(0, "10.1.1.1") == 0
    assert offloaded(WIDE) and not offloaded(NARROW)
    return slots().strip()


@step
def rates():
    """By their rate, the route that carries packets gets it, and keeps it when none does."""
    for card in range(CARDS):
        set_parameter("route_policy", "rate", card)
        set_parameter("route_min_rate", 5, card)
    time.sleep(QUIET_SECONDS)
    assert on_the_card() == [WIDE], "nothing changes without packets"
    said, before = [], counters(interfaces()[0])
    for address, prefix in (("10.1.1.1", NARROW), ("10.3.0.1", OTHER)):
        with Flood(0, address):
            until(lambda prefix=prefix: on_the_card() == [prefix], f"{prefix} has taken the place")
            said.append(slots().strip())
            assert offloaded(prefix)
        assert fast(0, address) == 3
        for _ in range(QUIET_SECONDS):
            time.sleep(1)
            assert on_the_card() == [prefix], "it keeps the place"
    after = counters(interfaces()[0])
    assert after["fast_path_0"] - before["fast_path_0"] == after["fast_path"] - before["fast_path"] > 6, "the slot's own counter"
    return "; ".join(said).replace("\n", ", ")


@step
def few_packets():
    """A rate below the least one takes no place."""
    set_parameter("route_min_rate", 100000)
    with Flood(0, "10.2.0.1"):
        time.sleep(2 * QUIET_SECONDS)
        assert on_the_card() == [OTHER]
        said = slots().strip()
        assert f"host: {WIDE}" in said, said
    set_parameter("route_min_rate", 5)
    return said.replace("\n", ", ")


def flower(match, action="action skbedit priority 1", protocol="ip", flags="skip_sw"):
    """The command that adds a filter at the first card's ingress."""
    return f"tc filter add dev {interfaces()[0]} ingress protocol {protocol} pref 10 flower {flags} {match} {action}"


def no_filters():
    """Takes them away."""
    run(f"tc filter del dev {interfaces()[0]} ingress")


@step
def filters():
    """A filter in the card gives the high priority, and routes stay on the fast path; one in Linux takes them off."""
    name = interfaces()[0]
    prefix, = on_the_card()
    assert (high("0xc0"), high("0x80"), high("0x40")) == (3, 0, 0)
    run(f"tc qdisc add dev {name} clsact")
    run(flower("ip_tos 0x80/0xc0"))
    shown = run(f"tc filter show dev {name} ingress")
    assert "in_hw" in shown and "not_in_hw" not in shown, shown
    assert (high("0xc0"), high("0x80"), high("0x40")) == (3, 3, 0)
    time.sleep(3)
    assert offloaded(prefix) and fast(0, INSIDE[prefix]) == 3, "a filter in the card alone is none of Linux's"
    refused(f"ethtool -K {name} hw-tc-offload off", "")
    run(f"tc filter add dev {name} ingress pref 20 matchall action ok")
    until(lambda: not on_the_card(), "a filter of Linux's takes the route off this card")
    run(f"tc filter del dev {name} ingress pref 20")
    ping(0, "10.0.1.2")
    until(lambda: on_the_card(), "a route is on the card again")
    run(f"ethtool -r {name}; sleep 2")
    wait_for_link(name)
    assert high("0x80") == 3, "the filter is there after a reset"
    no_filters()
    assert (high("0xc0"), high("0x80")) == (3, 0)
    return re.sub(r"\s+", " ", shown)


@step
def refusals():
    """What the card cannot do is refused, with the reason."""
    for command, reason in (
            (flower("ip_tos 0x80/0xc0 ip_ttl 3"), "does not look at the TTL"),
            (flower("ip_proto udp dst_port 53"), "src_ip, dst_ip, ip_tos and ip_proto only"),
            (flower("ip_flags frag"), "does not look at fragments"),
            (flower("ip_tos 0x80/0xc0", "action drop"), "the high priority, only"),
            (flower("ip_tos 0x80/0xc0", "action skbedit priority 2"), "the high priority, only"),
            (flower("ip_tos 0x80/0xc0", "hw_tc 0"), "the high priority, only"),
            (flower("ip_tos 0x80/0xc0", "action skbedit priority 1 hw_stats immediate"), "does not count"),
            (flower("", protocol="ipv6"), "protocol ip only"),
            (flower("ip_proto udp"), "precedence 6 and 7"),
            (flower("ip_tos 0x80/0xc0").replace("flower", "chain 3 flower"), "chain 0 only"),
            (f"tc filter add dev {interfaces()[0]} ingress matchall skip_sw action skbedit priority 1", "")):
        refused(command, reason)
    run(flower("ip_tos 0x80/0xc0", "hw_tc 1"))
    refused(flower("ip_tos 0x40/0xc0"), "another filter has it")
    refused(flower("ip_tos 0xb8/0xfc"), "precedence 6 and 7")  # inside of the first one, which may go before it
    run(flower("ip_tos 0xe0/0xe0"))  # inside of both
    assert (high("0xe0"), high("0x80"), high("0xc0")) == (3, 3, 3)
    no_filters()
    return "all of them"


@step
def free_class():
    """Without the class of precedence 6 and 7, a filter has the card's match for itself."""
    set_parameter("control_class", "false")
    assert high("0xc0") == 0
    run(flower("ip_proto icmp dst_ip 10.0.0.1 src_ip 10.0.0.0/24"))
    assert (high("0"), high("0xc0", "10.0.1.2")) == (3, 0)
    refused(f"devlink dev param set {devlink_device()} cmode runtime name control_class value true", "precedence 6 and 7")
    assert high("0") == 3
    no_filters()
    assert high("0") == 0
    set_parameter("control_class", "true")
    assert high("0xc0") == 3
    run(f"tc qdisc del dev {interfaces()[0]} clsact")
    return "one match, and the default is back"


if __name__ == "__main__":
    main()
