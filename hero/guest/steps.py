"""What steps of a test in a guest are made of: commands there, commands of the host (driver_host.py), the cards' interfaces, the kernel's log."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import traceback
from pathlib import Path

from tests.lib.netns import interfaces_of

ROOT = Path(__file__).resolve().parents[2]
CARDS = 4
BORA, BORA_SECONDS = Path("/run/bora-under-test"), 900  # Bora's program in the guest, and the time in which it starts
WAIT_SECONDS = 600  # an idle machine needs a tenth
SHARED = Path(sys.argv[1])
BAD_LOG = re.compile(r"WARNING:|BUG:|UBSAN:|Oops|general protection|refcount|Call Trace|detected.*hang|NETDEV WATCHDOG|hero.*(reset|step)")
GOOD_LOG = re.compile(r"soft lockup|rcu.*stall|clocksource|workqueue lockup|reset was asked for|Hardware name")
EXPECTED = []  # lines of the kernel's log that steps bring about
STEPS, LONG_STEPS = [], []
asked = 0


def step(function):
    """Adds a step, which returns what there is to say about it."""
    STEPS.append(function)
    return function


def long_step(function):
    """Adds a step that runs only if it is named."""
    LONG_STEPS.append(function)
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


def monitor(command, **arguments):
    """A command of QEMU's monitor (QMP)."""
    return json.loads(ask(shlex.join(["python3", str(ROOT / "hero/guest/qmp.py"), str(SHARED / "monitor"), command, json.dumps(arguments)])))


def until(is_true, what, seconds=WAIT_SECONDS):
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


def module():
    """The driver's file: that for this kernel."""
    return ROOT / "target/hero/linux" / run("uname -r").strip() / "hero.ko"


def interfaces():
    """The cards' interfaces, in the order of the cards."""
    return interfaces_of("hero")


def device(name):
    """The folder of an interface's PCI device; its name is the address."""
    return Path(f"/sys/class/net/{name}/device").resolve()


def devlink_device(card=0):
    """A card as devlink names it."""
    return f"pci/{device(interfaces()[card]).name}"


def set_parameter(name, value, card=0):
    """Sets a devlink parameter of one card at run time (docs/hero-linux.md)."""
    run(f"devlink dev param set {devlink_device(card)} name {name} value {value} cmode runtime")


def bring_bora():
    """Copies Bora to where it starts faster than from the shared file system: the program that BORA names, or the newest build."""
    run("mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf; modprobe tun")
    builds = [ROOT / f"target/{profile}/bora" for profile in ("debug", "release")]
    newest = max((path for path in builds if path.exists()), key=lambda path: path.stat().st_mtime, default=None)
    run(f"strip -o {BORA} {os.environ.get('BORA', newest)}")


def all_interfaces():
    """The interfaces once all cards have one and udev, which renames new ones, is done."""
    until(lambda: len(interfaces()) == CARDS, "all cards have an interface")
    run("udevadm settle")
    return interfaces()


def set_up(card, name):
    """Gives the interface of a card its address, and waits for its link."""
    run(f"sysctl -qw net.ipv4.conf.{name}.rp_filter=0 net.ipv6.conf.{name}.disable_ipv6=1; "
        f"ip address replace 10.0.{card}.1/24 dev {name}; ip link set {name} up")
    wait_for_link(name)


def wait_for_link(name):
    """Waits until an interface has a link."""
    until(lambda: "LOWER_UP" in run(f"ip link show {name}"), f"{name} has a link")


def counters(name):
    """`ethtool -S` of an interface."""
    return {key: int(value) for key, value in re.findall(r"^\s+(\w+): (\d+)$", run(f"ethtool -S {name}"), re.MULTILINE)}


def namespace(card):
    """The network namespace of the host where a card's cable ends."""
    return f"{(SHARED / 'namespaces').read_text()}{card}"


def inside(card, command):
    """A command of the host in the namespace where a card's cable ends."""
    return f"ip netns exec {namespace(card)} {command}"


def ping(source, target, options="-c 3 -i 0.3 -W 60"):
    """The host behind one card pings an address."""
    return ask(inside(source, f"ping -q {options} {target}"))


def offloaded(prefix):
    """Whether Linux shows a route of IPv4 or IPv6 as offloaded."""
    return "offload" in run(f"ip {'-6 ' if ':' in prefix else ''}route show {prefix}")


def fast(source, target):
    """How many frames of three pings the card of the source has forwarded by itself."""
    before = counters(interfaces()[source])["fast_path"]
    ping(source, target)
    return counters(interfaces()[source])["fast_path"] - before


def goes_and_comes(change, back, prefix, target, reached=True):
    """A change of Linux's takes a route off the fast path, and it comes back after that. `reached`: whether packets arrive meanwhile."""
    run(change)
    until(lambda: not offloaded(prefix), f"{prefix} is not offloaded: {change}")
    if reached:
        assert fast(0, target) == 0, change
    run(back)
    ping(0, target)
    until(lambda: offloaded(prefix), f"{prefix} is offloaded again: {back}")
    assert fast(0, target) == 3, back


