"""`bora capture` and `bora trace`: what they show of packets, in both tiers."""

import json
import socket
import subprocess
import time

import pytest
from scapy.utils import RawPcapNgReader

from lib.bora import binary, runtime_folder
from lib.packets import udp4, udp6
from lib.topology import Network
from lib.watching import traced, watch

pytestmark = pytest.mark.bora


@pytest.fixture
def net(bora_path):
    """Router and hosts with Bora on one of its paths."""
    network = Network(bora_path)
    yield network
    network.close()


def test_trace_says_what_became_of_packets(net):
    """Sent, to Linux, dropped: each with its reason, for both versions of IP."""
    net.ip("route add blackhole 198.51.100.0/24", "route del blackhole 198.51.100.0/24")
    net.settle()
    sent4 = udp4(net.behind4(0), net.behind4(1), dport=1001)
    sent6 = udp6(net.behind6(0), net.behind6(2), dport=1002)
    last = udp4(net.behind4(0), net.behind4(1), ttl=1, dport=1003)
    dropped = udp4(net.behind4(0), "198.51.100.7", dport=1004)
    other = udp4(net.behind4(0), net.behind4(1), dport=1005)
    frames = [net.frame(packet) for packet in (other, sent4, sent6, last, dropped)]
    found = traced(net, frames, "udp dst portrange 1001-1004", count=4)
    assert sorted(found) == [1001, 1002, 1003, 1004]
    for port, output in ((1001, "r1"), (1002, "r2")):
        one = found[port]
        assert (one["input"], one["tier"], one["outcome"], one["output"]) == ("r0", net.backend, "sent", output)
        assert one["length"] == len(frames[port - 1000])
    assert found[1001]["before"] == frames[1].hex()[:256]
    assert found[1001]["now"].startswith(net.host_mac(1).replace(":", "") + net.router_mac(1).replace(":", ""))
    # the gate, in the program, sees a TTL of 1 in both tiers
    assert (found[1003]["outcome"], found[1003]["reason"]) == ("to Linux", "ttl_exceeded")
    assert (found[1004]["outcome"], found[1004]["reason"]) == ("dropped", "blackhole")


def test_trace_in_words(net):
    """Without --json it explains: tier, FIB, Ethernet addresses, verdict."""
    process = watch(net, "trace", "-n", "1", "udp", "dst", "port", "1001", text=True)
    net.hosts[0].send(net.frame(udp4("192.0.2.9", net.behind4(1), dport=1001)))
    out, error = process.communicate(timeout=20)
    assert process.returncode == 0, error
    for words in ("192.0.2.9:4000 > 198.19.", "UDP", net.backend, "198.19.0.0/16 out of r1", net.host_mac(1), "sent by r1"):
        assert words in out, f"{words!r} is missing in {out}"


def trace_one(net, packet, *options):
    """What is said of a packet that is put in."""
    return net.router.exec(binary(), "trace", "--port", "r0", "--packet", packet, *options).stdout


def test_a_packet_is_put_in(net):
    """One that nobody sends: it is traced, and really forwarded; so are the octets of a frame."""
    for source, destination, text in ((net.behind4(0), net.behind4(1), "{}:4001 {}:1001"),
                                      (net.behind6(0), net.behind6(1), "udp [{}]:4001 [{}]:1001")):
        out = trace_one(net, text.format(source, destination))
        for words in ("r0", destination, "UDP", net.backend, "sent by r1"):
            assert words in out, f"{words!r} is missing in {out}"
        arrived = [frame for host, frame in net.collect(count=1) if host == 1]
        assert len(arrived) == 1 and b"\x03\xe9" in arrived[0], arrived
    frame = net.frame(udp4(net.behind4(0), net.behind4(2), ttl=1, dport=1001))
    found = json.loads(trace_one(net, frame.hex(), "--json"))
    assert (found["outcome"], found["reason"], found["before"]) == ("to Linux", "ttl_exceeded", frame.hex()[:256])


def test_what_linux_does(net):
    """Where Linux decides, the answer of `ip route get` is told."""
    for family, text, own, beyond in ((4, "{}:4001 {}:1001", net.router4(0), "198.51.100"), (6, "udp [{}]:4001 [{}]:1001", net.router6(0), "2001:db8:51:")):
        source = net.behind4(0) if family == 4 else net.behind6(0)
        out = trace_one(net, text.format(source, own))
        assert "to Linux (local)" in out and "for this machine itself" in out, out
        prefix, address = (f"{beyond}.0/24", f"{beyond}.7") if family == 4 else (f"{beyond}:/48", f"{beyond}:7")
        net.route(prefix, "unreachable", family)
        net.settle()
        out = trace_one(net, text.format(source, address))
        assert "unreachable route: ICMP says so" in out and "linux " in out, out


