"""Ports that DPDK drives, by its drivers without hardware: a bora with the feature `dpdk`, and its packet memory."""

import struct
import time

import pytest

from lib import packets
from lib.bora import dpdk_binary
from lib.memif import Echo, MemifNetwork
from lib.ping import ping
from lib.port import Port, wait_readable
from lib.single import check_tcp, check_traffic, network  # noqa: F401: a fixture

pytestmark = [pytest.mark.bora, pytest.mark.alone]
COUNT = 300
TWIN, PEER = "02:bc:00:00:00:77", "02:bc:00:00:00:99"
EARLY = {"port_down", "tx_link_down"}  # what comes from Linux or from the other side before a port is configured
TAP = "dpdk:net_tap0;iface=vm0"
VETH = "dpdk:net_af_packet0;iface=p1"


def start(network, port, *options):
    network.start(f"{port},name=b0", options, dpdk_binary())


@pytest.mark.slow
def test_hosts_behind_a_veth(network, say):
    """Linux's hosts on both sides, of both IP versions, and TCP; DPDK reads and writes p1 by packet sockets."""
    network.give_veth()
    start(network, VETH)
    check_traffic(network, say)
    check_tcp(network)
    card = network.port()["card"]
    assert card["received"] == network.port()["rx_packets"] and card["sent"] == network.port()["tx_packets"]


@pytest.mark.slow
def test_a_queue_for_each_worker(network, say):
    """The device spreads flows over two queues; every worker sends."""
    network.give_veth()
    start(network, f"{VETH};qpairs=2,queue_pairs=2", "--cores", "0,1")
    more = [f"10.0.1.{host}" for host in range(10, 26)]
    network.other.batch([f"address add {address}/24 dev h1" for address in more])
    check_traffic(network, say)
    for address in more:
        assert len(ping(network.host, address, 20)) == 20
    network.bora.check_conservation()
    assert all(worker["rx_packets"] for worker in network.bora.show("workers"))


@pytest.mark.slow
def test_other_workers_take_the_queues_over(network, tmp_path, say):
    """When `workers.cores` replaces the workers, no packet and no frame is lost."""
    network.give_veth()
    start(network, VETH)
    for cores in ([0, 1], [1]):
        done = apply(network, tmp_path, f"[workers]\ncores = {cores}\n", DPDK_PORT)
        assert f"\nworkers: cores {cores} (was " in f"\n{done.stdout}", done.stdout
        check_traffic(network, say)


DPDK_PORT = 'kind = "dpdk"\ndevice = "net_af_packet0,iface=p1"\n'


def apply(network, folder, more, dpdk_port, check=True):
    """`bora apply` of r0, the DPDK port b0 if there is one, and further sections."""
    path = folder / "bora.toml"
    second = f'[[port]]\nname = "b0"\n{dpdk_port}' if dpdk_port else ""
    path.write_text(f'path = "engine"\n[[port]]\nname = "r0"\n{second}{more}')
    return network.router.exec(dpdk_binary(), "apply", str(path), check=check)


