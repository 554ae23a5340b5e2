"""Flows through a stateful firewall with a flowtable, packet by packet. `cases()` is the list."""

import dataclasses
import re

from scapy.layers.inet import IP, TCP, UDP, IPOption, fragment
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from lib import packets
from vm import machine

RULES = """
table inet flows {{
    flowtable ft {{ hook ingress priority {priority}; devices = {{ {devices} }}; {flags} }}
    chain forward {{
        type filter hook forward priority 0; policy {policy};
        ct state established flow add @ft
        {rules}
    }}
    {nat}
}}
"""
MASQUERADE = 'chain nat { type nat hook postrouting priority 100; oifname "r1" masquerade; }'
ACCOUNTING = "sysctl -w net.netfilter.nf_conntrack_acct={}"
PUBLIC_PORT, PRIVATE_PORT = 8080, 80
DATA = 100  # octets


def rules(nat="", **more):
    """The ruleset of a test."""
    settings = {"priority": 0, "devices": "r0, r1", "flags": "", "policy": "accept", "rules": "", **more}
    return RULES.format(nat=nat, **settings)


@dataclasses.dataclass
class Case:
    """Packets, each sent when the one before has come out. `by_flow`: how many of them the flow path has to forward;
    None where kernels differ in whether they make a flow at all."""

    name: str
    rules: str
    steps: list  # pairs (link, IP packet)
    by_flow: int | None
    short: bool = False
    closing: bool = False  # conntrack's entry is compared, too, once the flowtable has been cleaned
    before: str = ""  # a command to run in the router first
    after: str = ""  # and one that undoes it


@dataclasses.dataclass
class Ends:
    """A flow as its client and its server see it; NAT is between. `client_link`: where the client is."""

    family: int
    client: str  # own address
    server: str  # as the client knows it
    server_own: str
    client_seen: str  # as the server knows it
    port: int  # the server's, as the client knows it
    port_own: int
    client_port: int
    client_link: int = 0

    def ip(self, to_server, **header):
        source, target = (self.client, self.server) if to_server else (self.server_own, self.client_seen)
        return (IP if self.family == 4 else IPv6)(src=source, dst=target, **header)

    def ports(self, to_server):
        return {"sport": self.client_port, "dport": self.port} if to_server else {"sport": self.port_own, "dport": self.client_port}

    def link(self, to_server):
        return self.client_link if to_server else 1 - self.client_link

    def udp(self, to_server, size=DATA, zero=False, **header):
        """(link, packet)"""
        body = UDP(**self.ports(to_server), **({"chksum": 0} if zero else {})) / Raw(packets.payload(size))
        return self.link(to_server), bytes(self.ip(to_server, **header) / body)

    def tcp(self, to_server, flags, sequence, size=0, **header):
        """(link, packet). `sequence`: (own, the other side's)."""
        body = TCP(**self.ports(to_server), flags=flags, seq=sequence[0], ack=sequence[1], window=64000) / Raw(packets.payload(size))
        return self.link(to_server), bytes(self.ip(to_server, **header) / body)

    def connect(self):
        """A handshake and some data in both directions, of which the data goes by the flow; and the sequence numbers."""
        client, server = 1000, 9000
        steps = [self.tcp(True, "S", (client, 0)), self.tcp(False, "SA", (server, client + 1)),
                 self.tcp(True, "A", (client + 1, server + 1))]
        client, server = client + 1, server + 1
        for _ in range(3):
            steps.append(self.tcp(True, "PA", (client, server), DATA))
            client += DATA
            steps.append(self.tcp(False, "PA", (server, client), DATA))
            server += DATA
        return steps, client, server


def plain(net, family, port):
    """No NAT."""
    client, server = ((net.behind4(0), net.behind4(1)) if family == 4 else (net.behind6(0), net.behind6(1)))
    return Ends(family, client, server, server, client, 53, 53, port)


def masqueraded(net, family, port):
    client, server, router = ((net.behind4(0), net.behind4(1), net.router4(1)) if family == 4
                              else (net.behind6(0), net.behind6(1), net.router6(1)))
    return Ends(family, client, server, server, router, 53, 53, port)


