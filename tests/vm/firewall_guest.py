"""Runs in a guest: rulesets that people have, unchanged, and a household's conversations. Bora sends the frames that Linux alone sends,
and forwards most of them itself.

    h0 ==== r0 [router] r1 ==== h1        LAN: 10.0.0.2 and 2001:db8:0::2; Internet: 198.19.0.0/16 and 2001:db8:f1::/48
"""

import dataclasses
import re
import time
from pathlib import Path

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from lib import packets
from vm import flows, machine, topic_guest
from vm.topic_guest import FOLLOW_SECONDS, HOST, ROUTER, addressing, differences

FOLDER = Path(__file__).resolve().parents[2] / "router/ruleset/tests/rulesets"
LAN, WAN = 0, 1  # links
BULK = 40  # packets of a conversation and direction, once its flow is settled
DATA = 200  # octets of each
SERVER_PORT = 5000
TIERS = ("express", "engine")
VETH_TAGS = (6, 3)  # before, veths have generic XDP, and so no bridges (`bora show bridges`)
SHARE = 0.9  # the least share of all packets by Bora
BEHIND = "192.168.122"  # a network behind the LAN's host


# What mwan3 marks goes to another gateway.
BY_MARK = ("route {} default via 10.0.1.77 dev r1 table 1", "rule {} iif r1 lookup main pref 1001", "rule {} fwmark 0x100/0x3f00 lookup 1 pref 2001")


@dataclasses.dataclass(frozen=True)
class Case:
    """A ruleset, and which interfaces of it are the LAN's and the Internet's."""

    file: str
    lan: str
    wan: str
    client: str = "10.0.0.2"  # its IPv4 address
    share: float = SHARE
    bridge: bool = False  # the LAN is a bridge with r0
    legacy: bool = False  # by legacy iptables
    own: bool = True  # Bora makes a flowtable; without, the rules leave transit alone, or Bora follows them itself
    held: bool = False  # Bora makes none, although rules hold packets back
    without: tuple = ()  # bogons that are the test's addresses
    routes: tuple = ()  # lines of `ip -batch` that the ruleset needs; {} stands for `add` or `del`
    short: bool = False

    def commands(self):
        """[(command, its input)]: they load the ruleset with the names of the test's interfaces."""
        text = (FOLDER / self.file).read_text()
        for part in self.without:
            text = text.replace(part, "")
        for name, ours in ((self.lan, "br0" if self.bridge else "r0"), (self.wan, "r1")):
            text = re.sub(rf"(?<![\w-]){name}(?![\w-])", ours, text)
        if self.file.endswith(".nft"):
            return [(("nft", "-f", "-"), text)]
        four, _, six = text.partition("### ip6tables\n")
        kind = "legacy" if self.legacy else "nft"
        return [((f"iptables-{kind}-restore",), four), ((f"ip6tables-{kind}-restore",), six)]


