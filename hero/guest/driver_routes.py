"""Steps of driver_guest.py: routes on and off the fast path."""

from hero.guest import judge
from hero.guest.steps import (CARDS, ask, counters, fast, goes_and_comes, inside, interfaces, long_step, neighbour_goes, offloaded, ping, run,
                              step, transfer, until)


@step
def routes():
    """Routes through a neighbour behind another card are on the fast path, while nothing else matters."""
    names = interfaces()
    for card in range(CARDS):
        run(f"ip route replace 10.1.{card}.0/24 via 10.0.{card}.2")
    ping(0, "10.1.1.1")
    until(lambda: offloaded("10.1.1.0/24"), "the route is offloaded")
    text = ping(0, "10.1.1.1", "-c 2 -W 60 -v") + ask(inside(0, "ping -c 1 -W 60 10.1.1.1"))
    assert "ttl=63" in text, text
    forwarded = fast(0, "10.1.1.1")
    assert forwarded == 3, forwarded
    where = "10.1.1.0/24", "10.1.1.1"
    goes_and_comes("ip route add 10.1.1.128/25 via 10.0.2.2", "ip route del 10.1.1.128/25", *where)
    goes_and_comes("ip route add blackhole 10.1.1.77/32", "ip route del 10.1.1.77/32", *where)
    goes_and_comes("ip rule add from 10.9.9.9 lookup 100", "ip rule del from 10.9.9.9 lookup 100", *where)
    goes_and_comes(f"tc qdisc add dev {names[1]} clsact && tc filter add dev {names[1]} egress matchall action ok", f"tc qdisc del dev {names[1]} clsact", *where)
    goes_and_comes(f"ip link set {names[1]} mtu 1400", f"ip link set {names[1]} mtu 1500", *where)
    return f"{forwarded} of 3 packets on the fast path; " + run("ip route show 10.1.0.0/16").replace("\n", ", ") + run("ip route show root 10.1.0.0/16").replace("\n", ", ")


@step
def neighbour():
    """A neighbour that goes or moves takes its route off."""
    return neighbour_goes("10.0.1.2", "10.1.1.0/24", "10.1.1.1")


@step
def random_routes():
    """Whatever happens to routes, the cards do what Linux would do."""
    return judge.random_routes(4)


def fast_transfer(octets):
    """A transfer from card 0 to a network behind card 1, whose one direction is on the fast path."""
    name = interfaces()[0]
    run("ip route replace 10.1.1.0/24 via 10.0.1.2")
    ping(0, "10.1.1.1")
    until(lambda: offloaded("10.1.1.0/24"), "the route is offloaded")
    before = counters(name)["fast_path"]
    text = transfer(0, 1, "10.1.1.1", octets)
    return f"{text}, {counters(name)['fast_path'] - before} frames on the fast path"


@step
def tcp_fast():
    """A transfer on the fast path arrives unchanged."""
    return fast_transfer(300_000)


@long_step
def tcp_fast_large():
    """10 MB on the fast path arrive unchanged."""
    return fast_transfer(10_000_000)
