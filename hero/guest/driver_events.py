"""Steps of driver_guest.py: what happens to a card under traffic."""

import mmap
import random
import struct
import time

from hero.guest.steps import (CARDS, EXPECTED, SHARED, Flood, all_interfaces, ask, bad_lines, connect, counters, device, interfaces, log, long_step,
                              loss, module, monitor, namespace, offloaded, ping, run, set_up, step, until, wait_for_link)

CMD, RESET = 4, 1
PCI_COMMAND, MEMORY, BUS_MASTER = 4, 2, 4  # offset in the configuration space, and bits


def switch(folder, bits, on):
    """Sets or clears bits of a PCI device's register COMMAND."""
    with open(folder / "config", "r+b", buffering=0) as file:
        file.seek(PCI_COMMAND)
        command, = struct.unpack("<H", file.read(2))
        file.seek(PCI_COMMAND)
        file.write(struct.pack("<H", command | bits if on else command & ~bits))


def works(*pairs):
    """Pings between hosts, each of whose packets must come back; returns what they say."""
    # after its last packet, ping waits for as long as its interval is, so a late answer would be a lost one with a short interval
    said = [loss(ping(source, f"10.0.{target}.2", "-c 3 -i 3 -W 60")) for source, target in pairs or ((0, 1), (3, 2))]
    assert all(" 0% packet loss" in one for one in said), said
    return "; ".join(said)


@step
def down_and_up():
    """Interfaces go down and up under traffic."""
    names = interfaces()
    with Flood(0, "10.0.1.2"):
        for count in range(12):
            run(f"ip link set {names[count % 2]} down; sleep 0.3; ip link set {names[count % 2]} up; sleep 0.5")
    for card in (0, 1):
        run(f"ip route replace 10.1.{card}.0/24 via 10.0.{card}.2")
    wait_for_link(names[1])
    return works()


# Resets: each takes an interface.


def function_level(name):
    """A function level reset."""
    (device(name) / "reset").write_text("1")


def by_ethtool(name):
    """The driver resets it."""
    run(f"ethtool -r {name}")


