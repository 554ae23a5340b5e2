"""Modes of the engine's workers: each forwards, idles as it should, and can be changed under load."""

import os
import time
from pathlib import Path

import pytest

from lib.bora import Bora, binary
from lib.traffic import both_families, load

pytestmark = pytest.mark.alone

MODES = ["poll", "adaptive", "moderated:32:500"]
RATE = 10_000
SECONDS = 2
STRAY = 5  # packets in 20 000 that a busy two-core machine may lose by itself; the numbers are printed


def worker_cpu_seconds(bora):
    """CPU time of the daemon's worker threads so far."""
    ticks = 0
    for task in Path(f"/proc/{daemon_pid(bora)}/task").iterdir():
        if (task / "comm").read_text().startswith("bora-worker"):
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def daemon_pid(bora):
    """The daemon's process id; `ip netns exec` has replaced itself by the daemon."""
    return bora.process.pid


def idle_share(bora, seconds=3.0):
    """Share of a CPU that the workers use without traffic."""
    before, started = worker_cpu_seconds(bora), time.monotonic()
    time.sleep(seconds)
    return (worker_cpu_seconds(bora) - before) / (time.monotonic() - started)


def sleeps(bora):
    return sum(worker["sleeps"] for worker in bora.show("workers"))


@pytest.mark.slow
@pytest.mark.bora
@pytest.mark.parametrize("mode", MODES)
def test_mode(engine, mode, say):
    """Nothing is lost at a modest rate, and an idle worker uses a CPU only in `poll`."""
    net = engine("--mode", mode)
    assert [worker["mode"] for worker in net.bora.show("workers")] == [mode]
    for port in net.hosts:
        port.drain()
    before = sleeps(net.bora)
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(SECONDS)
        report = traffic.finish()
    slept = sleeps(net.bora) - before
    share = idle_share(net.bora)
    say(f"{mode}: {report}; slept {slept} times; idle: {100 * share:.1f} % of a CPU")
    assert report.lost <= STRAY and report.reordered == 0 == report.duplicated
    assert share > 0.2 if mode == "poll" else share < 0.02
    assert slept == 0 if mode == "poll" else slept > 0
    net.bora.check_conservation()


@pytest.mark.bora
def test_change_under_load(engine, say):
    """Modes change while packets flow, and no packet is lost."""
    net = engine()
    for port in net.hosts:
        port.drain()
    with load(net, both_families(net), RATE) as traffic:
        for mode in MODES * 3:
            net.router.exec(binary(), "set", "mode", mode)
            assert [worker["mode"] for worker in net.bora.show("workers")] == [mode]
            time.sleep(0.1)
        report = traffic.finish()
    say(f"changes of mode: {report}")
    assert report.lost <= STRAY and report.reordered == 0 == report.duplicated
    net.bora.check_conservation()


@pytest.mark.bora
def test_wrong_modes_are_refused(engine):
    """A mode or worker that does not exist changes nothing and says what is wrong."""
    net = engine()
    wrong = net.router.exec(binary(), "set", "mode", "napi", check=False)
    assert wrong.returncode != 0 and "adaptive" in wrong.stderr
    wrong = net.router.exec(binary(), "set", "mode", "poll", "--worker", "7", check=False)
    assert wrong.returncode == 1 and "no worker 7" in wrong.stderr
    assert [worker["mode"] for worker in net.bora.show("workers")] == ["adaptive"]


STAGES = ["receive", "parse", "source check", "classify", "look-up", "rewrite", "enqueue", "transmit"]


@pytest.mark.bora
def test_profile_under_load(engine, say):
    """`bora profile` says what each stage takes of the packets that flow meanwhile, and costs none of them."""
    net = engine()
    nothing = net.router.exec(binary(), "show", "profile").stdout
    assert "nothing is measured" in nothing
    for port in net.hosts:
        port.drain()
    with load(net, both_families(net), RATE) as traffic:
        time.sleep(0.2)
        shown = net.router.exec(binary(), "profile", "1").stdout
        report = traffic.finish()
    say(shown)
    profile = net.bora.show("profile")
    assert [row["stage"] for row in profile if row["worker"] == 0] == STAGES
    packets = sum(row["packets"] for row in profile if row["stage"] == "parse")
    assert 0.5 * RATE < packets < 1.5 * RATE
    assert all(0 < row["ns_per_packet"] < 1e6 for row in profile if row["stage"] in ("receive", "parse", "rewrite", "transmit"))
    assert 99 < sum(row["percent"] for row in profile if row["worker"] == 0) < 101
    assert report.lost <= STRAY
    net.bora.check_conservation()


@pytest.mark.bora
def test_a_profile_of_express_alone_is_refused(kernel_net):
    """There are no workers to measure."""
    kernel_net.bora = Bora(kernel_net.router, ["r0", "r1", "r2"], "express")
    kernel_net.bora.start()
    refused = kernel_net.router.exec(binary(), "profile", check=False)
    assert refused.returncode == 1 and "no workers: every port takes the express path" in refused.stderr