def dnat(net, family, port):
    """The client is outside, and knows the router's address only."""
    client, server, router = ((net.behind4(1), net.behind4(0), net.router4(1)) if family == 4
                              else (net.behind6(1), net.behind6(0), net.router6(1)))
    return Ends(family, client, router, server, client, PUBLIC_PORT, PRIVATE_PORT, port, 1)


def to_server(net):
    """The rule for `dnat`."""
    four, six = (f"meta nfproto ipv{family} iifname r1 meta l4proto {{ tcp, udp }} th dport {PUBLIC_PORT} "
                 f"dnat {'ip' if family == 4 else 'ip6'} to {address}:{PRIVATE_PORT};"
                 for family, address in ((4, net.server4), (6, f"[{net.server6}]")))
    return f"chain nat {{ type nat hook prerouting priority -100; {four} {six} }}"


class Servers:
    """The servers of `dnat`, behind host 0."""

    def __init__(self, net):
        self.server4, self.server6 = net.behind4(0), net.behind6(0)


def cases(net):
    """All cases. The packets are the same for Linux and for Bora, so this is called once for a network."""
    made, port = [], 20000
    for name, ends_of, nat in (("plain", plain, ""), ("masquerade", masqueraded, MASQUERADE), ("DNAT", dnat, None)):
        for family in (4, 6):
            for protocol in ("UDP", "TCP, FIN", "TCP, RST"):
                ends, port = ends_of(net, family, port), port + 1
                ruleset = rules(nat if nat is not None else to_server(_with(net, ends)))
                steps, by_flow = (udp(ends), 6) if protocol == "UDP" else tcp(ends, protocol)
                short = protocol != "TCP, RST" and (name != "plain" or family == 6)
                made.append(Case(f"{name}, IPv{family} {protocol}", ruleset, steps, by_flow, short, protocol != "UDP"))
    return made + [*exceptions(net, port)]


def _with(net, ends):
    servers = Servers(net)
    if ends.family == 4:
        servers.server4 = ends.server_own
    else:
        servers.server6 = ends.server_own
    return servers


def udp(ends):
    """The first two packets pass the chains, the reply makes the flow."""
    return [ends.udp(True), ends.udp(False)] + [ends.udp(way, size) for size in (0, 1, DATA) for way in (True, False)]


def burst(net):
    """Packets that begin three flows, then packets of all three in turn, and how many of these a flow takes: some are not plain."""
    flows = [masqueraded(net, family, 29000 + number) for number, family in enumerate((4, 4, 6))]
    begin = [ends.udp(way) for ends in flows for way in (True, False)]
    odd = {(4, 5): {"ttl": 1}, (6, 5): {"hlim": 1}, (4, 9): {"options": [IPOption(b"\x01" * 4)]}}
    chosen = [(ends, size, odd.get((ends.family, size), {})) for size in range(16) for ends in flows]
    return begin, [ends.udp(True, size, **header) for ends, size, header in chosen], sum(not header for *_, header in chosen)


def tcp(ends, protocol):
    steps, client, server = ends.connect()
    by_flow = len(steps) - 3
    if protocol.endswith("RST"):
        return steps + [ends.tcp(True, "RA", (client, server))], by_flow
    closing = [ends.tcp(True, "FA", (client, server)), ends.tcp(False, "FA", (server, client + 1)),
               ends.tcp(True, "A", (client + 1, server + 1))]
    return steps + closing, by_flow