def test_wrong_packets(net):
    """What cannot be put in is refused with the reason."""
    for port, packet, why in (("r9", "192.0.2.1 192.0.2.2", "r9 is no port"), ("r0", "192.0.2.1 2001:db8::1", "address"),
                              ("r0", "zz", "nor a frame's octets"), ("r0", "0102", "2 octets"),
                              ("r0", "192.0.2.1:x 192.0.2.2", "neither an address nor")):
        process = net.router.popen(binary(), "trace", "--port", port, "--packet", packet, stderr=subprocess.PIPE, text=True)
        _, error = process.communicate(timeout=20)
        assert process.returncode != 0 and why in error, error


def test_capture(net, tmp_path):
    """The file has the packets as they came in and as they left, with interfaces, directions and verdicts."""
    path = tmp_path / "capture.pcapng"
    process = watch(net, "capture", "-n", "3", "--out", "-w", str(path), "--port", "r0", "udp dst port 1001")
    long = net.frame(udp4(net.behind4(0), net.behind4(1), size=1400, dport=1001))
    last = net.frame(udp4(net.behind4(0), net.behind4(1), ttl=1, dport=1001))
    v6 = net.frame(udp6(net.behind6(0), net.behind6(1), dport=1001))
    net.hosts[1].send(net.frame(udp4(net.behind4(1), net.behind4(0), dport=1001), 1))  # by another port
    for frame in (long, last, v6):
        net.hosts[0].send(frame)
        net.hosts[0].send(net.frame(udp4(net.behind4(0), net.behind4(1), dport=1002)))  # does not match
    _, error = process.communicate(timeout=20)
    assert process.returncode == 0, error
    reader = RawPcapNgReader(str(path))
    frames = [octets for octets, _ in reader]
    reader.close()
    assert sorted(frames) == sorted([long, net.forwarded(long[14:], 1), last, v6, net.forwarded(v6[14:], 1)])
    # not every scapy shows comments and names
    raw = path.read_bytes()
    assert raw.count(b"sent by r1") == 4 and raw.count(b"to Linux (ttl_exceeded)") == 1
    assert b"r0" in raw and b"r1" in raw


def test_capture_reads_in_tcpdump(net, tmp_path):
    """Other programs read the file, from the standard output, too."""
    process = watch(net, "capture", "-n", "2", "-w", "-", "udp dst port 1001")
    for _ in range(2):
        net.hosts[0].send(net.frame(udp4(net.behind4(0), net.behind4(1), dport=1001)))
    out, error = process.communicate(timeout=20)
    assert process.returncode == 0, error
    path = tmp_path / "capture.pcapng"
    path.write_bytes(out)
    read = subprocess.run(["tcpdump", "-n", "-r", str(path)], capture_output=True, text=True, check=True)
    assert read.stdout.count("1001: UDP") == 2, read


@pytest.mark.slow
def test_whoever_watches_leaves_nothing(net):
    """When the command is ended, the programs are gone, and the next one can watch."""
    for _ in range(6):  # more than may watch at a time
        process = watch(net, "trace", "udp dst port 1")
        process.terminate()
        process.communicate()
        deadline = time.monotonic() + 5
        while "bora-watch" in threads(net) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "bora-watch" not in threads(net)
    assert net.probe()


def test_clients_that_leave_at_once(net):
    """A client that is gone before the answer keeps no place of a watcher."""
    path = str(runtime_folder(net.router) / "api.sock")
    for _ in range(6):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(b"POST /v1/trace HTTP/1.1\r\nHost: bora\r\nContent-Length: 0\r\n\r\n")
        client.close()
    time.sleep(1)  # until all are at work
    deadline = time.monotonic() + 5
    while "bora-watch" in threads(net) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "bora-watch" not in threads(net)
    assert "sent by r1" in trace_one(net, f"{net.behind4(0)} {net.behind4(1)}")


def threads(net):
    """Names of Bora's threads."""
    pids = subprocess.run(["ip", "netns", "pids", net.router.name], capture_output=True, text=True, check=True).stdout.split()
    names = []
    for pid in pids:
        listing = subprocess.run(["ps", "-T", "-o", "comm=", "-p", pid], capture_output=True, text=True)
        names += listing.stdout.split()
    return names


def test_wrong_requests(net):
    """A wrong filter, port or program is refused with words that say so; forwarding goes on."""
    for arguments, words in (
        (["trace", "udp prot 5"], "udp prot 5"),
        (["trace", "--port", "r9"], "r9 is no port"),
        (["trace", "-n", "0"], "0 is not in"),
    ):
        done = net.router.exec(binary(), *arguments, check=False)
        assert done.returncode != 0 and words in done.stderr, done
    assert net.probe()
