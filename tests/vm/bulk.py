"""Two Linux hosts and the router between them: ping, and TCP for a while, whose data must arrive unchanged."""

import hashlib
import random
import socket
import threading
import time

from lib.netns import inside
from lib.ping import ping

BLOCK = 64 << 10
PATIENCE = 60  # seconds without progress
PORT = 5001
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
PINGS = 20


def pings(net):
    """Pings the router's addresses and host 1 from host 0; every reply must be intact."""
    for target in (net.router4(0), net.router6(0), net.router4(1), net.router6(1), net.host4(1), net.host6(1)):
        back = ping(net.host(0), target, PINGS, patience=10)
        assert len(back) == PINGS, f"{PINGS - len(back)} of {PINGS} echo replies from {target} are missing"


def _receive(server, result):
    try:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE)
            digest, count = hashlib.sha256(), 0
            while data := connection.recv(BLOCK):
                digest.update(data)
                count += len(data)
        result.update(digest=digest.hexdigest(), count=count)
    except OSError as error:
        result.update(error=str(error))


def _socket(net, link, family):
    with inside(net.host(link).name):
        made = socket.socket(FAMILY[family], socket.SOCK_STREAM)
    made.settimeout(PATIENCE)
    return made


def tcp(net, family, seconds, link=0):
    """Sends for `seconds` from host `link` to the other; returns octets and Mbit/s."""
    to = 1 - link
    address = net.host4(to) if family == 4 else net.host6(to)
    block = random.Random(family).randbytes(BLOCK)
    sent, count, result = hashlib.sha256(), 0, {}
    with _socket(net, to, family) as server, _socket(net, link, family) as client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, PORT))
        server.listen()
        receiver = threading.Thread(target=_receive, args=(server, result), daemon=True)
        receiver.start()
        client.connect((address, PORT))
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            data = count.to_bytes(8, "big") + block[8:]
            client.sendall(data)
            sent.update(data)
            count += len(data)
        client.shutdown(socket.SHUT_WR)
        receiver.join(2 * PATIENCE)
    took = time.monotonic() - started
    assert result == {"digest": sent.hexdigest(), "count": count}, f"{count} octets were sent, {result} arrived"
    return {"octets": count, "mbit_s": round(count * 8e-6 / took, 1)}
