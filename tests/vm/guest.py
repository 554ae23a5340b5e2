"""Runs in a guest: all checks of its cells. Writes results to a file, one JSON object per line.

    python3 tests/vm/guest.py '{"kinds": ["veth"], "tiers": {"veth": ["auto"]}, "tcp_seconds": 2, "results": "/tmp/r"}'

With `own_namespace` the router is a namespace, so that veths can be tested without a guest.
"""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lib.bora  # noqa: E402
from lib.bora import Bora  # noqa: E402
from lib.load import Load  # noqa: E402
from vm import bulk, flows, forwarding, machine, multipath, vlan  # noqa: E402
from vm.network import CardNetwork  # noqa: E402
from vm.outage import ForkedSender, Stream  # noqa: E402

CHECK_SECONDS = 600  # an idle machine needs a tenth
START_SECONDS, RESET_SECONDS = 500, 120  # the verifier of an emulated CPU needs a fifth of it
# A kill or a restart takes no link down and next to no time; attaching or detaching the program may reset the card.
SILENCE_MS = {"start": 20_000, "kill -9": 1500, "restart": 1500, "SIGTERM": 1500, "stop": 20_000}
MAY_LOSE_LINK = ("start", "stop")
MULTIPATH_CARDS = ("veth", "virtio", "igb")  # with the engine, which chooses the path itself
# Lines of the kernel's log that show a defect. The emulation, not Bora, causes stalled clocks and CPUs.
BAD_LOG = re.compile(r"WARNING:|BUG:|Oops|general protection|refcount|Call Trace|detected.*hang|NETDEV WATCHDOG")
GOOD_LOG = re.compile(r"soft lockup|rcu.*stall|clocksource|workqueue lockup")


class Cell:
    """One kind of card and one tier: runs the checks and records their results."""

    def __init__(self, net, tier, task, out):
        self.net = net
        self.tier = tier
        self.task = task
        self.out = out
        self.failed = 0
        self.paths = set()  # the tiers that the ports use

    def note(self, **what):
        """Writes one line of results."""
        self.out.write(json.dumps({"kind": self.net.kind, "tier": self.tier, "at": round(time.monotonic(), 1), **what}) + "\n")
        self.out.flush()

    def check(self, name, function, *arguments):
        """Runs one check within its time, and records what it returned or why it failed. True if it passed."""
        started = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, CHECK_SECONDS + 4 * self.task["tcp_seconds"])
            try:
                detail = function(*arguments)
                self.net.undo()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            bora = self.net.bora
            if bora is not None and bora.process is not None:
                assert bora.alive(), f"bora is dead: {bora.output()[-1500:]}"
                bora.check_conservation(10)
            self.note(check=name, ok=True, detail=detail, seconds=round(time.monotonic() - started, 1))
            return True
        except Exception as error:
            self.failed += 1
            self._forget_undo()
            self.note(check=name, ok=False, reason=f"{type(error).__name__}: {error}"[:3000],
                      where=traceback.format_exc()[-1500:], seconds=round(time.monotonic() - started, 1))
            return False

    def _forget_undo(self):
        """After a failure: reverts what it can, so that the next check can start."""
        try:
            self.net.undo()
        except Exception:
            self.net._undo.clear()


def too_slow(*_):
    raise TimeoutError("the check took too long")


# Linux alone.


def parts(cell, references):
    """The checks of VLANs and flows. False if there shall be no others."""
    for part, reference in zip((vlan, flows), references):
        if reference:
            part.run(cell, reference)
    return not cell.task.get("only")


def oracle(cell, references):
    """The checks must pass without Bora, or the cell proves nothing."""
    net = cell.net
    if not parts(cell, references):
        return
    cell.check("transit", forwarding.transit, net)
    for name, function in forwarding.EXCEPTIONS.items():
        cell.check(name, function, net)


# A tier.


def start(cell):
    """The first start under traffic."""
    net = cell.net
    options = [] if cell.tier == "express" else ["--workers", str(machine.CPUS)]
    with Stream(net) as stream:
        stream.wait_until_it_flows(20)
        stream.event("start")
        net.bora = Bora(net.router, ["r0", "r1"], cell.tier, options)
        net.bora.start()
        stream.wait_until_it_flows(RESET_SECONDS)
        outages = stream.finish()
    net.wait_for_links()
    net.wait_until_forwarding()
    return judged(outages)


