"""As driver_guest.py, for IPv6; the cards need routes for it:

    hero/guest/run.py --driver --script ip6_guest.py --model target/hero/libhero-xbar-6.so
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.guest.steps import all_interfaces, ask, counters, inside, interfaces, loss, main, module, ping, run, step, until, wait_for_link

TARGET = "2001:db8:1:1::1"  # behind card 1
PREFIX = "2001:db8:1:1::/64"


@step
def bring_up():
    """Interfaces, addresses, links; the hosts have routes through the guest."""
    run("sysctl -qw net.ipv6.conf.all.forwarding=1")
    names = all_interfaces()
    for card, name in enumerate(names):
        run(f"ip address replace 2001:db8:0:{card}::1/64 dev {name} nodad; ip link set {name} up")
        ask(inside(card, f"bash -c 'sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.all.forwarding=1; ip link set lo up; "
                         f"ip address replace 2001:db8:0:{card}::2/64 dev wire nodad; ip address replace 2001:db8:1:{card}::1/128 dev lo; ip link set wire up; "
                         f"ip -6 route replace default via 2001:db8:0:{card}::1'"))
    for name in names:
        wait_for_link(name)
    return loss(ping(0, "2001:db8:0:1::2"))


def offloaded():
    """Whether Linux shows the route as offloaded."""
    return "offload" in run(f"ip -6 route show {PREFIX}")


def fast(options="-c 3 -i 0.3 -W 60"):
    """How many frames of pings the card has forwarded by itself."""
    before = counters(interfaces()[0])["fast_path"]
    ping(0, TARGET, options)
    return counters(interfaces()[0])["fast_path"] - before


def goes_and_comes(change, back, reached=True):
    """A change of Linux's takes the route off the fast path, and it comes back after that. `reached`: whether packets arrive meanwhile."""
    run(change)
    until(lambda: not offloaded(), f"the route is not offloaded: {change}")
    if reached:
        assert fast() == 0, change
    run(back)
    ping(0, TARGET)
    until(offloaded, f"the route is offloaded again: {back}")
    assert fast() == 3, back


@step
def routes():
    """A route through a neighbour behind another card is on the fast path, while nothing else matters."""
    names = interfaces()
    run(f"ip -6 route replace {PREFIX} via 2001:db8:0:1::2")
    ping(0, TARGET)
    until(offloaded, "the route is offloaded")
    shown = run(f"ip -6 route show {PREFIX}").strip()
    forwarded = fast()
    assert forwarded == 3, forwarded
    text = ask(inside(0, f"ping -c 1 -t 1 -W 60 {TARGET}"), check=False)
    assert "Time exceeded" in text, text
    goes_and_comes("ip -6 route add 2001:db8:1:1:8000::/65 via 2001:db8:0:2::2", "ip -6 route del 2001:db8:1:1:8000::/65")
    goes_and_comes("ip -6 route add blackhole 2001:db8:1:1::77/128", "ip -6 route del 2001:db8:1:1::77/128")
    goes_and_comes("ip -6 rule add from 2001:db8:9::9 lookup 100", "ip -6 rule del from 2001:db8:9::9 lookup 100")
    goes_and_comes(f"ip address add 2001:db8:1:1::5/128 dev {names[2]} nodad", f"ip address del 2001:db8:1:1::5/128 dev {names[2]}")
    goes_and_comes(f"ip -6 route append {PREFIX} via 2001:db8:0:2::2", f"ip -6 route replace {PREFIX} via 2001:db8:0:1::2", reached=False)
    goes_and_comes("sysctl -qw net.ipv6.conf.all.forwarding=0", "sysctl -qw net.ipv6.conf.all.forwarding=1", reached=False)
    return f"{forwarded} of 3 packets on the fast path; {shown}"


@step
def neighbour():
    """A neighbour that moves, or goes, takes its route off."""
    names = interfaces()
    run(f"ip neigh replace 2001:db8:0:1::2 dev {names[1]} lladdr 02:00:00:00:00:99 nud permanent")
    until(offloaded, "the route to the new address is offloaded")
    before = counters(names[0])["fast_path"]
    ask(inside(0, f"ping -q -c 2 -i 0.3 -W 1 {TARGET}"), check=False)
    assert counters(names[0])["fast_path"] - before == 2, "sent to the new address"
    run(f"ip neigh del 2001:db8:0:1::2 dev {names[1]}")
    until(lambda: not offloaded(), "the route is off")
    ping(0, TARGET)
    until(offloaded, "the route is back")
    assert fast() == 3
    return "off and on again"


@step
def priority():
    """Packets of a high precedence come through the other ring; to the router itself, because others do not come to it."""
    name = interfaces()[0]
    before = counters(name)["rx_high_packets"]
    ping(0, "2001:db8:0:1::2", "-c 3 -Q 0xc0 -W 60")
    more = counters(name)["rx_high_packets"] - before
    assert more >= 3, more
    return f"{more} frames of high priority"


@step
def remove_module():
    """The module goes, with its routes marked, and comes again."""
    run("rmmod hero")
    assert not interfaces()
    run(f"insmod {module()}")
    bring_up()
    routes()
    return "and again on the fast path"


if __name__ == "__main__":
    main()
