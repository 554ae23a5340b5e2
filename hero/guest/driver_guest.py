"""Runs in a guest with hero.ko: Linux routes between the cables of the cards, each of which ends in a namespace of the host.

    python3 hero/guest/driver_guest.py SHARED RESULTS [STEP ...]
"""

import json
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path

CARDS = 4
WAIT_SECONDS = 90
SHARED = Path(sys.argv[1])
BAD_LOG = re.compile(r"WARNING:|BUG:|Oops|general protection|refcount|Call Trace|detected.*hang|NETDEV WATCHDOG|hero.*(reset|step)")
GOOD_LOG = re.compile(r"soft lockup|rcu.*stall|clocksource|workqueue lockup|reset was asked for|Hardware name")
STEPS = []
asked = 0


def step(function):
    """Adds a step, which returns what there is to say about it."""
    STEPS.append(function)
    return function


def run(command, check=True):
    """Runs a shell command in the guest; returns what it printed."""
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def start(command):
    """Has the host run a shell command; returns its number for `answer`."""
    global asked
    part = SHARED / "ask.part"
    part.write_text(json.dumps(command))
    part.rename(SHARED / f"ask-{asked}")
    asked += 1
    return asked - 1


def answer(number, seconds=WAIT_SECONDS):
    """Waits for what a command of the host printed; returns its exit code, too."""
    file = SHARED / f"answer-{number}"
    until(file.exists, f"the host answers question {number}", seconds)
    return json.loads(file.read_text())


def ask(command, check=True, seconds=WAIT_SECONDS):
    """Has the host run a shell command; returns what it printed."""
    code, text = answer(start(command), seconds)
    assert not check or code == 0, f"on the host, {command}: {text}"
    return text


def until(is_true, what, seconds=WAIT_SECONDS):
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


def interfaces():
    """The cards' interfaces, in the order of the cards."""
    found = [(folder.resolve().parts[-3], folder.name) for folder in Path("/sys/class/net").iterdir()
             if (folder / "device/driver").exists() and (folder / "device/driver").resolve().name == "hero"]
    return [name for _, name in sorted(found)]


def counters(name):
    """`ethtool -S` of an interface."""
    return {key: int(value) for key, value in re.findall(r"^\s+(\w+): (\d+)$", run(f"ethtool -S {name}"), re.MULTILINE)}


def inside(card, command):
    """A command of the host in the namespace where a card's cable ends."""
    return f"ip netns exec hero{card} {command}"


def ping(source, target, options="-c 3 -i 0.3 -W 20"):
    """The host behind one card pings an address."""
    return ask(inside(source, f"ping -q {options} {target}"))


def log():
    """The kernel's log."""
    return run("dmesg")


@step
def bring_up():
    """Interfaces, addresses, links; the hosts have routes through the guest."""
    run("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.all.send_redirects=0")
    names = interfaces()
    assert len(names) == CARDS, names
    for card, name in enumerate(names):
        run(f"sysctl -qw net.ipv4.conf.{name}.rp_filter=0 net.ipv6.conf.{name}.disable_ipv6=1; ip address add 10.0.{card}.1/24 dev {name}; ip link set {name} up")
        ask(inside(card, f"bash -c 'sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip link set lo up; ip address add 10.0.{card}.2/24 dev wire; "
                         f"ip address add 10.1.{card}.1/24 dev lo; ip link set wire up; ip route replace default via 10.0.{card}.1; "
                         "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0'"))
    for name in names:
        until(lambda: "LOWER_UP" in run(f"ip link show {name}"), f"{name} has a link")
    return " ".join(names) + "; " + run(f"ethtool -i {names[0]}").replace("\n", ", ")


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
    return "; ".join([transfer(0, 1, 1_000_000), transfer(3, 2, 300_000)])


def main():
    """All steps, or those that are named; the first that fails ends it."""
    chosen = sys.argv[3:]
    with open(sys.argv[2], "w", buffering=1) as out:
        try:
            for function in STEPS:
                if chosen and function.__name__ not in chosen:
                    continue
                started = time.monotonic()
                said = function()
                out.write(f"{function.__name__}, {time.monotonic() - started:.1f} s: {said}\n")
            bad = [line for line in log().splitlines() if BAD_LOG.search(line) and not GOOD_LOG.search(line)]
            assert not bad, bad
            out.write("done\n")
        except Exception:
            out.write(traceback.format_exc() + "\n" + "\n".join(log().splitlines()[-60:]) + "\n")
            raise
        finally:
            start(None)


if __name__ == "__main__":
    main()
