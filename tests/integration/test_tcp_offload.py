"""TCP and UDP between two Linux hosts with all offloads on: what arrives is what was sent."""

import hashlib
import random
import socket
import threading
import time

import pytest

from lib.hosts import Hosts
from lib.netns import inside

EVERYWHERE = True  # on interfaces without driver XDP too
MEGABYTES = 100
SECONDS = 60
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


@pytest.fixture(scope="module")
def hosts(backend):
    network = Hosts(backend)
    yield network
    network.close()


@pytest.fixture(scope="module")
def hosts_beyond(backend):
    """The network, where only one of the router's interfaces is a port of Bora."""
    network = Hosts(backend, ports=["r0"])
    yield network
    network.close()


def listen(hosts, family, kind):
    with inside(hosts.hosts[1].name):
        server = socket.socket(FAMILY[family], kind)
        server.settimeout(SECONDS)
        server.bind((hosts.address(family, 1), 5001))
    return server


def client_socket(hosts, family, kind):
    with inside(hosts.hosts[0].name):
        client = socket.socket(FAMILY[family], kind)
    client.settimeout(SECONDS)
    return client


def receive_all(server, result):
    connection, _ = server.accept()
    with connection:
        connection.settimeout(SECONDS)
        digest, count = hashlib.sha256(), 0
        while data := connection.recv(1 << 20):
            digest.update(data)
            count += len(data)
    result.update(digest=digest.hexdigest(), count=count)


def transfer(hosts, family, say):
    """Sends over TCP from one host to the other; the same data must arrive."""
    features = hosts.hosts[0].exec("ethtool", "-k", "h0").stdout
    assert "tx-checksumming: on" in features and "generic-receive-offload: on" in features, features
    block = random.Random(family).randbytes(1 << 20)
    sent, result = hashlib.sha256(), {}
    server = listen(hosts, family, socket.SOCK_STREAM)
    server.listen()
    receiver = threading.Thread(target=receive_all, args=(server, result), daemon=True)
    receiver.start()
    started = time.monotonic()
    with server, client_socket(hosts, family, socket.SOCK_STREAM) as client:
        client.connect((hosts.address(family, 1), 5001))
        for number in range(MEGABYTES):
            data = number.to_bytes(4, "big") + block[4:]
            sent.update(data)
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        receiver.join(SECONDS)
    seconds = time.monotonic() - started
    say(f"{hosts.backend}, TCP over IPv{family}: {MEGABYTES * 8.39 / seconds:.0f} Mbit/s")
    assert result == {"digest": sent.hexdigest(), "count": MEGABYTES << 20}
    if hosts.bora is not None:
        hosts.bora.check_conservation()


@pytest.mark.parametrize("family", [4, 6])
def test_tcp_arrives_intact(hosts, family, say):
    """100 MB over TCP with TSO, GSO, GRO and partial checksums have the same hash at the other end."""
    transfer(hosts, family, say)


@pytest.mark.parametrize("family", [4, 6])
def test_tcp_leaves_the_ports_intact(hosts_beyond, family, say):
    """TCP arrives intact where Linux forwards, too."""
    transfer(hosts_beyond, family, say)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("size", [1, 18, 512, 1400, 8000])
def test_udp_arrives_intact(hosts, family, size):
    """UDP with checksums left to the receiver, small, large, and fragmented by the sender."""
    server = listen(hosts, family, socket.SOCK_DGRAM)
    with server, client_socket(hosts, family, socket.SOCK_DGRAM) as client:
        for number in range(20):
            data = random.Random(number).randbytes(size)
            client.sendto(data, (hosts.address(family, 1), 5001))
            server.settimeout(5)
            assert server.recv(1 << 16) == data
    if hosts.bora is not None:
        hosts.bora.check_conservation()
