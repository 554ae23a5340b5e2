"""sFlow: what a real collector (nfdump's sfcapd) says of known traffic, and the flows with the most traffic."""

import json
import socket
import subprocess
import time

import pytest

from lib import required
from lib.bora import Bora, binary, runtime_folder
from lib.netns import inside
from lib.packets import udp4
from lib.topology import Network
from lib.traffic import FILL, both_families, flow_frame, load
from scapy.layers.l2 import Dot1Q, Ether

pytestmark = pytest.mark.bora
PORTS = "".join(f'[[port]]\nname = "r{n}"\n' for n in range(3))
ONE_IN = 10
RATE = 3000
BLACKHOLE = "203.0.113.0/24"


@pytest.fixture
def net(bora_path):
    """Router and hosts with Bora, whose router has a working loopback, where collectors listen."""
    network = Network(bora_path)
    network.router.ip("link", "set", "lo", "up")
    yield network
    network.close()


def apply(net, tmp_path, section, *options, check=True):
    """Applies a configuration with a section [sflow], or without one, and gives the sampling the time to begin."""
    path = tmp_path / "bora.toml"
    path.write_text(f'path = "{net.backend}"\n{PORTS}' + (f"[sflow]\n{section}" if section else ""))
    done = net.router.exec(binary(), "apply", str(path), *options, check=check)
    time.sleep(0.3)
    return done