class Wire:
    """The interface vm0 of net_tap as a wire: frames go in and come out as they are."""

    def __init__(self, network):
        start(network, f"{TAP},mac={TWIN}")
        self.network = network
        self.there, self.here = Port(network.router.name, "vm0"), Port(network.host.name, "h0")
        show = lambda namespace, device: namespace.ip("-br", "link", "show", device).stdout.split()[2]  # noqa: E731
        self.r0, self.h0 = show(network.router, "r0"), show(network.host, "h0")
        for link, device, mac in ((0, "r0", self.h0), (1, "b0", PEER)):
            for address in (f"10.0.{link}.2", f"2001:db8:{link}::2"):
                network.router.ip("neigh", "replace", address, "dev", device, "lladdr", mac)
        network.bora.wait_in_sync()

    def numbered(self, number, there):
        """A datagram of either IP version, in many sizes, to behind the wire or from there."""
        size, ports = 26 + number * 37 % 1400, {"sport": 4000, "dport": 1024 + number}
        low, high = ("0", "1") if there else ("1", "0")
        if number % 2:
            return packets.udp6(f"2001:db8:{low}::2", f"2001:db8:{high}::2", size=size, **ports)
        return packets.udp4(f"10.0.{low}.2", f"10.0.{high}.2", size=size, **ports)

    def send(self, there, number):
        """Sends one, and returns the frame that must come out at the other side."""
        packet = self.numbered(number, there)
        if there:
            self.here.send(packets.ethernet(self.r0, self.h0, packet))
            return packets.ethernet(PEER, TWIN, packets.hop(packet))
        self.there.send(packets.ethernet(TWIN, PEER, packet))
        return packets.ethernet(self.h0, self.r0, packets.hop(packet))

    def expect(self, there, frames):
        """The next frames of our datagrams are these, in this order."""
        port = self.there if there else self.here
        deadline = time.monotonic() + 5
        for frame in frames:
            while True:
                got = port.receive_now()
                if got is None:
                    assert time.monotonic() < deadline, "a packet is missing"
                    wait_readable([port], 0.1)
                elif is_ours(got):
                    break
            assert packets.same(frame, got), packets.difference(frame, got)

    def close(self):
        self.there.close()
        self.here.close()


def is_ours(frame):
    """Whether it is one of our datagrams: UDP from port 4000."""
    at = {b"\x08\x00": 34, b"\x86\xdd": 54}.get(frame[12:14])
    return at is not None and frame[at:at + 2] == struct.pack("!H", 4000)


@pytest.mark.slow
def test_every_packet_in_order(network):
    """Both ways, of both IP versions and in many sizes, each whole, once and in order; stopped and started again."""
    for _ in range(2):
        wire = Wire(network)
        try:
            for start_at in range(0, 2000, 50):
                for there in (True, False):
                    wire.expect(there, [wire.send(there, number) for number in range(start_at, start_at + 50)])
        finally:
            wire.close()
        totals = network.bora.check_conservation()
        assert not set(totals["drops"]) - EARLY, totals
        network.bora.stop()


@pytest.mark.slow
def test_a_killed_bora_comes_back(network):
    """After kill -9 DPDK leaves nothing in the way; addresses on the twin are as they were."""
    wire = Wire(network)
    wire.close()
    network.bora.kill()
    wire = Wire(network)
    try:
        wire.expect(True, [wire.send(True, number) for number in range(50)])
        wire.expect(False, [wire.send(False, number) for number in range(50)])
    finally:
        wire.close()


def test_what_is_wrong_with_a_packet_is_counted(network):
    """Bad checksums and packets that end early are dropped by name, as with other ports: nobody trusts the device."""
    wire = Wire(network)
    try:
        packet = wire.numbered(0, False)
        bad = packet[:10] + bytes([packet[10] ^ 1]) + packet[11:]
        for broken in (bad, packet[:20], bytes([0x44]) + packet[1:]):
            wire.there.send(packets.ethernet(TWIN, PEER, broken, 0x0800))
        wire.expect(False, [wire.send(False, 2)])
        drops = network.bora.check_conservation()["drops"]
        assert (drops["bad_checksum"], drops["truncated"], drops["bad_header_length"]) == (1, 1, 1), drops
    finally:
        wire.close()


def test_apply_removes_a_port(network, tmp_path):
    """`bora apply` without the port gives the device back to DPDK, and all its frames; to have it again takes a restart."""
    network.router.ip("link", "add", "r2", "type", "veth", "peer", "name", "h2")
    network.router.ip("link", "set", "r2", "up")
    wire = Wire(network)
    wire.expect(True, [wire.send(True, number) for number in range(50)])
    wire.close()
    device = 'kind = "dpdk"\ndevice = "net_tap0,iface=vm0"\n'
    other = '[[port]]\nname = "r2"\n'
    apply(network, tmp_path, other, f'mac = "{TWIN}"\nquota = 7\n{device}')
    assert [port["name"] for port in network.bora.show("ports")] == ["r0", "b0", "r2"]
    apply(network, tmp_path, other, None)
    assert [port["name"] for port in network.bora.show("ports")] == ["r0", "r2"]
    network.bora.check_conservation()
    assert network.router.ip("link", "show", "vm0", check=False).returncode != 0
    again = apply(network, tmp_path, other, device, check=False)
    assert again.returncode != 0 and "restart to add it" in again.stderr, again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("role, other", [("client", "server"), ("server", "client")])
