"""What scripts share that run in a guest with hero.ko: commands in the guest and on the host, the cards' interfaces, steps.

A script has steps, functions that `step` adds, and calls `main`; its arguments are SHARED RESULTS [STEP ...].
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


def offloaded(prefix):
    """Whether Linux shows a route as offloaded."""
    return "offload" in run(f"ip route show {prefix}")


def fast(source, target):
    """How many frames of three pings the card of the source has forwarded by itself."""
    before = counters(interfaces()[source])["fast_path"]
    ping(source, target)
    return counters(interfaces()[source])["fast_path"] - before


def flood(source, target, seconds):
    """The host behind a card sends pings without pause for a while, whatever becomes of them."""
    return start(inside(source, f"timeout {seconds} ping -q -i 0.005 {target}"))


def main():
    """All steps, or those that are named. A step that fails does not end it, but the last line is not `done` then."""
    chosen, good = sys.argv[3:], True
    with open(sys.argv[2], "w", buffering=1) as out:
        try:
            for function in STEPS:
                if chosen and function.__name__ not in chosen:
                    continue
                started = time.monotonic()
                try:
                    said = function()
                except Exception:
                    good, said = False, f"failed\n{traceback.format_exc()}"
                out.write(f"{function.__name__}, {time.monotonic() - started:.1f} s: {said}\n")
            bad = [line for line in log().splitlines() if BAD_LOG.search(line) and not GOOD_LOG.search(line)]
            for line in bad:
                out.write(f"the kernel's log: {line}\n")
            if good and not bad:
                out.write("done\n")
            (SHARED / "dmesg").write_text(log())
        finally:
            start(None)