def judged(outages):
    """The outages as JSON; raises if one is worse than it may be."""
    detail = {name: {key: round(value) for key, value in dataclasses.asdict(outage).items()}
              for name, outage in outages.items()}
    for name, outage in outages.items():
        limit = SILENCE_MS[name] + 3 * outage.usual
        assert outage.silence <= limit, f"{name}: {outage.silence:.0f} ms without a packet: {detail}"
        assert outage.duplicated == 0, f"{name}: {outage.duplicated} packets came twice: {detail}"
        assert name in MAY_LOSE_LINK or outage.link_down == 0, \
            f"{name}: {outage.link_down:.0f} ms without a link: {detail}"
    return detail


def best(kind):
    """The best modes (of program, of sockets) that the driver of a kind supports on this kernel."""
    since = machine.kernel_release()
    # veth has driver XDP before 6.3, too, but Bora could not see VLAN tags there
    native = {"e1000e": False, "vmxnet3": since >= (6, 6), "veth": since >= (6, 3)}.get(kind, True)
    zero_copy = {"igb": since >= (6, 14), "virtio-mq": since >= (6, 13)}.get(kind, False)
    return "driver" if native else "generic", "zero-copy" if zero_copy else "copy"


def uses_queues(kind):
    """Whether packets come on all queues. QEMU's vmxnet3 uses only the first, and so does veth without driver XDP."""
    return kind != "vmxnet3" and (kind != "veth" or best(kind)[0] == "driver")


def mode(cell):
    """Checks how the program is attached and the sockets are bound on every port: in the best mode of the driver."""
    ports = cell.net.bora.show("ports")
    cell.paths = {port["path"] for port in ports}
    program, sockets = best(cell.net.kind)
    keys = ("path", "why", "xdp", "af_xdp", "queues")
    shown = {port["name"]: {key: port[key] for key in keys} for port in ports}
    cell.note(ports=shown)
    ways = cell.net.bora.show("sync")["express"]
    assert ways[:2] == [f"{family}: looks up in Bora's FIB" for family in ("IPv4", "IPv6")], f"this kernel can do it: {ways}"
    for port in ports:
        assert port["xdp"] == program, f"{program} XDP is the best possible mode here: {shown}"
        assert cell.tier == "auto" or port["path"] == cell.tier, f"{cell.tier} was asked for: {shown}"
        assert port["path"] != "engine" or port["af_xdp"] == sockets, f"the driver can do {sockets}: {shown}"
        assert cell.tier != "auto" or (port["path"] == "engine") == (sockets == "zero-copy"), \
            f"auto takes the engine where there is zero-copy: {shown}"


def linux_hosts(cell):
    """Ping, and TCP in both families, one family in each direction."""
    net, seconds = cell.net, cell.task["tcp_seconds"]
    before = forwarding.counted(net)
    with net.linux_hosts():
        bulk.pings(net)
        detail = {f"IPv{family}": bulk.tcp(net, family, seconds, link) for family, link in ((4, 0), (6, 1))}
    after = forwarding.counted(net)
    detail["received"], detail["to_linux"] = (after[0][key] - before[0][key] for key in ("received", "passed"))
    detail["reasons"] = forwarding.reasons(before, after)
    return detail


def restarts(cell):
    """kill -9, a new start, SIGTERM and `bora stop --detach`, all during one stream."""
    net = cell.net
    with Stream(net) as stream:
        stream.wait_until_it_flows(20)
        stream.event("kill -9")
        net.bora.kill()
        stream.wait_until_it_flows(RESET_SECONDS)
        stream.event("restart")
        net.bora.start()
        stream.wait_until_it_flows(RESET_SECONDS)
        before = forwarding.counted(net)
        time.sleep(0.5)
        after = forwarding.counted(net)
        stream.event("SIGTERM")
        net.bora.process.send_signal(signal.SIGTERM)
        code = net.bora.process.wait(lib.bora.STOP_SECONDS)
        stream.wait_until_it_flows(RESET_SECONDS)
        stream.event("stop")
        net.bora.stop()
        stream.wait_until_it_flows(RESET_SECONDS)
        outages = stream.finish()
    assert code == 0, f"bora ended with exit {code} after SIGTERM"
    received, passed = (after[0][key] - before[0][key] for key in ("received", "passed"))
    assert received > 0 and passed <= received // 10, \
        f"after the restart {passed} of {received} packets went to Linux: {forwarding.reasons(before, after)}"
    return judged(outages)


def nothing_left(cell):
    """After `bora stop --detach` the ports have no program, and Linux forwards."""
    for port in ("r0", "r1"):
        shown = cell.net.router.ip("link", "show", port).stdout
        assert "xdp" not in shown, f"a program is left: {shown}"
    cell.net.wait_until_forwarding()
    forwarding.transit(cell.net)