def neighbour_goes(address, prefix, target):
    """A neighbour behind card 1 that moves, or goes, takes its route off."""
    names = interfaces()
    run(f"ip neigh replace {address} dev {names[1]} lladdr 02:00:00:00:00:99 nud permanent")
    until(lambda: offloaded(prefix), "the route to the new address is offloaded")
    before = counters(names[0])["fast_path"]
    ask(inside(0, f"ping -q -c 2 -i 0.3 -W 1 {target}"), check=False)
    assert counters(names[0])["fast_path"] - before == 2, "sent to the new address"
    run(f"ip neigh del {address} dev {names[1]}")
    until(lambda: not offloaded(prefix), "the route is off")
    ping(0, target)
    until(lambda: offloaded(prefix), "the route is back")
    assert fast(0, target) == 3
    return "off and on again"


def high(tos, target="10.0.0.1"):
    """How many of three pings with a TOS come by the ring of high priority."""
    name = interfaces()[0]
    before = counters(name)["rx_high_packets"]
    ping(0, target, f"-c 3 -i 0.3 -Q {tos} -W 60")
    return counters(name)["rx_high_packets"] - before


class Flood:
    """The host behind a card sends pings until the end of the block, each when the one before has come back or is lost."""

    def __init__(self, source, target, options="-A"):
        self.pid = SHARED / f"flood-{source}-{target}"
        self.command = f"echo $$ >{self.pid}; exec {inside(source, f'ping -q {options} {target}')}"

    def __enter__(self):
        self.pid.unlink(missing_ok=True)
        self.number = start(self.command)
        until(self.pid.exists, "pings are sent")
        return self

    def __exit__(self, *_):
        ask(f"kill -INT $(cat {self.pid})")
        _, text = answer(self.number)
        self.said = loss(text)


TRANSFER = """
import hashlib, os, socket, subprocess, sys, threading, time
listener = socket.create_server(("", 5000))
code = "import os, socket, sys; s = socket.create_connection((sys.argv[1], 5000)); d = open(sys.argv[2], 'rb').read(); s.sendall(d); s.shutdown(1); s.recv(1)"
data = os.urandom(int(sys.argv[1]))
open(sys.argv[4] + "/data", "wb").write(data)
sender = subprocess.Popen(["ip", "netns", "exec", sys.argv[2], sys.executable, "-c", code, sys.argv[3], sys.argv[4] + "/data"])
listener.settimeout(900)
peer, _ = listener.accept()
peer.settimeout(900)
started, got = time.monotonic(), b""
while chunk := peer.recv(65536):
    got += chunk
taken = time.monotonic() - started
peer.sendall(b"x")
sender.wait()
assert got == data, (len(got), len(data))
print(len(got), "octets,", hashlib.sha256(got).hexdigest()[:16], f"{len(got) * 8 / taken / 1e6:.1f} Mbit/s")
"""


def transfer(source, target, address, octets, seconds=1800):
    """TCP from the host behind one card to an address of that behind another; returns what was measured."""
    (SHARED / "transfer.py").write_text(TRANSFER)
    return ask(inside(target, f"timeout {seconds} python3 {SHARED}/transfer.py {octets} {namespace(source)} {address} {SHARED}"), seconds=seconds).strip()


def connect():
    """Interfaces, addresses, links; the hosts have routes through the guest."""
    run("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.all.send_redirects=0")
    names = all_interfaces()
    for card, name in enumerate(names):
        ask(inside(card, f"bash -c 'sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip link set lo up; ip address replace 10.0.{card}.2/24 dev wire; "
                         f"ip address replace 10.1.{card}.1/24 dev lo; ip link set wire up; ip route replace default via 10.0.{card}.1; "
                         "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0'"))
        set_up(card, name)


def bring_up():
    """Interfaces, addresses, links; the hosts have routes through the guest."""
    connect()
    names = interfaces()
    return " ".join(names) + "; " + run(f"ethtool -i {names[0]}").replace("\n", ", ")


def loss(text):
    """What a ping says of its packets."""
    return re.search(r"\d+ packets.*loss", text)[0]


def log():
    """The kernel's log."""
    return run("dmesg")


def bad_lines():
    """Lines of the kernel's log that show a defect."""
    return [line for line in log().splitlines() if BAD_LOG.search(line) and not GOOD_LOG.search(line) and not any(one in line for one in EXPECTED)]


def main():
    """The steps that are named, in that order, or all but the long ones. A step that fails does not end it, but the last line is not `done` then."""
    known = {function.__name__: function for function in STEPS + LONG_STEPS}
    chosen, good = [known[name] for name in sys.argv[3:]] or STEPS, True
    with open(sys.argv[2], "w", buffering=1) as out:
        try:
            for function in chosen:
                started = time.monotonic()
                try:
                    said = function()
                except Exception:
                    good, said = False, f"failed\n{traceback.format_exc()}"
                out.write(f"{function.__name__}, {time.monotonic() - started:.1f} s: {said}\n")
                (SHARED / "dmesg").write_text(log())
            for line in bad_lines():
                good = False
                out.write(f"the kernel's log: {line}\n")
            if good:
                out.write("done\n")
        finally:
            start(None)
