"""What the daemon's threads may still do once it runs: capabilities(7) and seccomp(2), as /proc shows them."""

import re
import subprocess
import time
from pathlib import Path

import pytest

from lib.bora import Bora
from lib.hosts import Hosts
from lib.ping import ping

pytestmark = pytest.mark.bora
# numbers of <linux/capability.h>
BITS = {"DAC_OVERRIDE": 1, "NET_ADMIN": 12, "NET_RAW": 13, "IPC_LOCK": 14, "SYS_ADMIN": 21, "SYSLOG": 34, "PERFMON": 38, "BPF": 39}
KERNEL = {"NET_ADMIN", "NET_RAW", "BPF", "PERFMON"}
CONTROL = KERNEL | {"SYSLOG", "IPC_LOCK", "SYS_ADMIN"}
NONE = set()
EXPECTED = {"bora": CONTROL, "bora-check": KERNEL, "bora-judge": KERNEL, "reclaim": KERNEL, "bora-slowpath": KERNEL, "bora-watch": KERNEL,
            "bora-lease": NONE, "bora-api": NONE, "bora-worker": NONE, "bora-memif": {"DAC_OVERRIDE"},
            "bora-memif-peer": NONE, "bora-notify": NONE, "bora-samples": NONE}


def threads(pid):
    """(name without number, {line of its status: value}) of each thread."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        yield re.sub(r"\d+$", "", status["Name"]), status


def mask(names):
    return sum(1 << BITS[name] for name in names)


def wrong(pid, more):
    """(names of threads, what they have and should not, or have not and should)."""
    seen, faults = set(), []
    for name, status in threads(pid):
        expected = EXPECTED.get(name, NONE) | (more if name == "bora" else NONE)
        lines = {"CapPrm": mask(expected), "CapEff": mask(expected), "CapInh": 0, "CapBnd": 0, "CapAmb": 0, "NoNewPrivs": 1, "Seccomp": 2}
        faults += [f"{name} {line} {status[line]}" for line, value in lines.items() if int(status[line], 16) != value]
        seen.add(name)
    return seen, faults


def check(pid, more=NONE, begun=NONE):
    """Every thread has exactly what it is to have, and these are there, once they have begun. Returns all names.

    `more`: of the control loop.
    """
    deadline = time.monotonic() + 10
    while True:
        seen, faults = wrong(pid, more)
        if not faults and begun <= seen:
            return seen
        assert time.monotonic() < deadline, (faults, begun - seen)
        time.sleep(0.05)


@pytest.fixture(params=["engine", "express"])
def net(request):
    network = Hosts(request.param)
    yield network
    network.close()


def test_threads(net):
    """After the start, and after a port has gone and come again, while somebody watches."""
    seen = check(net.bora.process.pid)
    assert {"bora", "bora-check", "bora-lease", "bora-api"} <= seen
    assert ("bora-worker" in seen) == (net.backend == "engine")
    assert "the control loop keeps NET_ADMIN" in net.bora.output()
    assert len(ping(net.hosts[0], net.address(4, 1), 10)) == 10


def test_a_port_comes_while_it_runs(net, tmp_path):
    """`bora apply` takes a port away and adds it again, with what is left of the rights."""
    program, file = net.bora.program, tmp_path / "bora.toml"
    both = net.router.exec(program, "save").stdout
    head, *ports = re.split(r"(?m)^(?=\[\[port\]\])", both)
    file.write_text(head + ports[0])
    net.router.exec(program, "apply", str(file))
    assert len(net.bora.show("ports")) == 1
    file.write_text(both)
    net.router.exec(program, "apply", str(file))
    assert len(net.bora.show("ports")) == 2
    watch = net.router.popen(program, "trace", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        check(net.bora.process.pid, begun={"bora-watch"})
    finally:
        watch.kill()
        watch.wait()
    assert len(ping(net.hosts[0], net.address(4, 1), 10)) == 10
    net.bora.wait_in_sync()


def test_samples(net, tmp_path):
    """Who sends to collectors may do no more than that."""
    file = tmp_path / "bora.toml"
    file.write_text(net.router.exec(net.bora.program, "save").stdout + '[sflow]\ncollector = "127.0.0.1"\n')
    net.router.exec(net.bora.program, "apply", str(file))
    check(net.bora.process.pid, begun={"bora-samples"})


def test_a_memif_port(tmp_path):
    """Its thread may open other users' sockets, and nothing else."""
    network = Hosts("kernel")
    try:
        network.bora = Bora(network.router, ["r0", f"memif:{tmp_path}/m.sock,role=server,name=m0"], "engine")
        network.bora.start()
        check(network.bora.process.pid, {"DAC_OVERRIDE"}, begun={"bora-memif"})
    finally:
        network.close()
