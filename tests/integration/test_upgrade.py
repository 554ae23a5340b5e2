"""`bora upgrade`: a new binary takes the place of the Bora that runs; with `--canary` once it does the same with the same packets."""

import json
import os
import socketserver
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from lib import packets
from lib.bora import Bora, binary, runtime_folder
from lib.topology import Network
from lib.traffic import both_families, flow_frame, load

PORTS = ["r0", "r1", "r2"]
RATE = 2_000
IN_THE_RINGS = 100  # packets: 50 ms of this load, more than ever waits in Bora's rings at this rate
SILENCE_MS = 1000  # a build beside this test makes pauses; an interruption lasts for seconds


def start(net, path):
    net.bora = Bora(net.router, PORTS, path)
    net.bora.start()
    net.bora.wait_in_sync()
    net.wait_until_forwarding()


def decide(net, *frames):
    """What the Bora that runs does with packets, each an input and a frame; status and answer."""
    asked = [{"input": port, "head": frame[:128].hex(), "length": len(frame)} for port, frame in frames]
    done = net.router.exec("curl", "-s", "-w", "\n%{http_code}", "--unix-socket", str(runtime_folder(net.router) / "api.sock"),
                           "-d", "@-", "http://bora/v1/decide", input=json.dumps(asked))
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def upgrade(net, *options, before=""):
    """`bora upgrade` until it ends; `before` is done where nobody else sees the files that it changes."""
    command = f"{before} exec {binary()} upgrade {' '.join(options)}"
    return net.router.exec("unshare", "--mount", "--propagation", "private", "sh", "-ec", command, check=False)


class Successor:
    """`bora upgrade` in the background, which becomes the new Bora."""

    def __init__(self, net, *options):
        self.log = tempfile.NamedTemporaryFile("w+", prefix="bora-log-", suffix=".txt")
        self.process = net.router.popen(binary(), "upgrade", *options, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def wait(self, bora):
        """Waits until it is the new Bora, which `bora` stands for from then on; returns what it has printed."""
        deadline = time.monotonic() + 60
        while "ready after" not in (text := Path(self.log.name).read_text()):
            assert self.process.poll() is None and time.monotonic() < deadline, text
            time.sleep(0.02)
        assert bora.process.wait(5) == 0, bora.output()
        bora.log.close()
        bora.process, bora.log = self.process, self.log
        return text


@pytest.mark.parametrize("path", ["express", "engine"])
def test_decide(kernel_net, path):
    """Frames are answered as they would leave, rules are obeyed, and nothing is sent or counted."""
    net, engine = kernel_net, path == "engine"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        rule = '[[rule]]\nprotocol = "udp"\ndestination_ports = 7777\naction = "drop"\n' if engine else ""
        file.write(f'path = "{path}"\nport = [{{ name = "r0" }}, {{ name = "r1" }}, {{ name = "r2" }}]\n{rule}')
        file.flush()
        net.bora = Bora(net.router, [], None, ["--config", file.name])
        net.bora.start()
    net.bora.wait_in_sync()
    frames = [flow_frame(net, 0), flow_frame(net, 0, family=6, to=2), flow_frame(net, 0, ttl=1), flow_frame(net, 0, dport=7777)]
    before = net.bora.totals()["received"]
    for _ in range(3):
        status, body = decide(net, *(("r0", frame) for frame in frames), ("none", frames[0]))
    assert status == 200, body
    to_1, to_2, ttl, dropped, unknown = json.loads(body)
    for verdict, frame, link, hops in ((to_1, frames[0], 1, 22), (to_2, frames[1], 2, 21)):
        left = bytes.fromhex(verdict["frame"])
        assert verdict["outcome"] == "sent" and verdict["length"] == len(frame), verdict
        assert left[:12] == packets.mac(net.host_mac(link)) + packets.mac(net.router_mac(link)), verdict
        assert left[hops] == frame[hops] - 1 and left[-14:] == frame[-14:], verdict
        assert verdict["tier"] == path and verdict.get("output") == (f"r{link}" if engine else None), verdict
    assert ttl["outcome"] == "to-linux" and unknown == {"outcome": "unknown"}, body
    assert (dropped["outcome"], dropped.get("reason")) == (("dropped", "rule") if engine else ("sent", None)), dropped
    assert net.bora.totals()["received"] - before < 10, "questions were counted as packets"
    assert decide(net, *[("r0", frames[0])] * 2049)[0] == 400


@pytest.mark.alone
def test_equal_binaries(kernel_net, bora_path, say):
    """Both do the same with all packets: the new one takes over, and Linux forwards meanwhile."""
    net = kernel_net
    start(net, bora_path)
    before = net.bora.show("config")
    frames = both_families(net) + [flow_frame(net, 8, ttl=1), flow_frame(net, 9, to=2), flow_frame(net, 10, target="240.1.2.3")]
    with load(net, frames, RATE) as traffic:
        text = Successor(net, "--canary", "--packets", "3000").wait(net.bora)
        time.sleep(1)
        report = traffic.finish()
    say(f"{bora_path}, upgrade: {report}")
    counted, rest = text.split(" packets with equal verdicts, ", 1)
    assert int(counted.split()[-1]) >= 3000 and rest.startswith("0 differ, "), text
    forwarded = report.sent * 8 / len(frames)
    assert report.received >= forwarded - IN_THE_RINGS and report.duplicated == 0, report
    assert report.longest_silence <= SILENCE_MS
    assert net.bora.show("config") == before
    net.bora.check_conservation()


def test_another_verdict(kernel_net, bora_path):
    """The new one believes that Linux does not forward what comes in by r0: packet and verdicts are printed, the old one stays."""
    net = kernel_net
    start(net, bora_path)
    received = net.bora.totals()["received"]
    with load(net, [flow_frame(net, 0)], RATE) as traffic:
        done = upgrade(net, "--canary", "--packets", "100000",
                       before="mount -t tmpfs none /mnt; echo 0 > /mnt/zero;"
                              " mount --bind /mnt/zero /proc/sys/net/ipv4/conf/r0/forwarding;")
        report = traffic.finish()
    assert done.returncode == 1, done
    assert "differs: 198.18." in done.stdout and "packet by r0," in done.stdout, done.stdout
    assert f"the Bora that runs: {bora_path}: sent" in done.stdout and "this binary:        express: to Linux" in done.stdout, done.stdout
    assert net.bora.alive() and report.lost <= IN_THE_RINGS
    # packets that are only asked about are not counted
    assert net.bora.totals()["received"] - received < report.sent + 100
    net.bora.check_conservation()


def things(net):
    """What Linux and the Bora that runs have."""
    folder = runtime_folder(net.router)
    files = {path.name: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]}
    return files, sorted(os.listdir(folder.parent / "bpf" / folder.name)), net.router.ip("-d", "link").stdout, net.router.ip("-d", "neigh").stdout