CASES = (
    Case("bgp-input.nft", "lan", "wan", share=1.0, own=False),
    Case("bgp-edge.nft", "lan", "wan", share=1.0, own=False, without=("10.0.0.0/8, ", "2001:db8::/32, ")),
    Case("exchange.nft", "lan", "ix", share=1.0, own=False, short=True),
    Case("edge.iptables", "eth1", "eth0", share=1.0, own=False),
    Case("openwrt-fw4.nft", "br-lan", "wan", short=True),
    Case("ufw.iptables", "eth1", "eth0"),
    Case("vyos-zones.nft", "eth1", "eth0"),
    Case("debian-router.nft", "eth1", "ppp0"),
    Case("docker.iptables", "docker0", "eth0", short=True),
    Case("ufw.iptables", "eth1", "eth0", legacy=True),
    Case("libvirt.iptables", "virbr0", "eth0", client=f"{BEHIND}.2"),
    Case("kube-proxy.iptables", "cni0", "eth0"),
    Case("mwan3.iptables", "lan", "wan", client=f"{BEHIND}.2", routes=BY_MARK, short=True),
    Case("openwrt-fw4.nft", "br-lan", "wan", bridge=True, short=True),
    Case("wireguard.iptables", "wg0", "eth0"),
    Case("tailscale.nft", "tailscale0", "eth0"),
    Case("strongswan.iptables", "eth1", "eth0", client=f"{BEHIND}.2"),
    Case("ferm.iptables", "eth1", "ppp0", client=f"{BEHIND}.2"),
    Case("arno.iptables", "eth1", "eth0"),
    Case("firehol.iptables", "eth1", "eth0"),
    Case("edgeos.iptables", "eth1", "eth0"),
    Case("netavark.iptables", "podman1", "eth0", client=f"{BEHIND}.2"),
    Case("libvirt.nft", "virbr0", "eth0", client=f"{BEHIND}.2"),
    Case("incus.nft", "incusbr0", "eth0", client=f"{BEHIND}.2"),
    Case("proxmox.iptables", "vmbr0", "eno1", client=f"{BEHIND}.2", share=0.45),  # IPv4 has a rule that chooses zones
    Case("calico.iptables", r"(?:cali\+|cali92d634f8f03)", "eth0", client=f"{BEHIND}.2", share=0.45, held=True),
    Case("kube-proxy.nft", "cni0", "eth0"),
    Case("cgnat.nft", "access", "core", client=f"{BEHIND}.2"),
    Case("bng.nft", "access", "core", share=1.0, own=False),
    Case("dual-wan.nft", "lan", "wan"),
    Case("wg-quick.nft", "eth1", "eth0", share=0.45),  # IPv4 has a rule that depends on the router's own addresses
    Case("crowdsec.nft", "eth1", "eth0", share=0.0, held=True),
    Case("ipfire.iptables", "green0", "red0", share=0.45, held=True),
    Case("shorewall.iptables", "eth1", "eth0", share=0.0, held=True),
    Case("firewalld.nft", "eth1", "eth0", share=0.45),  # IPv6 has a rule that depends on routes
)


@dataclasses.dataclass
class Conversation:
    """What a client in the LAN and a server in the Internet say to each other."""

    family: int
    kind: str  # tcp, udp or ping
    number: int
    client: str  # its address
    seen: tuple = ()  # the client's address and port, as the server sees them
    said: tuple = (1000, 9000)  # TCP's sequence numbers of the client and of the server

    def __post_init__(self):
        self.server = f"198.19.0.{10 + self.number}" if self.family == 4 else f"2001:db8:f1::{10 + self.number:x}"
        self.port = 20000 + self.number

    def frame(self, by_client, size=DATA, flags="PA", link=None):
        """(link, frame). `link`: another than theirs."""
        address, port = (self.client, self.port) if by_client else (self.seen or (self.client, self.port))
        source, target = (self.client, self.server) if by_client else (self.server, address)
        body = self.body(by_client, port, size, flags)
        packet = bytes((IP if self.family == 4 else IPv6)(src=source, dst=target) / body)
        link = link if link is not None else LAN if by_client else WAN
        return link, packets.ethernet(ROUTER.format(link), HOST.format(link), packet)

    def body(self, by_client, port, size, flags):
        """What is behind the IP header."""
        data = Raw(bytes(range(size))) if size else b""
        ports = {"sport": port, "dport": SERVER_PORT} if by_client else {"sport": SERVER_PORT, "dport": port}
        if self.kind == "udp":
            return UDP(**ports) / data
        if self.kind == "ping":
            if self.family == 4:
                return ICMP(type=8 if by_client else 0, id=port) / data
            return (ICMPv6EchoRequest if by_client else ICMPv6EchoReply)(id=port, data=bytes(data))
        client, server = self.said
        own, other = (client, server) if by_client else (server, client)
        body = TCP(**ports, flags=flags, seq=own, ack=other if "A" in flags else 0, window=64000) / data
        own += size + ("S" in flags)
        self.said = (own, server) if by_client else (client, own)
        return body

    def strange(self):
        """[(link, frame)] that no flow should take: by the other link, and from a port that nobody was spoken to at."""
        other = dataclasses.replace(self, seen=(self.seen[0], self.seen[1] + 500))
        return [self.frame(True, link=WAN), self.frame(False, link=LAN), other.frame(False)]

    def learn(self, frames):
        """The server sees the client's address and port."""
        for _, octets in frames:
            packet = Ether(octets)
            network = packet.getlayer(IP if self.family == 4 else IPv6)
            if network is not None and network.dst == str(IPv6(dst=self.server).dst if self.family == 6 else self.server):
                layer = {"udp": UDP, "tcp": TCP, "ping": ICMP if self.family == 4 else ICMPv6EchoRequest}[self.kind]
                self.seen = (network.src, network[layer].id if self.kind == "ping" else network[layer].sport)


