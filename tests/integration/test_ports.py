"""Ports of the kinds tap, af_packet and pcap in a running router, and wrong options."""

import os
import struct
import time

import pytest

from lib import packets
from lib.bora import binary
from lib.port import Port, wait_readable
from lib.single import check_tcp, check_traffic, network  # noqa: F401: a fixture
from lib.waiting import until

pytestmark = [pytest.mark.bora, pytest.mark.alone]
TWIN = "02:bc:00:00:00:77"


def test_tap(network, say):
    """A TAP interface in another namespace, as a container or virtual machine would have it."""
    network.start("tap:vm0,name=b0")
    network.router.ip("link", "set", "vm0", "netns", network.other.name)
    network.address(network.other, "vm0", 1, 2)
    network.default_route(network.other, 1)
    check_traffic(network, say)
    # TCP: Linux leaves no checksum or segmentation to a TAP interface without offloads
    check_tcp(network)


@pytest.mark.slow
def test_other_workers_take_a_tap_over(network, tmp_path, say):
    """When `workers.cores` replaces the workers, the new ones take over queue and twin, twice."""
    network.start("tap:vm0,name=b0")
    network.router.ip("link", "set", "vm0", "netns", network.other.name)
    network.address(network.other, "vm0", 1, 2)
    network.default_route(network.other, 1)
    path = tmp_path / "bora.toml"
    for cores in ([0, 1], [1]):
        path.write_text('path = "engine"\n[[port]]\nname = "r0"\n[[port]]\nname = "b0"\n'
                        'kind = "tap"\ninterface = "vm0"\n'
                        f"[workers]\ncores = {cores}\n")
        done = network.router.exec(binary(), "apply", str(path)).stdout
        assert f"\nworkers: cores {cores} (was " in f"\n{done}", done
        assert [worker["core"] for worker in network.bora.show("workers")] == cores
        check_traffic(network, say)


@pytest.mark.slow
def test_af_packet(network, say):
    """An interface through packet sockets, which Linux itself does not use."""
    network.give_veth()
    network.start("af_packet:p1,name=b0")
    check_traffic(network, say)
    network.router.ip("link", "set", "p1", "down")
    deadline = time.monotonic() + 5
    while "NO-CARRIER" not in network.router.ip("link", "show", "b0").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_frames_for_other_stations(network):
    """They are dropped, as Linux would do, but not while something takes what the twin does not: a capture."""
    network.start(f"tap:vm0,name=b0,mac={TWIN}")
    network.router.ip("link", "set", "vm0", "netns", network.other.name)
    network.other.ip("link", "set", "vm0", "up")
    far = Port(network.other.name, "vm0")
    frame = packets.ethernet("02:bc:00:00:00:66", "02:bc:00:00:00:99", packets.udp4("10.0.1.2", "10.0.0.2"))

    def dropped():
        return network.bora.totals()["drops"].get("other_host", 0)

    def drops_one():
        before = dropped()
        far.send(frame)
        time.sleep(0.02)
        return dropped() > before

    until("it is dropped", drops_one, seconds=5)
    capture = Port(network.router.name, "b0")

    def captured():
        far.send(frame)
        return wait_readable([capture], 0.05) and frame == capture.receive_now()

    until("the capture gets it", captured, seconds=5)
    capture.close()
    until("it is dropped again", drops_one, seconds=5)


def read_pcap(path):
    """The packets of a pcap file in this machine's byte order."""
    data = path.read_bytes()
    found, at = [], 24
    while at < len(data):
        length = struct.unpack_from("=I", data, at + 8)[0]
        found.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return found


def test_pcap(network, tmp_path):
    """A capture file is forwarded like traffic from a wire; what goes back is written to the other file."""
    frames = [packets.ethernet(TWIN, "02:bc:00:00:00:99", packets.udp4("10.0.1.2", "10.0.0.2", dport=1000 + n))
              for n in range(200)]
    played, written = tmp_path / "in.pcap", tmp_path / "out.pcap"
    record = b"".join(struct.pack("=IIII", 1, n, len(f), len(f)) + f for n, f in enumerate(frames))
    played.write_bytes(struct.pack("=IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + record)
    network.router.ip("neigh", "replace", "10.0.0.2", "dev", "r0", "lladdr", network.host.ip(
        "-br", "link", "show", "h0").stdout.split()[2])
    capture = Port(network.host.name, "h0")
    network.start(f"pcap:{played},repeat=yes,out={written},name=b0,mac={TWIN}")
    network.router.ip("neigh", "replace", "10.0.1.2", "dev", "b0", "lladdr", "02:bc:00:00:00:99")
    network.bora.wait_in_sync()
    wanted = {packets.hop(frame[14:]) for frame in frames}
    deadline = time.monotonic() + 5
    while wanted and time.monotonic() < deadline:
        frame = capture.receive_now()
        if frame is None:
            time.sleep(0.001)
            continue
        wanted.discard(frame[14:])
    assert not wanted, f"{len(wanted)} of {len(frames)} packets did not come"
    packet = packets.udp4("10.0.0.2", "10.0.1.2", dport=77)
    mac = network.router.ip("-br", "link", "show", "r0").stdout.split()[2]
    host = network.host.ip("-br", "link", "show", "h0").stdout.split()[2]
    capture.send(packets.ethernet(mac, host, packet))
    time.sleep(0.3)
    network.bora.stop()
    expected = packets.ethernet("02:bc:00:00:00:99", TWIN, packets.hop(packet))
    assert any(frame[:len(expected)] == expected for frame in read_pcap(written))


# `make test` has one binary for all tests, which has DPDK
WITHOUT_DPDK = pytest.mark.skipif("BORA" in os.environ and os.environ["BORA"] == os.environ.get("BORA_DPDK"), reason="this bora has DPDK")


@pytest.mark.parametrize("port, words", [
    ("memif:/nowhere/socket,role=server", "/nowhere/socket"),
    ("memif:/tmp/s,rings=3", "`rings` is no key here: did you mean `ring`?"),
    ("tap:r0", "is no TAP interface"),
    ("tap:x0,name=r0", "named twice"),
    ("af_packet:none0", "none0"),
    ("pcap:/nowhere.pcap", "/nowhere.pcap"),
    ("dkpd:0", "no kind of port `dkpd`"),
    pytest.param("dpdk:net_null0", "built without DPDK", marks=WITHOUT_DPDK),
])
def test_wrong_ports_are_named(network, port, words):
    """If a port cannot be opened, the start fails with the port's name, and nothing is left behind."""
    done = network.router.exec(binary(), "run", "--port", "r0", "--port", port, check=False)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    left = network.router.ip("-br", "link").stdout.split()
    assert [name for name in left if name.startswith(("memif", "bora", "pcap", "x0"))] == []
    assert "xdp" not in network.router.ip("link", "show", "r0").stdout
