"""memif ports with their twins: ARP, ND, ping and routes by Linux, transit by the engine, nothing lost."""

import os
import socket
import time

import pytest

from lib import required
from lib.bora import Bora
from lib.memif import Echo, MemifNetwork
from lib.netns import inside
from lib.ping import ping

pytestmark = [pytest.mark.bora, pytest.mark.alone]
COUNT = 300


@pytest.fixture(scope="module")
def pair():
    network = MemifNetwork()
    for number in range(2):
        network.wait_for_carrier(number)
    yield network
    network.close()


def settle(network):
    for bora in network.boras:
        bora.wait_in_sync()


@pytest.mark.parametrize("address", ["10.0.9.2", "2001:db8:9::2"])
def test_linux_pings_linux_over_the_memif(pair, address):
    """Addresses are Linux's on both sides: ARP or ND, echo and reply go through both twins."""
    # Linux may still wait for the answer to a request that it sent before the peer was connected
    assert any(ping(pair.routers[0], address, patience=5.0) for _ in range(2)), "no answer at all"
    assert len(ping(pair.routers[0], address, 200)) == 200
    assert len(ping(pair.routers[0], address, 20, size=1400)) == 20
    neighbour = pair.routers[0].ip("neigh", "show", address).stdout
    assert pair.mac(1) in neighbour, neighbour


@pytest.mark.parametrize("family", [4, 6])
def test_transit(pair, family, say):
    """Host to host through both engines in both directions, without loss, in all sizes."""
    settle(pair)
    source, target = (("10.0.0.2", "10.0.1.2") if family == 4 else ("2001:db8:0::2", "2001:db8:1::2"))
    assert ping(pair.hosts[0], target) and ping(pair.hosts[1], source)  # neighbours are known from here on
    settle(pair)
    before = [pair.port(n) for n in range(2)]
    drops = [pair.boras[n].totals()["drops"] for n in range(2)]
    for size in (56, 512, 1400):
        assert len(ping(pair.hosts[0], target, COUNT, size=size)) == COUNT
        assert len(ping(pair.hosts[1], source, COUNT, size=size)) == COUNT
    for n in range(2):
        received, by_linux = (pair.port(n)[key] - before[n][key] for key in ("rx_packets", "from_linux"))
        say(f"router {n}: {received} packets received by the memif, {by_linux} from Linux")
        assert received >= 6 * COUNT and by_linux < COUNT // 20
        assert pair.boras[n].check_conservation()["drops"] == drops[n]


def test_errors_come_from_linux(pair):
    """TTL used up behind the memif: router 1's Linux answers host 0 through the twin."""
    with inside(pair.hosts[0].name):
        errors = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with errors, probe:
        errors.settimeout(3)
        probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 2)
        probe.sendto(b"x" * 20, ("10.0.1.2", 9))
        answer, sender = errors.recvfrom(2048)
    assert sender[0] == "10.0.9.2" and answer[20] == 11, (sender, answer)
    assert pair.port(1)["passed_by_reason"].get("ttl_exceeded", 0) >= 1


def test_firewall_rules_are_not_bypassed(pair):
    """A forward chain in Linux also applies to the memif's traffic: what it drops is not forwarded."""
    router = pair.routers[1]
    settle(pair)
    assert len(ping(pair.hosts[0], "10.0.1.2", 20)) == 20
    router.exec("nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; "
                "add rule ip t f ip protocol icmp drop")
    try:
        time.sleep(0.5)
        assert not ping(pair.hosts[0], "10.0.1.2", 20, patience=0.5)
        assert pair.port(1)["passed_by_reason"]["guard"] >= 20
    finally:
        router.exec("nft", "delete table ip t")
    time.sleep(0.5)
    assert len(ping(pair.hosts[0], "10.0.1.2", 20)) == 20


def test_a_twin_that_is_down_takes_nothing(pair):
    """`ip link set m1 down` stops the port, and `up` brings everything back."""
    pair.routers[1].ip("link", "set", "m1", "down")
    settle(pair)
    before = pair.port(1)["dropped_by_reason"].get("port_down", 0)
    assert not ping(pair.hosts[0], "10.0.1.2", 10, patience=0.3)
    assert pair.port(1)["dropped_by_reason"]["port_down"] >= before + 10
    pair.configure_twin(1)
    settle(pair)
    assert len(ping(pair.hosts[0], "10.0.1.2", 20)) == 20
    assert len(ping(pair.hosts[0], "2001:db8:1::2", 20)) == 20


