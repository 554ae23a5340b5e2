"""Runs in a guest with hero.ko: Linux routes between the cables of the cards, each of which ends in a namespace of the host.

    python3 hero/guest/driver_guest.py SHARED RESULTS [STEP ...]
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.guest.steps import (CARDS, SHARED, answer, ask, bring_up, counters, fast, flood, inside, interfaces, main,  # noqa: E402
                              offloaded, ping, run, step, until)

step(bring_up)


@step
def self_test():
    """`ethtool -t` of one card, down and up."""
    name = interfaces()[3]
    return run(f"ethtool -t {name} offline").replace("\n", " ")


@step
def pings():
    """The router itself, and through it."""
    text = [ping(0, "10.0.0.1"), ping(0, "10.0.1.2"), ping(2, "10.0.3.2"), ping(1, "10.0.2.2", "-c 3 -s 1472 -M do -W 20")]
    return "; ".join(re.search(r"\d+ packets.*loss", one)[0] for one in text)


@step
def priority():
    """Packets with a high precedence come through the other ring."""
    name = interfaces()[0]
    before = counters(name)["rx_high_packets"]
    ping(0, "10.0.1.2", "-c 3 -Q 0xc0 -W 20")
    more = counters(name)["rx_high_packets"] - before
    assert more >= 3, more
    return f"{more} frames of high priority"


TRANSFER = """
import hashlib, os, socket, subprocess, sys, threading, time
listener = socket.create_server(("", 5000))
code = "import os, socket, sys; s = socket.create_connection((sys.argv[1], 5000)); d = open(sys.argv[2], 'rb').read(); s.sendall(d); s.shutdown(1); s.recv(1)"
data = os.urandom(int(sys.argv[1]))
open(sys.argv[4] + "/data", "wb").write(data)
sender = subprocess.Popen(["ip", "netns", "exec", sys.argv[2], sys.executable, "-c", code, sys.argv[3], sys.argv[4] + "/data"])
listener.settimeout(100)
peer, _ = listener.accept()
peer.settimeout(100)
started, got = time.monotonic(), b""
while chunk := peer.recv(65536):
    got += chunk
taken = time.monotonic() - started
peer.sendall(b"x")
sender.wait()
assert got == data, (len(got), len(data))
print(len(got), "octets,", hashlib.sha256(got).hexdigest()[:16], f"{len(got) * 8 / taken / 1e6:.1f} Mbit/s")
"""


def transfer(source, target, octets):
    """TCP from the host behind one card to that behind another; returns what was measured."""
    (SHARED / "transfer.py").write_text(TRANSFER)
    return ask(inside(target, f"timeout 280 python3 {SHARED}/transfer.py {octets} hero{source} 10.0.{target}.2 {SHARED}"), seconds=300).strip()


@step
def tcp():
    """Transfers through the router arrive unchanged."""
    return "; ".join([transfer(0, 1, 300_000), transfer(3, 2, 100_000)])


def goes_and_comes(change, back, prefix):
    """A change of Linux's takes a route off the fast path, and it comes back after that."""
    run(change)
    until(lambda: not offloaded(prefix), f"{prefix} is not offloaded: {change}")
    assert fast(0, "10.1.1.1") == 0, change
    run(back)
    ping(0, "10.1.1.1")
    until(lambda: offloaded(prefix), f"{prefix} is offloaded again: {back}")
    assert fast(0, "10.1.1.1") == 3, back


@step
def routes():
    """Routes through a neighbour behind another card are on the fast path, while nothing else matters."""
    names = interfaces()
    for card in range(CARDS):
        run(f"ip route replace 10.1.{card}.0/24 via 10.0.{card}.2")
    ping(0, "10.1.1.1")
    until(lambda: offloaded("10.1.1.0/24"), "the route is offloaded")
    text = ping(0, "10.1.1.1", "-c 2 -W 20 -v") + ask(inside(0, "ping -c 1 -W 20 10.1.1.1"))
    assert "ttl=63" in text, text
    forwarded = fast(0, "10.1.1.1")
    assert forwarded == 3, forwarded
    prefix = "10.1.1.0/24"
    goes_and_comes("ip route add 10.1.1.128/25 via 10.0.2.2", "ip route del 10.1.1.128/25", prefix)
    goes_and_comes("ip route add blackhole 10.1.1.77/32", "ip route del 10.1.1.77/32", prefix)
    goes_and_comes("ip rule add from 10.9.9.9 lookup 100", "ip rule del from 10.9.9.9 lookup 100", prefix)
    goes_and_comes(f"tc qdisc add dev {names[1]} clsact && tc filter add dev {names[1]} egress matchall action ok", f"tc qdisc del dev {names[1]} clsact", prefix)
    goes_and_comes(f"ip link set {names[1]} mtu 1400", f"ip link set {names[1]} mtu 1500", prefix)
    return f"{forwarded} of 3 packets on the fast path; " + run("ip route show 10.1.0.0/16").replace("\n", ", ") + run("ip route show root 10.1.0.0/16").replace("\n", ", ")