def exceptions(net, port):
    """What is of a flow, but not plain."""
    def begun(family=4, ends_of=masqueraded):
        nonlocal port
        port += 1
        ends = ends_of(net, family, port)
        return ends, [ends.udp(True), ends.udp(False)]

    ends, steps = begun()
    yield Case("UDP without a checksum", rules(MASQUERADE), steps + [ends.udp(way, zero=True) for way in (True, False)], 2, True)
    for family in (4, 6):
        ends, steps = begun(family)
        header = "ttl" if family == 4 else "hlim"
        yield Case(f"IPv{family}: hop limits", rules(MASQUERADE), steps + [ends.udp(True, **{header: 1}), ends.udp(True, **{header: 2})],
                   1, True)
        ends, steps = begun(family)
        most = 1500 - (28 if family == 4 else 48)
        yield Case(f"IPv{family}: as long as the MTU", rules(MASQUERADE), steps + [ends.udp(way, most) for way in (True, False)], 2)
    ends, steps = begun()
    yield Case("IP options", rules(MASQUERADE), steps + [ends.udp(True, options=[IPOption(b"\x01" * 4)])], 0)
    ends, steps = begun()
    link, whole = ends.udp(True, 600)
    parts = [(link, bytes(part)) for part in fragment(IP(whole), 320)]
    yield Case("fragments", rules(MASQUERADE), steps + parts, 0)
    ends, steps = begun()
    counting = rules(MASQUERADE, flags="counter;")
    yield Case("a flowtable with a counter, but conntrack counts nothing", counting, steps + udp(ends), 8, True)
    ends, steps = begun()
    yield Case("a flowtable that counts for conntrack", counting, steps + udp(ends), 0, before=ACCOUNTING.format(1), after=ACCOUNTING.format(0))
    ends, steps = begun()
    yield Case("a chain at an input before the flowtable", rules(MASQUERADE) + ingress(-10), steps + udp(ends), 4, True)
    ends, steps = begun()
    yield Case("a chain at an input behind the flowtable", rules(MASQUERADE) + ingress(10), steps + udp(ends), 8)
    for name, before, after, by_flow in HOLDS:
        ends, steps = begun()
        yield Case(name, rules(MASQUERADE), steps + udp(ends), by_flow, before=before, after=after)
    ends, steps = begun()
    yield Case("a route by an IP rule", rules(MASQUERADE), steps + udp(ends), 8, True, **by_rule(net, ends))
    ends, steps = begun()
    yield Case("a chain at an output", rules(MASQUERADE) + ingress(0).replace("ingress", "egress"), steps + udp(ends), 4)
    ends, steps = begun()
    yield Case("an input that is not in the flowtable", rules(MASQUERADE, devices="r1"), steps + udp(ends), None)
    ends, steps = begun()
    yield Case("no flow add", rules(MASQUERADE).replace("flow add @ft", "accept"), steps + udp(ends), 0)


def by_rule(net, ends):
    """What comes from the client goes to another gateway, by a table of its own."""
    gateway = net.host4(1).rsplit(".", 1)[0] + ".77"
    before = (f"ip neigh replace {gateway} lladdr 02:bc:00:00:00:77 dev r1; ip route add default via {gateway} dev r1 table 77; "
              f"ip rule add from {ends.client} lookup 77 priority 77")
    return {"before": before, "after": f"ip rule del priority 77; ip route flush table 77; ip neigh del {gateway} dev r1"}


# What a flowtable does not pass over: name, how it comes and goes, and how many of eight packets go by the flow.
HOLDS = (
    ("a tc filter at an input", "tc qdisc add dev r0 ingress; tc filter add dev r0 ingress matchall action ok", "tc qdisc del dev r0 ingress", 4),
    ("an IPsec policy", "ip xfrm policy add src 192.0.2.1 dst 192.0.2.2 dir fwd action block", "ip xfrm policy flush", 0),
)

# The rulesets of docs/firewall.md: their devices, as the test has them. None: traffic of it is not tried.
EXAMPLES = {
    "home": {"lan0": "r0", "wan0": "r1"},
    "office": {"staff0": "r0", "wan0": "r1"},
    "docker": {"eth0": "r0", "eth1": "r1"},
    "cgnat": None,
}


def examples(net):
    """Each ruleset with a flow through it."""
    for number, (name, devices) in enumerate(EXAMPLES.items()):
        text = (machine.ROOT / f"docs/examples/nftables/{name}.nft").read_text()
        for example, device in (devices or {}).items():
            text = re.sub(rf"\b{example}\b", device, text)
        ends = (plain if name == "docker" else masqueraded)(net, 4, 28000 + number)
        yield Case(f"the example {name}.nft", text, udp(ends) if devices else [], 6 if devices else 0, name == "home")


INGRESS = """
table netdev flows {{
    chain i {{
        type filter hook ingress device "r0" priority {priority};
        counter
    }}
}}
"""


def ingress(priority):
    """A chain that sees what comes in by r0."""
    return INGRESS.format(priority=priority)