def test_memif_with_bora_itself(role, other, say):
    """DPDK's net_memif and Bora's own memif are the ends of one link between two routers."""
    device = f"dpdk:net_memif0;role={role};socket={{socket}};socket-abstract=no"
    network = MemifNetwork([f",role={other}", device], program=dpdk_binary())
    try:
        for number in range(2):
            network.wait_for_carrier(number)
        for target, source in (("10.0.1.2", "10.0.0.2"), ("2001:db8:1::2", "2001:db8:0::2")):
            assert ping(network.hosts[0], target, 5)
            for size in (56, 512, 1400):
                assert len(ping(network.hosts[0], target, COUNT, size=size)) == COUNT
                assert len(ping(network.hosts[1], source, COUNT, size=size)) == COUNT
        for bora in network.boras:
            totals = bora.check_conservation()
            assert not set(totals["drops"]) - EARLY, totals
        say(network.port(1)["wire"])
    finally:
        network.close()


@pytest.mark.slow
def test_a_guest_by_vhost_user():
    """A virtio-user device of testpmd stands for a guest. It is killed and comes back, twice."""
    network = MemifNetwork(["dpdk:net_vhost0;iface={folder}/vhost.sock"], program=dpdk_binary())
    bora = network.boras[0]
    try:
        for _ in range(3):
            guest = Echo("", "client", f"net_virtio_user0,path={network.folder}/vhost.sock,mac={PEER}")
            try:
                network.wait_for_carrier(0)
                assert ping(network.routers[0], "10.0.9.2", 5)
                bora.wait_in_sync()
                for size in (56, 1400):
                    assert len(ping(network.hosts[0], "10.0.1.77", COUNT, size=size)) == COUNT
            finally:
                guest.close()
            network.wait_for_carrier(0, False)
            ping(network.hosts[0], "10.0.1.77", 10, patience=0.2)
            totals = bora.check_conservation()
            assert not set(totals["drops"]) - EARLY, totals
    finally:
        network.close()


@pytest.mark.parametrize("device, words", [
    ("0000:ff:1f.7", ["no device `0000:ff:1f.7`", "dpdk-devbind.py"]),
    ("net_nothing0", ["no device `net_nothing0`", "name of its driver"]),
    ("net_af_packet0;iface=none0", ["net_af_packet0,iface=none0", "none0"]),
    ("net_memif0;role=client;zero-copy=yes", ["zero-copy=yes", 'kind = "memif"']),
    ("net_virtio_user0;path=/tmp/x", ["net_vhost0,iface=PATH"]),
    ("net_null0,eal=--no-such-option", ["DPDK does not start", "--no-such-option"]),
    ("net_null0,ring=20", ["`20` is not a number from 5 to 14"]),
])
def test_wrong_devices_are_named(network, device, words):
    """If a device cannot be opened, the start fails and says why, and leaves nothing behind."""
    done = network.router.exec(dpdk_binary(), "run", "--port", "r0", "--port", f"dpdk:{device},name=b0", check=False)
    assert done.returncode == 1 and all(word in done.stderr for word in words), done.stderr
    assert network.router.ip("link", "show", "b0", check=False).returncode != 0


def test_two_ports_on_one_device(network):
    """A device has one port, and DPDK one set of arguments."""
    for second, words in (("net_null0,name=b1", "has a port already"), ("net_null1,name=b1,eal=-n 2", "for another port")):
        ports = ["r0", "dpdk:net_null0,name=b0", f"dpdk:{second}"]
        arguments = [part for port in ports for part in ("--port", port)]
        done = network.router.exec(dpdk_binary(), "run", *arguments, check=False)
        assert done.returncode == 1 and words in done.stderr, done.stderr