@step
def neighbour():
    """A neighbour that goes or moves takes its route off."""
    names = interfaces()
    prefix = "10.1.1.0/24"
    run(f"ip neigh replace 10.0.1.2 dev {names[1]} lladdr 02:00:00:00:00:99 nud permanent")
    until(lambda: offloaded(prefix), "the route to the new address is offloaded")
    before = counters(names[0])["fast_path"]
    ask(inside(0, "ping -q -c 2 -i 0.3 -W 1 10.1.1.1"), check=False)
    assert counters(names[0])["fast_path"] - before == 2, "sent to the new address"
    run(f"ip neigh del 10.0.1.2 dev {names[1]}")
    until(lambda: not offloaded(prefix), "the route is off")
    ping(0, "10.1.1.1")
    until(lambda: offloaded(prefix), "the route is back")
    assert fast(0, "10.1.1.1") == 3
    return "off and on again"


@step
def tcp_fast():
    """A transfer whose one direction is on the fast path arrives unchanged."""
    names = interfaces()
    run("ip route replace 10.1.1.0/24 via 10.0.1.2")
    ping(0, "10.1.1.1")
    until(lambda: offloaded("10.1.1.0/24"), "the route is offloaded")
    before = counters(names[0])["fast_path"]
    (SHARED / "transfer.py").write_text(TRANSFER)
    text = ask(inside(1, f"timeout 280 python3 {SHARED}/transfer.py 300000 hero0 10.1.1.1 {SHARED}"), seconds=300).strip()
    return f"{text}, {counters(names[0])['fast_path'] - before} frames on the fast path"


XDP = """
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
static long (*redirect)(unsigned int ifindex, unsigned long flags) = (void *)23;
SEC("xdp_pass") int do_pass(struct xdp_md *x) { return XDP_PASS; }
SEC("xdp_drop") int do_drop(struct xdp_md *x) { return XDP_DROP; }
SEC("xdp_back") int do_back(struct xdp_md *x)
{
    unsigned char *d = (void *)(long)x->data, *end = (void *)(long)x->data_end, t;
    if (d + 34 > end || d[12] != 8 || d[13] != 0)
        return XDP_PASS;
    for (int i = 0; i < 6; i++) { t = d[i]; d[i] = d[i + 6]; d[i + 6] = t; }
    for (int i = 26; i < 30; i++) { t = d[i]; d[i] = d[i + 4]; d[i + 4] = t; }
    return XDP_TX;
}
SEC("xdp_to") int do_to(struct xdp_md *x)
{
    unsigned char *d = (void *)(long)x->data, *end = (void *)(long)x->data_end;
    if (d + 34 > end || d[12] != 8 || d[13] != 0)
        return XDP_PASS;
    d[0] = MAC0; d[1] = MAC1; d[2] = MAC2; d[3] = MAC3; d[4] = MAC4; d[5] = MAC5;
    return redirect(IFINDEX, 0);
}
char _license[] SEC("license") = "GPL";
"""


def xdp_program(target):
    """Compiles the programs; the last one sends to a card."""
    name = interfaces()[target]
    mac = ask(inside(target, "cat /sys/class/net/wire/address")).strip().split(":")
    defines = " ".join(f"-DMAC{k}=0x{octet}" for k, octet in enumerate(mac))
    (SHARED / "xdp.c").write_text(XDP)
    index = Path(f"/sys/class/net/{name}/ifindex").read_text().strip()
    ask(f"clang -O2 -g -target bpf -I/usr/include/x86_64-linux-gnu {defines} -DIFINDEX={index} -c {SHARED}/xdp.c -o {SHARED}/xdp.o")