def run_tier(cell, references):
    """All checks of a tier; none if it does not start."""
    net = cell.net
    try:
        if not cell.check("start", start, cell) and not (net.bora and net.bora.alive()):
            return
        cell.check("mode", mode, cell)
        if not parts(cell, references):
            return
        queues = max((port["queues"] for port in net.bora.show("ports")), default=1) if uses_queues(net.kind) else 1
        cell.check("transit", forwarding.transit_on_tier, net)
        for name, function in forwarding.EXCEPTIONS.items():
            cell.check(name, function, net)
        cell.check("queues", forwarding.spread, net, queues)
        cell.check("TCP", linux_hosts, cell)
        if not references[1]:
            cell.check("a flow", flows.one, net)
        if not cell.task.get("short"):
            cell.check("MTU", forwarding.mtu_change, net)
            cell.check("down and up", forwarding.down_and_up, net)
            cell.check("transit afterwards", forwarding.transit_afterwards, net)
        cell.check("restarts", restarts, cell)
        cell.check("nothing left", nothing_left, cell)
        if net.kind in MULTIPATH_CARDS and "engine" in cell.paths and not cell.task.get("short"):
            for policy in range(4):
                cell.check(f"ECMP policy {policy}", multipath.one_path, net, cell.tier, policy)
    except Exception as error:
        cell.note(check="the rest", ok=False, reason=f"{type(error).__name__}: {error}", where=traceback.format_exc())
    finally:
        end(cell)


def end(cell):
    """Stops Bora, whatever has happened."""
    net = cell.net
    if net.bora is not None and net.bora.log is not None:
        if cell.failed:
            cell.note(log=net.bora.output()[-4000:] if not net.bora.log.closed else "")
        net.bora.kill()
        try:
            net.bora.stop()
        except Exception as error:
            cell.note(check="stop", ok=False, reason=str(error))
    net.bora = None
    cell.check("kernel's log", kernel_log, cell)


def kernel_log(cell):
    """The kernel's log has no warning."""
    text = subprocess.run(["dmesg", "--read-clear"], capture_output=True, text=True, check=False).stdout
    bad = [line for line in text.splitlines() if BAD_LOG.search(line) and not GOOD_LOG.search(line)]
    assert cell.task.get("own_namespace") or not bad, "\n".join(bad[:20])


def tiers(task, net, out):
    """Linux alone, then each tier; the tier that `auto` takes is not run a second time."""
    references = [part.Reference(net, bool(task.get("short"))) if net.kind in task.get(name, ()) else None
                  for part, name in ((vlan, "vlans"), (flows, "flows"))]
    oracle(Cell(net, "linux", task, out), references)
    done = set()
    for tier in task["tiers"][net.kind]:
        if tier in done:
            continue
        cell = Cell(net, tier, task, out)
        started = time.monotonic()
        cell.note(begin=True)
        run_tier(cell, references)
        cell.note(end=True, seconds=round(time.monotonic() - started, 1))
        done |= cell.paths if len(cell.paths) == 1 else set()


def prepare():
    """Mounts file systems that a guest lacks."""
    for kind, place in (("bpf", "/sys/fs/bpf"), ("tmpfs", "/run/netns")):
        Path(place).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", kind, kind, place], check=True)
    # systemd makes /dev/net/tun on a real machine, and opening it loads the module
    subprocess.run(["modprobe", "tun"], check=True)
    # copy the binary to memory, because the shared file system is slow
    os.environ["BORA"] = shutil.copy(os.environ["BORA"], "/run/bora-under-test")


def main():
    """Does the task of the argument, one line of JSON."""
    task = json.loads(sys.argv[1])
    lib.bora.START_SECONDS, lib.bora.STOP_SECONDS = START_SECONDS, 60
    Load.sender = ForkedSender
    signal.signal(signal.SIGALRM, too_slow)
    if not task.get("own_namespace"):
        prepare()
    with open(task["results"], "w") as out:
        out.write(json.dumps({"kernel": os.uname().release, "uptime": float(open("/proc/uptime").read().split()[0])}) + "\n")
        out.flush()
        for kind in task["kinds"]:
            try:
                net = CardNetwork(kind, bool(task.get("own_namespace")))
            except Exception as error:
                out.write(json.dumps({"kind": kind, "tier": "linux", "check": "network", "ok": False,
                                      "reason": str(error), "where": traceback.format_exc()}) + "\n")
                out.flush()
                continue
            try:
                tiers(task, net, out)
            finally:
                net.close()
        out.write(json.dumps({"finished": True}) + "\n")


if __name__ == "__main__":
    main()