def by_somebody_else(name):
    """Something writes the card's register CMD without the driver."""
    with open(device(name) / "resource0", "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 4096) as registers:
        registers[CMD:CMD + 4] = struct.pack("<I", RESET)


def by_self_test(name):
    """The offline test resets it."""
    run(f"ethtool -t {name} offline", check=False)  # the link may be seen too early


def down_up(name):
    """The interface goes down and up."""
    run(f"ip link set {name} down; ip link set {name} up")


def without_bus(name):
    """The card loses its bus for a moment, so that its accesses are errors."""
    folder = device(name)
    switch(folder, BUS_MASTER, False)
    time.sleep(0.1)
    switch(folder, BUS_MASTER, True)


def pull(card):
    """Pulls the cable of a card."""
    ask(f"ip -n {namespace(card)} link set wire down")


def plug_in(card):
    """Plugs it in again; its end has lost its route with the link."""
    ask(f"ip -n {namespace(card)} link set wire up && ip -n {namespace(card)} route replace default via 10.0.{card}.1")


def pulled(name):
    """Its cable is pulled, and plugged in again."""
    card = interfaces().index(name)
    pull(card)
    time.sleep(0.1)
    plug_in(card)


def removed(name):
    """The kernel forgets the card, and finds it again."""
    card = interfaces().index(name)
    (device(name) / "remove").write_text("1")
    run("echo 1 >/sys/bus/pci/rescan")
    set_up(card, all_interfaces()[card])


LOST_FRAMES = "the card lost frames that it was to send"
# what a card without its bus does, in the kernel's log
REFUSED = ("memory refused completions", "card and driver are out of step", "the card lost its receive buffers", LOST_FRAMES)
OTHERS = "the cards of its bus are others"  # when one of them is gone
RESETS = (function_level, by_ethtool, by_somebody_else, by_self_test, down_up, without_bus)
EVENTS = (*RESETS, pulled, removed)


def check_counters():
    """No counter has been read where there was none, or where somebody had cleared it: that is as if it had wrapped."""
    for name in interfaces():
        wrong = {what: value for what, value in counters(name).items() if value >= 1 << 31}
        assert not wrong, f"{name}: {wrong}"


def at_random(events, count, seed=1):
    """Events of these kinds at all cards under traffic. Returns what was done, and how long it took."""
    EXPECTED.extend((*REFUSED, OTHERS, "the card was reset by somebody else"))
    chosen, done, started = random.Random(seed), dict.fromkeys(events, 0), time.monotonic()
    with Flood(0, "10.0.1.2"), Flood(1, "10.0.2.2"), Flood(3, "10.0.2.2", "-A -s 1400"):
        for number in range(count):
            how, name = chosen.choice(events), chosen.choice(interfaces())
            how(name)
            done[how] += 1
            time.sleep(chosen.choice((0, 0.05, 0.3)))
            if number % 50 == 49:
                (SHARED / "progress").write_text(f"{number + 1} in {time.monotonic() - started:.0f} s\n{run('ip -s link')}")
                assert not bad_lines(), bad_lines()
    taken = time.monotonic() - started
    time.sleep(3)  # the driver looks once a second
    for name in interfaces():
        wait_for_link(name)
    check_counters()
    kinds = ", ".join(f"{how.__name__} {times}" for how, times in done.items())
    seen = sum(counters(name)["resets"] for name in interfaces())
    return f"{count} in {taken:.0f} s ({kinds}; the driver counts {seen} resets of its own); {works()}"


@step
def resets():
    """Resets of all kinds under traffic."""
    return at_random(RESETS, 30)


@long_step
def many_events():
    """A thousand resets, removals of cards and losses of links."""
    return at_random(EVENTS, 1000, seed=2)


@step
def link_loss():
    """A cable is pulled under traffic, and plugged in again: the interface and its routes notice."""
    name = interfaces()[1]
    run("ip route replace 10.1.1.0/24 via 10.0.1.2")
    ping(0, "10.1.1.1")
    until(lambda: offloaded("10.1.1.0/24"), "the route is offloaded")
    with Flood(0, "10.1.1.1"):
        pull(1)
        until(lambda: "NO-CARRIER" in run(f"ip link show {name}"), "no link")
        until(lambda: not offloaded("10.1.1.0/24"), "the route is off the fast path")
        plug_in(1)
        wait_for_link(name)
    ping(0, "10.1.1.1")
    until(lambda: offloaded("10.1.1.0/24"), "the route is offloaded again")
    return works()


@step
def bus_errors():
    """A card without its bus master bit, or its memory decoding, comes back."""
    EXPECTED.extend((*REFUSED, "the card does not come back from its reset", "NETDEV WATCHDOG", "the card sends nothing"))
    name = interfaces()[1]
    before, folder = counters(name), device(name)
    with Flood(0, "10.0.1.2"):
        without_bus(name)
        time.sleep(3)
        wait_for_link(name)
        switch(folder, MEMORY, False)
        time.sleep(3)
        assert "NO-CARRIER" in run(f"ip link show {name}"), "a card that does not answer has no link"
        switch(folder, MEMORY | BUS_MASTER, True)
        down_up(name)
        wait_for_link(name)
    after = counters(name)
    check_counters()
    return f"{works()}, {after['resets'] - before['resets']} resets, {after['bus_error']} bus errors"


@step
def lost_frames():
    """A card that cannot read a vector of frames loses them without a word, and is reset."""
    EXPECTED.extend(REFUSED)
    name = interfaces()[1]
    folder, before = device(name), log().count(LOST_FRAMES)
    works((0, 1))  # the neighbour is known, so that the host says nothing
    for _ in range(3):  # unless the host says something, and the card is reset for that
        switch(folder, BUS_MASTER, False)
        run("ping -q -c 1 -W 1 10.0.1.2", check=False)
        switch(folder, BUS_MASTER, True)
        time.sleep(4)
        wait_for_link(name)
        if log().count(LOST_FRAMES) > before:
            return works()
    raise AssertionError(f"the driver did not notice: {counters(name)}")


@long_step
def errors_of_the_port():
    """A fatal and another error, which the port of a card reports, are recovered from. Linux gives up on QEMU's ports (docs/hero-linux.md)."""
    name, said = interfaces()[1], []
    for error in ("DLP", "COMP_TIME"):
        before = log().count("AER: device recovery successful")
        with Flood(0, "10.0.1.2"):
            text = monitor("human-monitor-command", **{"command-line": f"pcie_aer_inject_error hero-port1 {error}"})
            until(lambda: log().count("AER: device recovery successful") > before, f"recovery from {error}: {text}")
            wait_for_link(name)
        said.append(f"{error}: {works()}")
    return "; ".join(said)


def comes_back(card):
    """A card that was away has an interface again, and works."""
    set_up(card, all_interfaces()[card])
    return works()


def others_agree():
    """The cards have other numbers when one is gone, and all know of it: one that is reset forwards to the others."""
    EXPECTED.append(OTHERS)
    run(f"ethtool -r {interfaces()[0]}; ip route replace 10.1.2.0/24 via 10.0.2.2; sleep 3")
    ping(0, "10.1.2.1")
    until(lambda: offloaded("10.1.2.0/24"), "the route is offloaded")
    before = counters(interfaces()[0])["fast_path"]
    said = loss(ping(0, "10.1.2.1"))
    forwarded = counters(interfaces()[0])["fast_path"] - before
    assert forwarded == 3, (said, forwarded)
    return f"{said}, {forwarded} by the cards"


@step
def unplug():
    """The kernel forgets a card under traffic, and finds it again."""
    with Flood(0, "10.0.1.2"):
        time.sleep(1)
        (device(interfaces()[1]) / "remove").write_text("1")
        assert len(interfaces()) == CARDS - 1
        ping(0, "10.0.2.2")
    forwarded = others_agree()
    run("echo 1 >/sys/bus/pci/rescan")
    return f"{forwarded}, {comes_back(1)}"


def is_plugged(card):
    """Whether QEMU has a card."""
    ports = [port for bus in monitor("query-pci") for port in bus["devices"] if port["qdev_id"] == f"hero-port{card}"]
    return any(ports[0]["pci_bridge"].get("devices", []))


@long_step
def hot_unplug():
    """A card is pulled out under traffic, and put in again. QEMU 11.1.3 aborts when it lets go of the card (docs/hero-linux.md)."""
    with Flood(0, "10.0.1.2"):
        monitor("device_del", id="hero1")
        until(lambda: len(interfaces()) == CARDS - 1, "the card is gone")
        ping(0, "10.0.2.2")
        until(lambda: not is_plugged(1), "QEMU has let go of it")
        monitor("device_add", driver="vfio-user-pci", id="hero1", bus="hero-port1", socket={"type": "unix", "path": f"{SHARED}/device/card1.sock"})
        all_interfaces()
    return comes_back(1)


@step
def remove_module():
    """The module goes under traffic, and comes again."""
    with Flood(0, "10.0.2.2"), Flood(3, "10.0.2.2"):
        time.sleep(1)
        run("rmmod hero")
        assert not interfaces()
        run(f"insmod {module()}")
        connect()
    return works()


@long_step
def many_removals():
    """The module goes and comes many times."""
    for _ in range(20):
        said = remove_module()
    return f"20 times, then {said}"


@long_step
def leaks():
    """The driver has let go of all memory when it goes, says the debug kernel. Nothing comes after this."""
    report = "/sys/kernel/debug/kmemleak"
    run("rmmod hero")
    for _ in range(2):  # what is new is shown from the second on
        run(f"echo scan >{report}; sleep 6")
    found = run(f"cat {report}")
    assert not found, found


@long_step
def killed():
    """The device is killed: QEMU answers for it with ones. The guest goes on, and lets go of the cards. Nothing comes after this."""
    with Flood(0, "10.0.1.2"):
        ask(f"kill -9 $(cat {SHARED}/device/pid) && rm {SHARED}/device/pid")
        for name in interfaces():
            until(lambda: "NO-CARRIER" in run(f"ip link show {name}"), f"{name} has no link any more")
    names = interfaces()
    run(f"ethtool -S {names[0]}; ethtool -d {names[0]}; ethtool -t {names[0]} offline; ethtool -r {names[1]}", check=False)
    run(f"ip link set {names[2]} down; ip link set {names[2]} up", check=False)
    time.sleep(3)
    run("rmmod hero")
    return f"{log().count('does not answer any more')} cards do not answer, and the module is gone"
