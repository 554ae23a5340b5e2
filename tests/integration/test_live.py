"""What an operator sees live: the stream, the page in a browser, `bora top`."""

import contextlib
import json
import select
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from lib import bora
from lib.bora import runtime_folder
from lib.browser import BINARY, Browser, is_packaged
from lib.netns import inside
from lib.topology import Network
from lib.traffic import both_families, flow_frame, load

pytestmark = pytest.mark.bora
RATE = 2000
CLIENTS = 1000
STREAMS = 64
BLACKHOLE = "203.0.113.0/24"


@pytest.fixture(scope="module")
def net(bora_path):
    """A network with Bora running, whose router has a working loopback."""
    network = Network(bora_path)
    network.router.ip("link", "set", "lo", "up")
    yield network
    network.close()


@pytest.fixture(scope="module")
def web(net):
    """`bora web` in the router's namespace; returns its port."""
    process = net.router.popen(bora.binary(), "web", "--listen", "127.0.0.1:0", stdout=subprocess.PIPE, text=True)
    yield int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
    process.terminate()
    process.communicate(timeout=10)


def api(net):
    """A connection to the daemon's socket."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(runtime_folder(net.router) / "api.sock"))
    return client


def asks(net, path="/v1/live"):
    """A connection that has asked for something."""
    client = api(net)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: bora\r\n\r\n".encode())
    return client


class Stream:
    """Reads server-sent events."""

    def __init__(self, client):
        self.file = client.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def next(self):
        """The next event: its name, and what it has. Lines of chunks are skipped."""
        name = None
        while True:
            line = self.file.readline()
            assert line, "the stream has ended"
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            if line.startswith(b"data: "):
                return name, json.loads(line[6:])

    def now(self):
        """The next event of a second."""
        name, now = self.next()
        while name != "now":
            name, now = self.next()
        return now


def port(now, name="r0"):
    """A port of an event."""
    return next(port for port in now["ports"] if port["name"] == name)


@pytest.mark.slow
def test_rates_under_traffic(net, bora_path):
    """The rates of ports and of the whole router are those of the load."""
    stream = Stream(asks(net))
    assert [stream.next()[0] for _ in range(3)] == ["history", "now", "now"]
    net.route(BLACKHOLE, "blackhole")
    net.settle()
    frames = both_families(net, 3) + [flow_frame(net, 9, target="203.0.113.1")]
    try:
        with load(net, frames, RATE) as running:
            time.sleep(2)
            stream.now()
            seen = [stream.now() for _ in range(4)]
            report = running.finish()
    finally:
        net.undo()

    def mean(of):
        return sum(map(of, seen[-3:])) / 3

    rate = report.sent / report.seconds
    assert mean(lambda now: port(now)["rates"]["rx_pps"]) == pytest.approx(rate, rel=0.25)
    assert mean(lambda now: port(now, "r1")["rates"]["tx_pps"]) == pytest.approx(rate * 3 / 4, rel=0.25)
    assert mean(lambda now: now["rate"]["dropped"].get("blackhole", 0)) == pytest.approx(rate / 4, rel=0.25)
    length = len(frames[0])
    assert mean(lambda now: port(now)["rates"]["rx_bps"]) > 8 * length * rate * 0.7
    assert port(seen[-1])["path"] == bora_path.split("-")[0]
    assert bool(seen[-1]["workers"]) == bora_path.startswith("engine")
    assert seen[-1]["sync"]["in_sync"] and seen[-1]["fib"]["prefixes"][0] > 0
    _, history = Stream(asks(net)).next()
    known = port(history)
    assert max(known["rx_pps"][-8:]) == pytest.approx(rate, rel=0.3)


def test_events(net):
    """A link that goes down and comes back is told, with times."""
    before = int(time.time() * 1000)
    net.hosts[2].drain()
    host = net.namespaces[3]
    try:
        host.ip("link", "set", "h2", "down")
        time.sleep(1.5)
    finally:
        host.ip("link", "set", "h2", "up")
        time.sleep(1.5)
        net.configure_link(2)
        net.wait_for_links()
        net.settle()
    stream = Stream(asks(net))
    events = [event for event in stream.now()["events"] if event["time"] >= before and event["text"].startswith("r2")]
    assert [event["text"] for event in events[:2]] == ["r2: the link is down", "r2: the link is up"]
    assert [event["severity"] for event in events[:2]] == ["warning", "info"]


@pytest.mark.slow
def test_slow_clients(net):
    """A thousand clients that never read cost no packet, the API answers, and their places become free again."""
    with contextlib.ExitStack() as clients, load(net, both_families(net), RATE) as running:
        for number in range(CLIENTS):
            client = clients.enter_context(asks(net))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        time.sleep(2)
        began = time.monotonic()
        assert net.bora.show("ports")
        assert time.monotonic() - began < 2
        refused = Stream(clients.enter_context(asks(net)))
        assert refused.status == 503 and b"64 clients watch already" in refused.file.read(200)
        time.sleep(3)
        report = running.finish()
    assert report.lost == 0 and report.sent > RATE, report
    time.sleep(1.5)
    assert Stream(asks(net)).status == 200


def test_web_only_reads(net, web):
    """The server in front of the socket passes on reading alone, and knows its name."""
    def status(path, method="GET", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{web}{path}", method=method, headers=headers)
        try:
            with inside(net.router.name), urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert [status(path) for path in ("/", "/app.js", "/app.css", "/v1/ports", "/v1/reasons")] == [200] * 5
    assert status("/v1/live", "HEAD") == 200
    assert status("/v1/stop", "POST") == 405 and status("/v1/apply", "POST") == 405
    assert status("/", Host="evil.example:8080") == 421
    assert status("/v1/live", Sec_Fetch_Site="cross-site") == 403
    assert status("/v1/config") == 200  # as a reader sees it: test_control.py has what readers are not told
    assert net.bora.alive()


@pytest.fixture(scope="module")
def browser(net, tmp_path_factory):
    """Chromium in the router's namespace."""
    if BINARY is None and not is_packaged("chromium"):
        pytest.skip("this distribution has no package of Chromium")
    one = Browser(net.router, tmp_path_factory.mktemp("browser"))
    yield one
    one.close()


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 360)])
def test_page(net, web, browser, scheme, width):
    """The page shows ports, a drop and its cure, in every scheme and width, and nothing is wrong with it."""
    browser.errors.clear()
    net.route(BLACKHOLE, "blackhole")
    net.settle()
    frames = both_families(net, 3) + [flow_frame(net, 9, target="203.0.113.1")]
    try:
        with load(net, frames, RATE):
            browser.open(f"http://127.0.0.1:{web}/", width=width, scheme=scheme)
            browser.wait_for("[...document.querySelectorAll('#ports .name')].map(name => name.textContent).join() === 'r0,r1,r2'")
            browser.wait_for("document.querySelector('#dropped')?.textContent.includes('if you want this route')")
            browser.wait_for("document.querySelector('#dropped .reason-head b')?.textContent.endsWith('/s')")
            browser.wait_for("document.querySelector('#ports path.rx')?.getAttribute('d').length > 20")
            browser.wait_for("document.querySelector('#flows tbody')?.textContent.includes('udp 20000 → 5000')")
    finally:
        net.undo()
    assert browser.value("document.getElementById('state').textContent") == "live"
    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the window"
    assert browser.value("document.getElementById('events').textContent.includes('has started')")
    assert not browser.errors


