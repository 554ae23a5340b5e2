"""A hostile memif client costs its own link, and the other ports nothing."""

import os
import subprocess
import time

import pytest

from lib.bora import Bora
from lib.memif_peer import SIZE, Client
from lib.traffic import both_families, load

pytestmark = [pytest.mark.bora, pytest.mark.alone]
RATE = 5000
STRAY = 5  # packets in some 50 000 that a busy two-core machine may lose by itself; the numbers are printed


def shrink(client):
    client.offer(200)
    os.ftruncate(client.region, 0)


def punch(client):
    client.offer(200)
    done = subprocess.run(["fallocate", "-p", "-o", "0", "-l", str(SIZE), f"/proc/self/fd/{client.region}"],
                          pass_fds=[client.region], check=False)
    assert done.returncode == 0


# What a client does, and what is then said of it.
DEEDS = [
    (0, shrink, "took away memory of region 0"),
    (os.MFD_ALLOW_SEALING, punch, "took away memory of region 0"),
    (0, lambda client: client.offer(1, offset=2 ** 32 - 1), "is outside region 0"),
    (0, lambda client: client.offer(1, region=9), "is outside region 9"),
    (0, lambda client: client.offer(256, flags=1), "chain of more than 256 buffers"),
    (0, lambda client: os.pwrite(client.region, b"\xff\xff", 6), "not within 256 slots"),
    (0, lambda client: client.send(os.urandom(64)), "message of 64 octets"),
    (0, lambda client: client.send(b"\x08\0" + bytes(4) + b"\x1b[2J\n".ljust(122, b"\0")), "disconnected: \ufffd[2J\ufffd"),
]


@pytest.mark.parametrize("mode", ["adaptive", "poll"])
def test_others_lose_nothing(kernel_net, tmp_path, say, mode):
    """Every deed with the link up, while two other ports carry traffic."""
    net, path = kernel_net, str(tmp_path / "memif.sock")
    ports = ["r0", "r1", "r2", f"memif:{path},role=server,name=m0,mac=02:bc:00:00:00:30"]
    net.bora = Bora(net.router, ports, "engine", ["--mode", mode])
    net.bora.start()
    net.wait_until_forwarding()
    net.router.ip("link", "set", "m0", "up")
    with load(net, both_families(net), RATE) as traffic:
        for flags, deed, words in DEEDS:
            with Client(path, flags) as client:
                assert client.connect(), words
                deed(client)
                wait_for(net.bora, words)
        report = traffic.finish()
    say(f"{mode}: {report}")
    assert report.lost <= STRAY and report.reordered == 0 == report.duplicated
    assert net.bora.alive()
    net.bora.check_conservation()


def wait_for(bora, words, seconds=10):
    """Until the port's state has these words."""
    deadline = time.monotonic() + seconds
    while True:
        wire = next(port["wire"] for port in bora.show("ports") if port["kind"] == "memif")
        if words in wire:
            return
        assert time.monotonic() < deadline, f"{wire}, not {words!r}"
        time.sleep(0.02)
