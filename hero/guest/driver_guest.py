"""Runs in a guest with hero.ko: Linux routes between the cables of the cards, each of which ends in a namespace of the host.

    python3 hero/guest/driver_guest.py SHARED RESULTS [STEP ...]

The steps use what those before them made, so `bring_up` goes before any other one.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.guest.steps import bring_up, high, interfaces, long_step, loss, main, ping, run, step, transfer

step(bring_up)


@step
def self_test():
    """`ethtool -t` of one card, down and up."""
    name = interfaces()[3]
    return run(f"ethtool -t {name} offline").replace("\n", " ")


@step
def pings():
    """The router itself, and through it."""
    text = [ping(0, "10.0.0.1"), ping(0, "10.0.1.2"), ping(2, "10.0.3.2"), ping(1, "10.0.2.2", "-c 3 -s 1472 -M do -W 60")]
    return "; ".join(loss(one) for one in text)


@step
def priority():
    """Packets with a high precedence come through the other ring."""
    more = high("0xc0", "10.0.1.2")
    assert more >= 3, more
    return f"{more} frames of high priority"


@step
def tcp():
    """Transfers through the router arrive unchanged."""
    return "; ".join([transfer(0, 1, "10.0.1.2", 300_000), transfer(3, 2, "10.0.2.2", 100_000)])


@long_step
def tcp_large():
    """10 MB through Linux arrive unchanged."""
    return transfer(0, 1, "10.0.1.2", 10_000_000)


from hero.guest import driver_events, driver_routes, driver_xdp  # noqa: E402, F401 (their steps come after these)

if __name__ == "__main__":
    main()
