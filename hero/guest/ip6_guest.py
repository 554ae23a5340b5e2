"""As driver_guest.py, for IPv6; the cards need routes for it:

    hero/guest/run.py --driver --script ip6_guest.py --model target/hero/libhero-xbar-6.so
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.guest import judge
from hero.guest.steps import (all_interfaces, ask, fast, goes_and_comes, high, inside, interfaces, loss, main, module, neighbour_goes, offloaded,
                              ping, run, step, until, wait_for_link)

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


@step
def routes():
    """A route through a neighbour behind another card is on the fast path, while nothing else matters."""
    names = interfaces()
    run(f"ip -6 route replace {PREFIX} via 2001:db8:0:1::2")
    ping(0, TARGET)
    until(lambda: offloaded(PREFIX), "the route is offloaded")
    shown = run(f"ip -6 route show {PREFIX}").strip()
    forwarded = fast(0, TARGET)
    assert forwarded == 3, forwarded
    text = ask(inside(0, f"ping -c 1 -t 1 -W 60 {TARGET}"), check=False)
    assert "Time exceeded" in text, text
    goes_and_comes("ip -6 route add 2001:db8:1:1:8000::/65 via 2001:db8:0:2::2", "ip -6 route del 2001:db8:1:1:8000::/65", PREFIX, TARGET)
    goes_and_comes("ip -6 route add blackhole 2001:db8:1:1::77/128", "ip -6 route del 2001:db8:1:1::77/128", PREFIX, TARGET)
    goes_and_comes("ip -6 rule add from 2001:db8:9::9 lookup 100", "ip -6 rule del from 2001:db8:9::9 lookup 100", PREFIX, TARGET)
    goes_and_comes(f"ip address add 2001:db8:1:1::5/128 dev {names[2]} nodad", f"ip address del 2001:db8:1:1::5/128 dev {names[2]}", PREFIX, TARGET)
    goes_and_comes(f"ip -6 route append {PREFIX} via 2001:db8:0:2::2", f"ip -6 route replace {PREFIX} via 2001:db8:0:1::2", PREFIX, TARGET, reached=False)
    goes_and_comes("sysctl -qw net.ipv6.conf.all.forwarding=0", "sysctl -qw net.ipv6.conf.all.forwarding=1", PREFIX, TARGET, reached=False)
    return f"{forwarded} of 3 packets on the fast path; {shown}"


@step
def random_routes():
    """Whatever happens to routes, the cards do what Linux would do."""
    return judge.random_routes(6)


@step
def neighbour():
    """A neighbour that moves, or goes, takes its route off."""
    return neighbour_goes("2001:db8:0:1::2", PREFIX, TARGET)


@step
def priority():
    """Packets of a high precedence come through the other ring; to the router itself, because others do not come to it."""
    more = high("0xc0", "2001:db8:0:1::2")
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