@pytest.mark.slow
def test_page_without_connection(net, web, browser):
    """When Bora does not answer, the page says so, and goes on when it does."""
    browser.open(f"http://127.0.0.1:{web}/")
    browser.wait_for("document.getElementById('state').textContent === 'live'")
    net.bora.process.send_signal(subprocess.signal.SIGSTOP)
    try:
        browser.wait_for("!document.getElementById('lost').hidden && document.body.classList.contains('stale')", 15)
    finally:
        net.bora.process.send_signal(subprocess.signal.SIGCONT)
    browser.wait_for("document.getElementById('lost').hidden", 15)


def test_top_once(net):
    """`bora top --once` prints one frame with the ports, and ends."""
    with load(net, both_families(net), RATE):
        time.sleep(1.5)
        done = net.router.exec(bora.binary(), "top", "--once")
    for word in ("r0", "r1", "Where every packet went", "in agreement", "has started"):
        assert word in done.stdout, done.stdout
    assert "\x1b" not in done.stdout and not done.stderr


def test_top_restores_the_terminal(net):
    """On a terminal, q ends it and leaves the alternate screen."""
    if not shutil.which("script"):
        pytest.skip("no `script`, which makes a terminal")
    process = net.router.popen("script", "-qec", f"stty rows 24 cols 80; {bora.binary()} top", "/dev/null",
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        output = b""
        deadline = time.monotonic() + 10
        while b"r0" not in output and time.monotonic() < deadline:
            if select.select([process.stdout], [], [], 1)[0]:
                output += process.stdout.read1()
        process.stdin.write(b"q")
        process.stdin.flush()
        rest, _ = process.communicate(timeout=10)
    finally:
        process.kill()
    assert b"r0" in output and b"\x1b[?1049l" in output + rest
    assert process.returncode == 0


def test_reasons_have_cures(net):
    """Every reason says what it means and what to do."""
    reasons = net.bora.show("reasons")
    assert len(reasons) > 50 and all(one["meaning"] and one["cure"] for one in reasons)


def test_web_serves_many_at_once(net, web):
    """Several readers of the stream get the same seconds."""
    def read(into):
        with inside(net.router.name):
            client = socket.create_connection(("127.0.0.1", web), 10)
        client.sendall(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stream = Stream(client)
        into.append([stream.now()["time"] for _ in range(4)])

    seen = []
    readers = [threading.Thread(target=read, args=(seen,)) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(20)
    assert len(seen) == 8
    assert len(set.intersection(*map(set, seen))) >= 2