class Lan(topic_guest.Lan):
    """Two links. `bridge`: the LAN is a bridge with r0."""

    def __init__(self, bridge):
        super().__init__(2)
        self.has_bridge = bridge
        for link in range(self.links):
            self.connect(link)
        lan = "br0" if bridge else "r0"
        if bridge:
            self.router.batch([f"link add br0 address {ROUTER.format(LAN)} type bridge", "link set r0 master br0", "link set br0 up"])
        self.router.batch([line for link, device in ((LAN, lan), (WAN, "r1")) for line in addressing(device, link, HOST.format(link))])
        self.router.ip("route", "add", f"{BEHIND}.0/24", "via", "10.0.0.2")
        self.router.ip("neigh", "add", "10.0.1.77", "lladdr", "02:bc:00:00:00:77", "dev", "r1")  # the other gateway
        self.open_ports()
        flows.take_time(self.router)


def conversations(case, kinds, first=0):
    """One of each kind for both IP versions, with numbers from `first` on."""
    clients = {4: case.client, 6: "2001:db8:0::2"}
    all_kinds = [(family, kind) for family in (4, 6) for kind in kinds]
    return [Conversation(family, kind, number, clients[family]) for number, (family, kind) in enumerate(all_kinds, first)]


def begin(lan, talks):
    """The conversations begin; returns what comes out of each step, which has a frame of each."""
    out = []
    for by_client, make in first_words():
        frames = [make(talk) for talk in talks]
        out.append(lan.exchange(frames, len(frames)))
        for talk in talks if by_client else ():
            talk.learn(out[-1])
    return out


def first_words():
    """How a conversation begins: [(by the client, its frame)]. A reply needs what was seen."""
    yield True, lambda talk: talk.frame(True, 0 if talk.kind == "tcp" else DATA, "S")
    yield False, lambda talk: talk.frame(False, 0 if talk.kind == "tcp" else DATA, "SA")
    yield True, lambda talk: talk.frame(True, 0 if talk.kind == "tcp" else DATA, "A")
    for _ in range(2):
        yield True, lambda talk: talk.frame(True)
        yield False, lambda talk: talk.frame(False)


def play(lan, case):
    """What comes out, by step; how many packets were sent, and how many of them Bora forwarded; and the conversations."""
    lan.router.batch([line.format("add") for line in case.routes])
    try:
        return _play(lan, case)
    finally:
        lan.router.batch([line.format("del") for line in reversed(case.routes)])


def load(lan, case):
    """Takes a ruleset in place of the one before."""
    flows.clean(lan)
    for command, text in case.commands():
        lan.router.exec(*command, input=text)
    ready(lan, case)


def ready(lan, case):
    """Waits until Bora knows the ruleset."""
    if lan.bora:
        lan.bora.wait_in_sync(FOLLOW_SECONDS)
        if case.held:
            lan.wait("the rules are known", lambda: lan.bora.guard())
        elif case.own:
            offered(lan)
            lan.wait("flows are forwarded", lambda: lan.bora.show("sync")["flows"]["forwards"] is True)
        else:
            lan.wait("the rules are trusted", lambda: not lan.bora.guard())


def _play(lan, case):
    load(lan, case)
    before = by_bora(lan)
    talks = conversations(case, ("tcp", "tcp", "udp", "udp", "ping"))
    out = begin(lan, talks)
    sent = len(out) * len(talks)
    for by_client in (True, False):
        frames = [talk.frame(by_client) for talk in talks if talk.kind != "ping" for _ in range(BULK)]
        out.append(lan.exchange(frames, len(frames)))
        sent += len(frames)
    forwarded = by_bora(lan) - before
    out.append(lan.exchange([frame for talk in talks if talk.kind != "ping" for frame in talk.strange()]))
    return out, sent, forwarded, talks