@pytest.mark.slow
def test_a_bora_that_is_killed_comes_back_to_its_twin():
    """After kill -9 the other side loses its carrier; a new Bora finds addresses and routes as they were."""
    network = MemifNetwork()
    try:
        network.wait_for_carrier(0)
        network.wait_for_carrier(1)
        assert len(ping(network.hosts[0], "10.0.1.2", 20)) == 20
        for victim in (1, 0):
            network.boras[victim].kill()
            network.wait_for_carrier(1 - victim, False)
            assert not network.has_carrier(victim)
            assert f"10.0.9.{victim + 1}/24" in network.routers[victim].ip("addr", "show", f"m{victim}").stdout
            old = network.boras[victim]
            new = Bora(old.namespace, old.ports, "engine", old.options)
            new.start()
            network.boras[victim] = new
            for number in range(2):
                network.wait_for_carrier(number)
                network.boras[number].wait_in_sync()
            for target in ("10.0.1.2", "2001:db8:1::2"):
                assert ping(network.hosts[0], target, 5)  # while Linux resolves a neighbour, it keeps only a few packets
                assert len(ping(network.hosts[0], target, 200)) == 200
        for number in range(2):
            network.boras[number].stop()
            gone = network.routers[number].ip("link", "show", f"m{number}", check=False)
            assert gone.returncode != 0, f"`bora stop --detach` left {gone.stdout}"
    finally:
        network.close()


@pytest.mark.parametrize("mode", ["poll", "moderated:32:500"])
def test_modes(mode):
    """In every mode workers serve the twins too."""
    network = MemifNetwork(more=("--mode", mode))
    try:
        for number in range(2):
            network.wait_for_carrier(number)
        assert len(ping(network.routers[0], "10.0.9.2", 100)) == 100
        settle(network)
        assert len(ping(network.hosts[0], "10.0.1.2", 100)) == 100
        for bora in network.boras:
            bora.check_conservation()
    finally:
        network.close()


@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two CPUs")
def test_two_workers():
    """Two queues and a worker for each; every worker can send to every port."""
    network = MemifNetwork([",role=client,queue_pairs=2", ",role=server,queue_pairs=2"], ("--cores", "0,1"))
    try:
        for number in range(2):
            network.wait_for_carrier(number)
            assert len(network.boras[number].show("workers")) == 2
            assert "2 rings to receive, 2 to send" in network.port(number)["wire"]
        assert ping(network.hosts[0], "10.0.1.2", 5)
        settle(network)
        # which queue of a veth a packet takes depends on the hash of its addresses
        more = [f"10.0.1.{host}" for host in range(10, 26)]
        network.hosts[1].batch([f"address add {address}/24 dev h1" for address in more])
        for address in more:
            assert len(ping(network.hosts[0], address, COUNT // 16, size=1000)) == COUNT // 16
        assert len(ping(network.hosts[1], "2001:db8:0::2", COUNT, size=1000)) == COUNT
        for bora in network.boras:
            bora.check_conservation()
            received = [worker["rx_packets"] for worker in bora.show("workers")]
            assert all(received), received
    finally:
        network.close()


@pytest.mark.slow
@pytest.mark.parametrize("ours, theirs", [("server", "client"), ("client", "server")])
def test_with_dpdk(ours, theirs, say):
    """dpdk-testpmd at the other end of the memif; it is stopped and started again."""
    required.program("dpdk-testpmd", "dpdk-dev")
    network = MemifNetwork([f",role={ours}"])
    try:
        bora = network.boras[0]
        for _ in range(2):
            peer = Echo(network.socket, theirs)
            try:
                network.wait_for_carrier(0)
                assert len(ping(network.routers[0], "10.0.9.2", 100)) == 100
                bora.wait_in_sync()
                before = network.port(0)
                back = ping(network.hosts[0], "10.0.1.77", COUNT)
                after = network.port(0)
                say(f"{ours}: {len(back)} of {COUNT} came back; {after['wire']}")
                assert len(back) == COUNT
                assert after["rx_packets"] - before["rx_packets"] >= COUNT
                assert after["from_linux"] - before["from_linux"] < 20
            finally:
                peer.close()
            network.wait_for_carrier(0, False)
        totals = bora.check_conservation()
        say(f"drops: {totals['drops']}")
    finally:
        network.close()
