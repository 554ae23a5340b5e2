"""A hostile memif client only loses its own link; other ports lose nothing."""

import pytest

from lib.bora import Bora
from lib.memif_peer import DEEDS, Client, wait_for
from lib.traffic import both_families, load

pytestmark = [pytest.mark.bora, pytest.mark.alone]
RATE = 5000
STRAY = 5  # packets in some 50 000 that a busy two-core machine may lose by itself; the numbers are printed


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["adaptive", "poll"])
def test_others_lose_nothing(kernel_net, tmp_path, say, mode):
    """The peer violates the protocol in many ways while two other ports carry traffic."""
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