def forbidden(lan, talks):
    """A rule that forbids established flows ends them; returns after how many seconds. A drop at the first packet is none of Bora's."""
    lan.router.exec("nft", "-f", "-", input="table inet forbid { chain c { type filter hook forward priority -5; meta l4proto udp drop; }; }")
    begun = time.monotonic()
    frames = [talk.frame(by_client) for talk in talks if talk.kind == "udp" for by_client in (True, False)]

    def passed():
        """UDP; the router itself may reject a server's packet, once Linux has no connection for it any more."""
        return [(link, frame) for link, frame in lan.exchange(frames)
                if frame[23 if frame[12:14] == b"\x08\0" else 20] == 17]

    while got := passed():
        assert time.monotonic() - begun < FOLLOW_SECONDS, f"a forbidden flow goes on: {differences([], got)}; {lan.state()}"
    took = time.monotonic() - begun
    for _ in range(3):
        assert not passed(), f"a forbidden flow passes again; {lan.state()}"
    return took


def killed(lan):
    """Bora's table ends with Bora."""
    assert re.search("table [a-z0-9]+ bora", lan.router.exec("nft", "list", "ruleset").stdout)
    lan.kill()
    assert " bora " not in lan.router.exec("nft", "list", "ruleset").stdout


def offered(lan):
    """Waits until Bora has made its table."""
    lan.wait("a table of its own", lambda: "Bora offers them" in "".join(lan.bora.show("sync")["flows"]["lines"]))


def by_bora(lan):
    """How many packets Bora has forwarded."""
    return lan.bora.totals()["sent"] if lan.bora else 0


def compare(linux, bora):
    """All frames are the same; returns Bora's share."""
    (wanted, sent, _, _), (got, _, forwarded, _) = linux, bora
    assert sum(map(len, wanted[:-1])) >= sent * 0.9, f"Linux alone lets {[len(step) for step in wanted]} pass"
    for step, (one, other) in enumerate(zip(wanted, got)):
        assert one == other, f"step {step}: {differences(one, other)}"
    return forwarded / sent


def body(how, say):
    """All rulesets, or a few. Those of legacy iptables have a router of their own, because its tables stay."""
    failed = []
    for kind in {(case.bridge, case.legacy): None for case in CASES}:
        cases = [case for case in CASES if (case.bridge, case.legacy) == kind and (case.short or how != "short")]
        cases = [case for case in cases if not case.bridge or machine.kernel_release() >= VETH_TAGS]
        if not cases:
            continue
        lan = Lan(cases[0].bridge)
        tiers = TIERS[:1] if lan.has_bridge or how == "short" else TIERS  # bridges are express's
        try:
            wanted = [play(lan, case) for case in cases]
            for tier in tiers:
                failed += judged(lan, tier, zip(cases, wanted), say)
        finally:
            lan.close()
    assert not failed, failed


def judged(lan, tier, cases, say):
    """Takes a tier through the cases and what Linux alone did; returns those that failed."""
    flows.clean(lan)
    lan.start(tier)
    failed = []
    for case, linux in cases:
        name = f"{tier}: {case.file}{' with a bridge' if case.bridge else ''}{' by legacy iptables' if case.legacy else ''}"
        try:
            bora = play(lan, case)
            share = compare(linux, bora)
            say(f"{name}: as with Linux; {share:.0%} of the packets by Bora")
            assert share >= case.share, f"less than {case.share:.0%}"
        except AssertionError as error:
            failed.append(name)
            say(f"{name}: FAILED: {error}; {lan.bora.show('sync')['flows']}; {lan.bora.show('drops')}")
    if not case.own or case.held:
        lan.kill()
        return failed
    say(f"{tier}: a rule that forbids flows counts after {forbidden(lan, bora[3]):.1f} s")
    lan.router.exec("nft", "delete", "table", "inet", "forbid")
    offered(lan)
    killed(lan)
    return failed
