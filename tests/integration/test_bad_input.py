"""User errors: one clear line on stderr, exit code 1, and nothing on the machine has changed."""

import json
import re
import time
from pathlib import Path

import pytest

from lib import bora
from lib.bora import Bora
from lib.netns import run

pytestmark = pytest.mark.bora
PORTS = ("r0", "r1", "r2")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
NO_MEMLOCK = ["prlimit", "--memlock=65536", "setpriv", "--bounding-set=-ipc_lock,-sys_resource"]
FAILS_WITHIN = 15  # seconds


def attempt(net, *arguments, prefix=()):
    """Runs bora, which must fail; returns its CompletedProcess."""
    return net.router.exec(*prefix, bora.binary(), *arguments, check=False, timeout=FAILS_WITHIN)


def check_failed(done, *words, codes=(1,)):
    """Checks the exit code, and that stderr has one line besides the log, which matches all words (regular expressions)."""
    lines = [line for line in done.stderr.splitlines() if line.strip() and " INFO " not in line]
    assert done.returncode in codes, f"exit {done.returncode}, stderr:\n{done.stderr}"
    assert "panicked" not in done.stderr and "RUST_BACKTRACE" not in done.stderr, done.stderr
    assert len(lines) == 1, f"{len(lines)} lines instead of one:\n{done.stderr}"
    for word in words:
        assert re.search(word, lines[0], re.IGNORECASE), f"/{word}/ is missing in: {lines[0]}"


def check_untouched(net):
    """No program is attached, no Bora runs, and the kernel forwards."""
    for port in PORTS:
        assert "xdp" not in net.router.ip("link", "show", port).stdout, f"an XDP program was left on {port}"
    check_failed(attempt(net, "show", "ports"), "bora run|not running")
    net.wait_until_forwarding()


@pytest.mark.parametrize("where", [0, 1])
def test_interface_missing(kernel_net, bora_path, where):
    """The error names the interface that does not exist, wherever it is in the list."""
    ports = ["--port", "r0", "--port", "r1"]
    ports[where * 2 + 1] = "nosuch0"
    check_failed(attempt(kernel_net, "run", *ports, "--path", bora_path), "nosuch0")
    check_untouched(kernel_net)


def xdp_program(net, interface):
    """Number of the XDP program on an interface; None without one."""
    (link,) = json.loads(net.router.ip("-json", "link", "show", interface).stdout)
    return link.get("xdp", {}).get("prog", {}).get("id")


def test_foreign_xdp_program(kernel_net, bora_path, tmp_path):
    """An interface with another XDP program is left to Linux with the reason, and that program stays; the others start. If there is
    no other, nothing does. The advice takes the program off, and then the interface becomes a port."""
    net, compiled = kernel_net, str(tmp_path / "foreign.o")
    source = Path(bora.__file__).parent / "foreign_xdp.bpf.c"
    run("clang", "-target", "bpf", "-O2", "-g", "-c", str(source), "-o", compiled)
    net.router.ip("link", "set", "dev", "r1", "xdp", "obj", compiled, "sec", "xdp")
    before = xdp_program(net, "r1")
    done = attempt(net, "run", "--port", "r1", "--path", bora_path)
    assert done.returncode == 1 and "no port for Bora: r1 already has an XDP program" in done.stderr, done.stderr
    net.bora = Bora(net.router, PORTS, bora_path)
    net.bora.start()
    port = net.bora.show("ports")[1]
    assert port["path"] == "kernel" and "not Bora's" in port["why"], port
    assert xdp_program(net, "r1") == before, "the foreign program is gone"
    assert net.probe(to=2)
    advice = re.search(r"`ip ([^`]*)`", port["why"])[1]
    net.router.ip(*advice.split())
    deadline = time.monotonic() + 15
    while net.bora.show("ports")[-1]["path"] != bora_path and time.monotonic() < deadline:
        time.sleep(0.1)
    assert net.bora.show("ports")[-1]["path"] == bora_path and net.probe()
    net.bora.stop()
    check_untouched(net)


def test_no_permission(kernel_net, bora_path):
    """Without privileges the error says what is needed."""
    done = attempt(kernel_net, "run", "--port", "r0", "--path", bora_path, prefix=NOBODY)
    check_failed(done, "permission|permitted|root|CAP_")
    check_untouched(kernel_net)


def test_nobody_else_holds_the_lock(kernel_net, bora_path):
    """Only root can open the lock, because another user's flock would keep Bora from starting; wrong modes are corrected."""
    net = kernel_net
    lock = Path("/run/bora", net.router.exec("stat", "-Lc", "%i", "/proc/self/ns/net").stdout.strip(), "lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    net.bora = Bora(net.router, PORTS, bora_path)
    for is_old in (True, False):
        lock.unlink(missing_ok=True)
        if is_old:
            lock.touch()
            lock.chmod(0o644)
        net.bora.start()
        assert lock.stat().st_mode & 0o777 == 0o600
        done = run(*NOBODY, "flock", "--nonblock", str(lock), "true", check=False)
        assert "Permission denied" in done.stderr, done
        net.bora.stop()


def test_show_without_permission(kernel_net, bora_path):
    """The daemon's socket is for root and the group bora."""
    net = kernel_net
    net.bora = Bora(net.router, PORTS, bora_path)
    net.bora.start()
    check_failed(attempt(net, "show", "ports", prefix=NOBODY), "permission|permitted|root|group")


def test_no_locked_memory(kernel_net):
    """RLIMIT_MEMLOCK too small and no right to exceed it: the engine's packet memory cannot be registered."""
    done = attempt(kernel_net, "run", "--port", "r0", "--port", "r1", "--path", "engine", prefix=NO_MEMLOCK)
    check_failed(done, "memlock|locked memory")
    check_untouched(kernel_net)


def test_second_bora_on_the_same_port(kernel_net, bora_path):
    """The second Bora is refused, and the first one goes on."""
    net = kernel_net
    net.bora = Bora(net.router, PORTS, bora_path)
    net.bora.start()
    check_failed(attempt(net, "run", "--port", "r1", "--path", bora_path), "already|in use|taken|another")
    assert net.bora.alive()
    net.wait_until_forwarding()
    net.bora.check_conservation()


@pytest.mark.parametrize("arguments", [
    ["run"],
    ["run", "--port", "r0", "--path", "warp"],
    ["run", "--port", "r0", "--cores", "nine"],
    ["run", "--port", "r0", "--cores", "4095"],
    ["run", "--port", ""],
    ["show", "weather"],
    ["frobnicate"],
])
def test_wrong_usage(kernel_net, arguments):
    """Wrong arguments: exit code 1 or 2 (usage), a message on stderr, nothing on stdout, nothing started."""
    done = attempt(kernel_net, *arguments)
    assert done.returncode in (1, 2), f"exit {done.returncode}: {done.stderr}"
    assert done.stderr.strip() and not done.stdout.strip() and "panicked" not in done.stderr
    check_untouched(kernel_net)


def test_port_named_twice(kernel_net, bora_path):
    """Naming a port twice is an error."""
    done = attempt(kernel_net, "run", "--port", "r0", "--port", "r0", "--path", bora_path)
    check_failed(done, "r0", "twice|duplicate")
    check_untouched(kernel_net)