@step
def xdp():
    """Native XDP: pass, drop, back, redirect."""
    names = interfaces()
    xdp_program(2)
    name, said = names[0], []
    for section, target in (("pass", "10.0.0.1"), ("drop", None), ("back", "10.0.0.99"), ("to", "10.0.2.2")):
        run(f"ip -force link set dev {name} xdpdrv obj {SHARED}/xdp.o sec xdp_{section}")
        before = counters(name)
        if section == "back":
            ask(inside(0, f"ip neigh replace 10.0.0.99 dev wire lladdr {Path(f'/sys/class/net/{name}/address').read_text().strip()}"))
        if target:
            # what comes back by XDP_TX is an echo request from the other side, which the host answers, and so on
            text = ask(inside(0, f"ping -q -c 3 -i 0.5 -W 20 {target}"), check=section != "back")
        else:
            text = ask(inside(0, "ping -q -c 3 -i 0.5 -W 1 10.0.0.1"), check=False)
            assert " 0 received" in text, text
        after = counters(name)
        said.append(section + ": " + ", ".join(f"{key} +{after[key] - before[key]}" for key in after
                                               if "xdp" in key and after[key] != before[key]) + " " + re.search(r"\d+ packets.*loss", text)[0])
    run(f"ip link set dev {name} xdpdrv off")
    ping(0, "10.0.1.2")
    return "; ".join(said) + f"; sent by {names[2]}: {counters(names[2])['tx_xdp']}"


@step
def down_and_up():
    """Interfaces go down and up under traffic."""
    names = interfaces()
    floods = [flood(0, "10.0.1.2", 30)]
    for count in range(12):
        run(f"ip link set {names[count % 2]} down; sleep 0.3; ip link set {names[count % 2]} up; sleep 0.5")
    for number in floods:
        answer(number, 120)
    for card in (0, 1):
        run(f"ip route replace 10.1.{card}.0/24 via 10.0.{card}.2")
    until(lambda: "LOWER_UP" in run(f"ip link show {names[1]}"), "link")
    return re.search(r"\d+ packets.*loss", ping(0, "10.0.1.2"))[0]


@step
def resets():
    """Function level resets by sysfs, and resets by ethtool, under traffic."""
    names = interfaces()
    number = flood(0, "10.0.1.2", 25)
    for _ in range(3):
        run(f"echo 1 >/sys/class/net/{names[0]}/device/reset; sleep 1; ethtool -r {names[1]}; sleep 2")
    answer(number, 120)
    return re.search(r"\d+ packets.*loss", ping(0, "10.0.1.2"))[0] + f", {counters(names[1])['resets']} resets"


@step
def unplug():
    """The kernel forgets a card under traffic, and finds it again."""
    names = interfaces()
    number = flood(0, "10.0.1.2", 10)
    device = Path(f"/sys/class/net/{names[1]}/device").resolve()
    run("sleep 2")
    (device / "remove").write_text("1")
    assert len(interfaces()) == CARDS - 1
    ping(0, "10.0.2.2")
    run("echo 1 >/sys/bus/pci/rescan")
    until(lambda: len(interfaces()) == CARDS, "the card is back")
    answer(number, 60)
    name = interfaces()[1]
    run(f"sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1; ip address replace 10.0.1.1/24 dev {name}; ip link set {name} up")
    return re.search(r"\d+ packets.*loss", ping(0, "10.0.1.2", "-c 3 -i 0.5 -W 20"))[0]


@step
def remove_module():
    """The module goes under traffic, and comes again."""
    floods = [flood(0, "10.0.2.2", 10), flood(3, "10.0.2.2", 10)]
    run("sleep 3; rmmod hero")
    assert not interfaces()
    for number in floods:
        answer(number, 60)
    run(f"insmod {module()}")
    bring_up()
    return re.search(r"\d+ packets.*loss", ping(0, "10.0.1.2"))[0]


def module():
    """The module's file: that for this kernel."""
    return next((Path(__file__).resolve().parents[2] / "target/hero/linux" / run("uname -r").strip()).glob("hero.ko"))


@step
def suspend():
    """All devices go to sleep and come back, as far as the kernel's own test of that does it."""
    if not Path("/sys/power/pm_test").exists():
        return "this kernel has no test of suspend"
    run("dmesg -n 8; echo 1 >/sys/power/pm_print_times")
    run("echo devices >/sys/power/pm_test; echo mem >/sys/power/state; echo none >/sys/power/pm_test")
    names = interfaces()
    until(lambda: "LOWER_UP" in run(f"ip link show {names[0]}"), "link")
    return re.search(r"\d+ packets.*loss", ping(0, "10.0.1.2"))[0]


if __name__ == "__main__":
    main()
