"""Runs in a guest with hero.ko: Bora forwards between the cards' interfaces, by express and by its engine.

    python3 hero/guest/bora_guest.py SHARED RESULTS [STEP ...]

The binary is the one that BORA names, or the newest of target/debug and target/release.
"""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.guest.steps import (BORA, BORA_SECONDS, CARDS, bring_bora, connect, counters, fast, interfaces, loss, main, offloaded, ping, run, step,
                              transfer, until)

PREFIX = "10.1.1.0/24"


@step
def bring_up():
    """As for the driver's own test, with routes for the fast path, and without Bora."""
    connect()
    for card in range(CARDS):
        run(f"ip route replace 10.1.{card}.0/24 via 10.0.{card}.2")
    ping(0, "10.1.1.1")
    until(lambda: offloaded(PREFIX), "the route is offloaded")
    assert fast(0, "10.1.1.1") == 3
    bring_bora()
    return run(f"{BORA} --version").strip()


def show(what):
    """`bora show`, parsed."""
    return json.loads(run(f"{BORA} show {what} --json"))


class Bora:
    """Bora on all cards while the block runs."""

    def __init__(self, path):
        self.path, self.log = path, Path(f"/run/bora-{path}.log")

    def __enter__(self):
        ports = [part for name in interfaces() for part in ("--port", name)]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([BORA, "run", *ports, "--path", self.path], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(lambda: "ready after" in self.log.read_text() or self.process.poll() is not None, "Bora is ready", BORA_SECONDS)
            assert self.process.poll() is None, self.log.read_text()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(300)
        run(f"{BORA} stop --detach", check=False)
        assert code == 0, f"exit code {code}: {self.log.read_text()}"


def forwards(path):
    """Bora has the packets, not the cards; afterwards the cards have them again."""
    with Bora(path):
        ports = show("ports")
        shown = {(port["path"], port["xdp"], port["af_xdp"]) for port in ports}
        assert all(port["path"] == path and port["xdp"] == "driver" for port in ports), shown
        until(lambda: not offloaded(PREFIX), "no route is offloaded where Bora has a program")
        before, sent = [counters(name)["fast_path"] for name in interfaces()], show("drops")["sent"]
        pings = [ping(0, "10.1.1.1"), ping(2, "10.0.3.2", "-c 3 -i 0.3 -W 60 -Q 0xc0"), ping(1, "10.0.0.2", "-c 3 -s 1472 -M do -W 60")]
        assert all(" 0% packet loss" in one for one in pings), pings
        moved = transfer(0, 1, "10.1.1.1", 300_000)
        by_bora = show("drops")["sent"] - sent
        assert [counters(name)["fast_path"] for name in interfaces()] == before, "the cards forward by themselves"
        assert by_bora >= 18 + 200, f"Bora sent {by_bora} packets"
    ping(0, "10.1.1.1")
    until(lambda: offloaded(PREFIX), "the route is offloaded again")
    assert fast(0, "10.1.1.1") == 3
    return f"{shown}; {'; '.join(map(loss, pings))}; {moved}; {by_bora} packets sent by Bora"


@step
def express():
    """Bora's XDP program forwards."""
    return forwards("express")


@step
def engine():
    """Bora's workers forward, through AF_XDP sockets."""
    return forwards("engine")


if __name__ == "__main__":
    main()
