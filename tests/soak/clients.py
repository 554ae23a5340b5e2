"""Steps of a soak that are clients of Bora: of its API, and of its memif port."""

import contextlib
import http.client
import os
import socket
import threading
import time

from lib.memif_peer import BUFFERS, DEEDS, SIZE, Client, wait_for
from lib.netns import inside
from lib.waiting import until

QUESTIONS = ("ports", "drops", "workers", "classes", "rules", "fib", "neighbours", "sync", "routes")
API_PORT = 9443


def questions(stage, rng):
    """Many clients of the API at once."""
    asked = [rng.choice(QUESTIONS) for _ in range(rng.randrange(8, 40))]
    failed = []

    def ask(what):
        try:
            stage.net.bora.show(what, *(("--verify",) if what == "sync" else ()))
        except Exception as error:  # noqa: BLE001 - raised below, in the step's own thread
            failed.append(f"{what}: {error}")

    for some in (asked[n:n + 8] for n in range(0, len(asked), 8)):
        threads = [threading.Thread(target=ask, args=(what,)) for what in some]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed, failed
    stage.count("questions to the API", len(asked))
    yield


def bad_questions(stage, rng):
    """Data that is not HTTP, requests that end in the middle, and clients that send nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(rng.randrange(5, 40)):
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            client.connect(stage.socket())
            text = rng.choice((
                rng.randbytes(rng.randrange(1, 4000)),
                b"GET /v1/" + rng.randbytes(rng.randrange(40)) + b" HTTP/1.1\r\nHost: a\r\n\r\n",
                b"POST /v1/apply HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n{",
                b"GET /",
            ))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(text)
            stage.count("bad requests to the API")
        time.sleep(rng.random() * 0.5)
    yield


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def readers(stage, rng):
    """Clients that ask for all routes without a pause, while a route changes: Bora follows it all the same."""
    net, path, stop, answers, failed = stage.net, stage.socket(), threading.Event(), [], []
    prefix = f"203.0.{rng.randrange(256)}.0/24"

    def read():
        try:
            with contextlib.closing(_UnixConnection(path)) as connection:
                while not stop.is_set():
                    connection.request("GET", "/v1/routes")
                    answers.append(len(connection.getresponse().read()))
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(rng.randrange(2, 5))]
    for thread in threads:
        thread.start()
    try:
        yield
        for link in (1, 2):
            net.router.ip("route", "replace", prefix, "via", net.host4(link))
            until(f"{prefix} by r{link}", lambda: stage.leaves_by(prefix, link), seconds=5)
        net.router.ip("route", "del", prefix)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert answers and not failed, failed
    stage.count("reports of all routes", len(answers))


def hanging_handshakes(stage, rng):
    """Clients of the API's TLS port that begin a handshake and never end it; others are still served."""
    count = rng.randrange(50, 600)
    with contextlib.ExitStack() as stack:
        with inside(stage.net.router.name):
            for _ in range(count):
                client = stack.enter_context(socket.socket())
                client.settimeout(1)
                with contextlib.suppress(OSError):  # Bora turns away those that are too many
                    client.connect(("127.0.0.1", API_PORT))
                    client.sendall(b"\x16\x03\x01" + rng.randbytes(rng.randrange(1, 40)))
        stage.net.bora.show("ports")
        yield
        stage.net.bora.show("ports")
        stage.net.bora.wait_in_sync(5)
    stage.count("handshakes that hang", count)


def memif_peer(stage, rng):
    """A hostile client of the memif port."""
    for _ in range(rng.randrange(1, 5)):
        flags, deed, words = rng.choice(DEEDS)
        with Client(str(stage.folder / "memif.sock"), flags) as client:
            assert client.connect(), words
            for _ in range(rng.randrange(20)):
                os.pwrite(client.region, rng.randbytes(rng.randrange(1, 64)), rng.randrange(BUFFERS, SIZE - 64))
            deed(client)
            wait_for(stage.net.bora, words)
        stage.count("hostile memif clients")
    yield