class Collector:
    """sfcapd in the router's namespace; after `flows` it has ended."""

    def __init__(self, net, folder, address="127.0.0.1"):
        required.program("sfcapd", "nfdump-sflow")
        self.folder = folder
        folder.mkdir()
        self.process = net.router.popen("sfcapd", "-b", address, "-w", str(folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(0.5)
        assert self.process.poll() is None, self.process.stderr.read()

    def flows(self):
        """What it has got: packets and octets are estimates, which it makes of the sampling rates."""
        time.sleep(1)
        self.close()
        done = subprocess.run(["nfdump", "-R", str(self.folder), "-o", "json"], capture_output=True, text=True, check=True)
        return [] if "No matching flows" in done.stdout else json.loads(done.stdout)

    def close(self):
        """Ends it, so that it writes its file."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=10)


@pytest.fixture
def collector(net, tmp_path):
    """A collector on IPv4's loopback."""
    one = Collector(net, tmp_path / "collected")
    yield one
    one.close()


def is_estimate(estimate, packets):
    """Whether an estimate is plausible for this many packets: within five standard deviations of the binomial
    distribution."""
    deviation = (packets * (ONE_IN - 1)) ** 0.5
    return abs(estimate - packets) <= 5 * deviation + ONE_IN


def index(net, name):
    """An interface's index."""
    return json.loads(net.router.exec("ip", "-j", "link", "show", name).stdout)[0]["ifindex"]


def sums(flows, of="in_packets"):
    """Sums by destination port and where it went."""
    found = {}
    for one in flows:
        key = (one["dst_port"], one.get("input_snmp"), one.get("output_snmp"))
        found[key] = found.get(key, 0) + one[of]
    return found


def test_a_collector_estimates_the_traffic(net, tmp_path, collector):
    """Packets and octets of both versions of IP, the interfaces they came in and left by, and routes; dropped packets, too."""
    apply(net, tmp_path, f'collector = "127.0.0.1"\nsampling = {ONE_IN}\n')
    net.route(BLACKHOLE, "blackhole")
    net.settle()
    kinds = [flow_frame(net, 1, 4, dport=5004), flow_frame(net, 2, 6, dport=5006), flow_frame(net, 3, 4, dport=5009, target="203.0.113.1")]
    with load(net, kinds, RATE) as running:
        time.sleep(4)
        report = running.finish()
    flows = collector.flows()
    input_, output = index(net, "r0"), index(net, "r1")
    each = report.sent / 3
    packets, octets = sums(flows), sums(flows, "in_bytes")
    for dport in (5004, 5006):
        key = (dport, input_, output)
        assert is_estimate(packets.get(key, 0), each), (packets, each)
        assert octets[key] > 0
    dropped = sum(count for (dport, came, left), count in packets.items() if dport == 5009 and came == input_ and left != output)
    assert is_estimate(dropped, each), (packets, each)
    assert set(key[0] for key in packets) == {5004, 5006, 5009}, "nothing but the load"
    four = next(one for one in flows if one["dst_port"] == 5004)
    assert (four["src_mask"], four["dst_mask"], four["ip4_next_hop"]) == (16, 16, net.host4(1))
    six = next(one for one in flows if one["dst_port"] == 5006)
    assert (six["src_mask"], six["dst_mask"], six["ip6_next_hop"]) == (48, 48, net.host6(1))
    told = net.bora.show("sflow")
    sampled = sum(packets.values()) / ONE_IN
    assert told["samples"] == sampled and told["lost_samples"] == 0 and told["agent"] == "127.0.0.1", told


def test_packets_for_linux_and_vlans(net, tmp_path, collector):
    """What goes to Linux is sampled, once; the sample of a packet with a tag says which VLAN."""
    apply(net, tmp_path, 'collector = "127.0.0.1"\nsampling = 1\n')
    tagged = udp4(net.behind4(0), net.behind4(1), dport=1100)
    frame = Ether(net.frame(tagged))
    with_tag = Ether(dst=frame.dst, src=frame.src) / Dot1Q(vlan=100, prio=3) / frame.payload
    last = net.frame(udp4(net.behind4(0), net.behind4(1), ttl=1, dport=1001))
    for _ in range(5):
        net.hosts[0].send(bytes(with_tag))
        net.hosts[0].send(last)
    flows = collector.flows()
    by_port = {}
    for one in flows:
        by_port.setdefault(one["dst_port"], []).append(one)
    assert sum(one["in_packets"] for one in by_port[1001]) == 5, flows
    assert sum(one["in_packets"] for one in by_port[1100]) == 5, flows
    assert {one["src_vlan"] for one in by_port[1100]} == {100}


@pytest.fixture
def datagrams(net):
    """A socket that is the collector."""
    with inside(net.router.name):
        listener = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        listener.bind(("::1", 6343))
    listener.settimeout(5)
    yield listener
    listener.close()


def words(datagram, *places):
    """32-bit words of a datagram."""
    return [int.from_bytes(datagram[4 * place:4 * place + 4], "big") for place in places]


def test_counters_by_ipv6(net, tmp_path, datagrams):
    """Counters of all ports come by IPv6, at the interval that was asked for, and are those of `bora show ports`."""
    apply(net, tmp_path, 'collector = "::1"\npolling = 1\nsampling = 1000000\n')
    first = datagrams.recv(2000)
    assert net.probe()
    started = time.monotonic()
    datagrams.recv(2000)
    last = datagrams.recv(2000)
    assert 0.5 < time.monotonic() - started < 3
    # version 5, of an agent with an IPv6 address; then sub-agent, sequence, uptime, samples
    assert words(first, 0, 1, 7, 9) == [5, 2, 1, 3] and words(last, 7, 9) == [3, 3]
    received = {}
    for sample in range(3):
        at = 10 + 29 * sample
        kind, length, sequence, source = words(last, at, at + 1, at + 2, at + 3)
        assert (kind, length) == (2, 108) and 2 <= sequence <= 3  # one is left out while the control loop is busy
        received[source] = words(last, at + 15)[0]
    shown = {index(net, port["name"]): port["rx_packets"] for port in net.bora.show("ports")}
    assert received == shown and any(shown.values())


@pytest.mark.slow
def test_collectors_that_do_not_listen_do_no_harm(net, tmp_path):
    """One refuses, to one there is no route, one does not answer: all are counted, and every packet is forwarded."""
    apply(net, tmp_path, 'collector = ["127.0.0.1", "203.0.113.77", "10.0.1.77"]\nsampling = 1\npolling = 1\n')
    with load(net, both_families(net), RATE) as running:
        time.sleep(3)
        report = running.finish()
    assert report.lost == 0 and report.sent > RATE, report
    time.sleep(0.5)  # until the last samples are sent
    told = net.bora.show("sflow")
    refuses, lost, silent = told["collectors"]
    assert refuses["refused"] > 0 and refuses["failed"] == 0, told
    assert lost["sent"] == 0 and lost["failed"] > 0 and "unreachable" in lost["error"], told
    assert silent["sent"] > 0 or silent["failed"] > 0, told
    assert told["samples"] + told["lost_samples"] >= report.sent, told
    text = net.router.exec(binary(), "show", "sflow").stdout
    assert "1 in 1 packets" in text and "203.0.113.77:6343" in text, text


def test_a_collector_that_comes_later_gets_samples(net, tmp_path):
    """While nobody listens datagrams are lost; from then on somebody gets all."""
    apply(net, tmp_path, 'collector = "127.0.0.1"\nsampling = 1\n')
    net.hosts[0].send(net.frame(udp4(net.behind4(0), net.behind4(1), dport=1001)))
    time.sleep(0.5)
    one = Collector(net, tmp_path / "collected")
    try:
        net.hosts[0].send(net.frame(udp4(net.behind4(0), net.behind4(1), dport=1002)))
        assert {flow["dst_port"] for flow in one.flows()} == {1002}
    finally:
        one.close()


@pytest.mark.slow
def test_apply_changes_removes_and_takes_back(net, tmp_path, datagrams):
    """The section can be changed, removed, and is taken back unless confirmed; a wrong one changes nothing."""
    def sampled():
        return net.bora.show("sflow")["section"]

    apply(net, tmp_path, 'collector = "::1"\n')
    assert sampled()["sampling"] == 1000
    done = apply(net, tmp_path, 'collector = "::1"\nsampling = 7\nagent = "192.0.2.1"\n')
    assert "sampling 7 (was 1000)" in done.stdout and sampled()["sampling"] == 7
    datagrams.recv(2000)
    assert words(datagrams.recv(2000), 1, 2, 4) == [1, 0xC0000201, 1], "another agent begins anew"
    done = apply(net, tmp_path, 'collector = "::1"\nsampling = 0\n', check=False)
    assert done.returncode != 0 and "1 in 0 packets" in done.stderr, done
    assert sampled()["sampling"] == 7
    apply(net, tmp_path, "", "--confirm", "3")
    assert sampled() is None and net.bora.show("sflow")["samples"] == 0
    deadline = time.monotonic() + 10
    while sampled() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sampled()["agent"] == "192.0.2.1"
    apply(net, tmp_path, "")
    assert sampled() is None and net.probe()
    assert "no collectors" in net.router.exec(binary(), "show", "sflow").stdout
    save = net.router.exec(binary(), "save").stdout
    assert "192.0.2.1" not in save


def test_samples_from_the_start(kernel_net, tmp_path):
    """Bora starts with the section; an agent without a route to its collector waits for one."""
    net = kernel_net
    path = tmp_path / "bora.toml"
    path.write_text(f'path = "express"\n{PORTS}[sflow]\ncollector = "192.0.2.9"\nsampling = 1\n')
    net.bora = Bora(net.router, [], None, ["--config", str(path)])
    net.bora.start()
    net.wait_until_forwarding()
    time.sleep(0.5)
    told = net.bora.show("sflow")
    assert told["agent"] is None and told["lost_samples"] > 0 and "unreachable" in told["collectors"][0]["error"], told
    assert "agent not known yet" in net.router.exec(binary(), "show", "sflow").stdout
    net.route("192.0.2.0/24", f"via {net.host4(1)}")
    time.sleep(1.5)
    assert net.probe()
    time.sleep(0.5)
    told = net.bora.show("sflow")
    assert told["agent"] == net.router4(1) and told["samples"] > 0 and told["collectors"][0]["sent"] > 0, told


def flows_now(net, looks=5):
    """The event `now` of a reader of the live data, when there have been flows in this many of them."""
    path = runtime_folder(net.router) / "api.sock"
    command = ["curl", "-sN", "-m", "60", "--unix-socket", path, "http://bora/v1/live"]
    with net.router.popen(*command, stdout=subprocess.PIPE, text=True) as reader:
        events = (json.loads(line[6:]) for line in reader.stdout if line.startswith("data: "))
        with_flows = [now for now, _ in zip((event for event in events if event.get("flows")), range(looks))]
        reader.terminate()
    assert len(with_flows) == looks, "no flows within a minute"
    return with_flows[-1]


@pytest.mark.slow
@pytest.mark.parametrize("section", ["", f'collector = "127.0.0.1"\nsampling = {ONE_IN}\n'], ids=["looking", "sflow"])
def test_the_heaviest_flow_is_first(net, tmp_path, section):
    """The live data have the heaviest flows first, with rates, ports and the sampling; without collectors packets are
    sampled only while somebody looks."""
    apply(net, tmp_path, section)
    big = flow_frame(net, 1, 4, dport=5001, fill=FILL + bytes(1000))
    many = flow_frame(net, 2, 6, dport=5002, fill=FILL + bytes(100))
    few = [flow_frame(net, number, dport=6000) for number in range(3, 13)]
    with load(net, [big, *[many] * 3, *few], 2 * RATE) as running:
        time.sleep(1)
        now = flows_now(net)
        if section:
            assert now["flows_one_in"] == ONE_IN
        else:
            assert now["flows_one_in"] in (1, 2, 4, 8)
            assert "bora-samples" in threads(net)
        report = running.finish()
    assert report.sent > RATE
    first, second = now["flows"][:2]
    assert (first["what"], second["what"]) == ("udp 20001 → 5001", "udp 20002 → 5002"), now["flows"]
    assert (first["input"], first["output"]) == ("r0", "r1")
    rate = report.sent / report.seconds
    assert first["pps"] == pytest.approx(rate / 14, rel=0.5) and second["pps"] == pytest.approx(rate * 3 / 14, rel=0.5)
    assert first["bps"] == pytest.approx(8 * len(big) * rate / 14, rel=0.5)
    assert len(now["flows"]) == 10
    if not section:
        deadline = time.monotonic() + 10
        while "bora-samples" in threads(net) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert "bora-samples" not in threads(net)


def threads(net):
    """Names of Bora's threads."""
    listing = subprocess.run(["ps", "-T", "-o", "comm=", "-p", str(net.bora.process.pid)], capture_output=True, text=True, check=True)
    return listing.stdout.split()