@pytest.mark.parametrize("kind", ["express", "engine", "engine-tap", "express-generic"])
def test_only_compared(kind):
    """With --dry-run nothing is replaced; with too few packets neither. Nothing in Linux is another than before."""
    net = Network(kind)
    try:
        only_compared(net)
    finally:
        net.close()


def only_compared(net):
    with load(net, [flow_frame(net, 0)], RATE):
        time.sleep(1)
        before = things(net)
        done = upgrade(net, "--canary", "--packets", "500", "--dry-run")
        assert done.returncode == 0 and "nothing is replaced (--dry-run)" in done.stdout, done
        assert things(net) == before
        done = upgrade(net, "--canary", "--packets", "1000000", "--seconds", "2")
    assert done.returncode == 1 and "fewer than 1000000 packets after 2 s" in done.stderr, done
    assert net.bora.alive()


def test_routes_that_change_are_no_difference(kernel_net):
    """Both follow Linux at different times, and are asked again."""
    net = kernel_net
    start(net, "express")
    with load(net, [flow_frame(net, 0, target="203.0.113.5")], RATE):
        process = net.router.popen(binary(), "upgrade", "--canary", "--packets", "10000", "--dry-run",
                                   stdout=subprocess.PIPE, text=True)
        for number in range(1000):
            if process.poll() is not None:
                break
            net.router.ip("route", "replace", "203.0.113.0/24", "via", net.host4(1 + number % 2))
            time.sleep(0.1)
        text = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and " 0 differ," in text, text


def test_upgrade_without_a_look(kernel_net):
    """Without --canary it takes over at once; where no Bora runs it says so."""
    net = kernel_net
    done = upgrade(net)
    assert done.returncode == 1 and "no Bora runs" in done.stderr, done
    start(net, "express")
    text = Successor(net).wait(net.bora)
    assert "equal" not in text
    net.wait_until_forwarding()


class OldBora(BaseHTTPRequestHandler):
    """The API of a Bora that knows nothing of canaries; it has this configuration."""

    config = ""

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(200 if self.path == "/v1/config" else 404, self.config if self.path == "/v1/config" else "")

    def do_POST(self):
        self.answer(404, "")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


def test_an_old_bora(kernel_net):
    """A Bora that is too old to be compared with is named, with what to do."""
    net = kernel_net
    start(net, "express")
    OldBora.config = json.dumps(net.bora.show("config"))
    path = runtime_folder(net.router) / "api.sock"
    path.rename(path.with_name("hidden"))
    with socketserver.UnixStreamServer(str(path), OldBora) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        done = upgrade(net, "--canary", "--dry-run")
        server.shutdown()
        thread.join()
    path.with_name("hidden").rename(path)
    assert done.returncode == 1 and "is of another version, and does not know /v1/decide" in done.stderr, done
    assert net.bora.alive()
