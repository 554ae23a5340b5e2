"""Bora is killed and started under load: the kernel continues to forward, and the next Bora takes over."""

import time

import pytest

from lib.bora import Bora
from lib.traffic import both_families, load

pytestmark = pytest.mark.alone

RATE = 20_000
IN_THE_RINGS = 400  # packets: 20 ms of this load, more than ever waits in Bora's rings at this rate
SILENCE_MS = 250  # a busy two-core machine pauses by itself; real interruptions last for seconds


def judge(report, what, say):
    say(f"{what}: {report}")
    assert report.sent > RATE, "the test sent too little to prove anything"
    assert report.lost <= IN_THE_RINGS
    assert report.reordered <= IN_THE_RINGS
    assert report.duplicated == 0
    assert report.longest_silence <= SILENCE_MS


def start(net, path):
    net.bora = Bora(net.router, ["r0", "r1", "r2"], path)
    net.bora.start()
    net.wait_until_forwarding()


@pytest.mark.slow
def test_first_start_under_load(kernel_net, bora_path, say):
    """Attaching to ports that carry traffic loses at most the packets in their rings."""
    net = kernel_net
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(1)
        start(net, bora_path)
        time.sleep(1)
        judge(traffic.finish(), f"{bora_path}, first start", say)


def test_kill_9_under_load(kernel_net, bora_path, say):
    """After kill -9 the kernel forwards at once."""
    net = kernel_net
    start(net, bora_path)
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(1)
        net.bora.kill()
        time.sleep(2)
        judge(traffic.finish(), f"{bora_path}, kill -9", say)


@pytest.mark.slow
def test_restart_after_kill_9_under_load(kernel_net, bora_path, say):
    """A new Bora takes over the pinned program of the killed one while traffic flows."""
    net = kernel_net
    start(net, bora_path)
    net.bora.kill()
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(1)
        net.bora.start()
        time.sleep(1)
        judge(traffic.finish(), f"{bora_path}, restart", say)
    net.bora.check_conservation()


@pytest.mark.slow
def test_clean_stop_under_load(kernel_net, bora_path, say):
    """SIGTERM under load: Bora sends the packets it holds, and the kernel takes over."""
    net = kernel_net
    start(net, bora_path)
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(1)
        net.bora.stop()
        time.sleep(1)
        judge(traffic.finish(), f"{bora_path}, SIGTERM and stop", say)


def test_stop_leaves_nothing_behind(kernel_net, bora_path):
    """After `bora stop --detach` no XDP program is left on the ports."""
    net = kernel_net
    start(net, bora_path)
    assert "xdp" in net.router.ip("link", "show", "r0").stdout
    net.bora.stop()
    for port in ("r0", "r1", "r2"):
        assert "xdp" not in net.router.ip("link", "show", port).stdout
    net.wait_until_forwarding()
