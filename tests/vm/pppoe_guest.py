"""Runs in a guest: PPPoE sessions of pppd over Bora's ports, on a port and on a VLAN device. With Bora the same frames come as with Linux alone.

    h0 ==== r0 [router] r1 ==== h1      10.0.1.0/24, plain IP

The router is the subscriber of a server at h0: pppoe-server, and pppd with the kernel's PPPoE. Frames inside the session are the test's own.
Behind the server are 198.18.0.0/16 and 2001:db8:f0::/48, behind h1 198.19.0.0/16 and 2001:db8:f1::/48.
"""

import functools
import struct
import subprocess
import time
from pathlib import Path

from lib import packets
from lib.vlans import untag
from vm import topic_guest, vlan
from vm.flows import forget
from vm.topic_guest import HOST, ROUTER, addressing, differences, tagged

TIERS = ("express", "engine")
SERVER, CLIENTS = "10.64.0.1", "10.64.1."  # address of the server's end, and how those of ours begin: each session has another
OPTIONS = Path("/tmp/pppoe-options")
VLAN = 7
SESSION, DATA = 0x8864, 0x1100
PPP = {4: 0x0021, 6: 0x0057}
COUNT = 8  # packets of each kind
FLOWTABLE = """table inet t {
    flowtable f { hook ingress priority 0; devices = { r0, r1 }; }
    chain forward { type filter hook forward priority 0; meta l4proto { tcp, udp } flow add @f; }
    chain nat { type nat hook postrouting priority 100; oifname "ppp*" masquerade; }
}"""


class Lan(topic_guest.Lan):
    """Router and hosts. `vlan`: that of the session; 0: none."""

    def __init__(self, vlan=0):
        super().__init__(2)
        self.vlan, self.tag, self.programs = vlan, f".{vlan}" if vlan else "", []
        self.number, self.address = None, None  # known when there is a session
        try:
            for link in range(2):
                self.connect(link)
            for space, name in ((self.router, "r0"), (self.hosts[0], "h0")) if vlan else ():
                space.ip("link", "add", "link", name, "name", f"{name}.{vlan}", "type", "vlan", "id", str(vlan))
                space.ip("link", "set", f"{name}.{vlan}", "up")
            self.router.batch(addressing("r1", 1, HOST.format(1)))
            self.dial()
            self.open_ports()
        except BaseException:
            self.close()
            raise

    def dial(self):
        """Starts the server, and dials."""
        OPTIONS.write_text("noauth\nnodefaultroute\n+ipv6\nlcp-echo-interval 5\nlcp-echo-failure 6\n")
        self._popen(self.hosts[0], "pppoe-server", "-F", "-I", f"h0{self.tag}", "-L", SERVER, "-R", f"{CLIENTS}1", "-N", "4", "-O", str(OPTIONS), "-X", "/run/pppoe.pid")
        self.subscribe()

    def subscribe(self):
        """Returns when a session is up, and routes lead into it."""
        self._popen(self.router, "pppd", "plugin", "rp-pppoe.so", f"r0{self.tag}", "noauth", "nodetach", "nodefaultroute", "+ipv6", "maxfail", "0")
        self.wait("a session", self.is_up)
        self.number, self.address = self.read_number(), self.read_address()
        self.router.batch(["route replace 198.18.0.0/16 dev ppp0", "route replace 2001:db8:f0::/48 dev ppp0"])

    def redial(self):
        """Ends the session, and has another one."""
        self.programs.pop().terminate()
        self.wait("the end of the session", lambda: not self.is_up())
        self.subscribe()

    def is_up(self):
        """Whether IPv4 and IPv6 pass at both ends."""
        texts = [space.ip("address", "show", "up").stdout for space in (self.router, self.hosts[0])]
        ppp = [text[text.find(": ppp"):] if ": ppp" in text else "" for text in texts]
        return CLIENTS in ppp[0] and SERVER in ppp[1] and all("fe80" in text for text in ppp)

    def _popen(self, space, *command):
        self.programs.append(space.popen(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def read_number(self):
        """The number of the session now. /proc/net/pppoe shows it in network order."""
        line = self.router.exec("cat", "/proc/net/pppoe").stdout.splitlines()[1]
        (number,) = struct.unpack(">H", struct.pack("=H", int(line.split()[0], 16)))
        return number

    def read_address(self):
        """The router's address in the session."""
        words = self.router.ip("-4", "-o", "address", "show", "dev", "ppp0").stdout.split()
        return words[words.index("inet") + 1].split("/")[0]

    def inside(self, packet, **wrong):
        """(link, frame) of a packet in the session; `wrong`: what is not as it should be."""
        family = packets.version(packet)
        header = struct.pack("!HHHHH", SESSION, wrong.get("data", DATA), wrong.get("number", self.number), wrong.get("length", len(packet) + 2),
                             wrong.get("ppp", PPP[family]))
        addresses = packets.mac(ROUTER.format(0)) + packets.mac(wrong.get("source", HOST.format(0)))
        return 0, tagged(addresses + header + packet + wrong.get("behind", b""), self.vlan)

    @staticmethod
    def is_traffic(frame):
        """IP, plain or in a session; no LCP, no ARP."""
        plain = untag(frame)[1]
        if int.from_bytes(plain[12:14], "big") == SESSION:
            return int.from_bytes(plain[20:22], "big") in PPP.values()
        return topic_guest.is_traffic(frame)

    @staticmethod
    def normalized(frame):
        """Without padding, the identification of what the router says, and the session's number."""
        tags, plain = untag(frame)
        if int.from_bytes(plain[12:14], "big") != SESSION:
            return vlan.normalized(frame)
        kind = 0x0800 if plain[20:22] == b"\0\x21" else 0x86DD
        packet = vlan.normalized(plain[:12] + kind.to_bytes(2, "big") + plain[22:])[14:]
        if kind == 0x0800 and packet[9] == 1 and packet[12:13] == b"\x0a":
            packet = packet[:4] + b"\0\0" + packet[6:10] + b"\0\0" + packet[12:]
        return repr(tags).encode() + plain[:16] + plain[18:22] + packet

    def close(self):
        for one in self.programs:
            one.terminate()
            one.wait(20)
        super().close()


def hosts(family, flow):
    """Addresses behind the server and behind h1."""
    return (f"198.18.1.{flow + 1}", f"198.19.1.{flow + 1}") if family == 4 else (f"2001:db8:f0::{flow + 1:x}", f"2001:db8:f1::{flow + 1:x}")


@functools.cache
def udp(family, up, flow, **header):
    """A packet out of the session, or into it; the same one each time."""
    one, other = hosts(family, flow)
    make = packets.udp4 if family == 4 else packets.udp6
    return make(*((one, other) if up else (other, one)), **header)


def plain(packet):
    """(link, frame) of a packet from h1."""
    return 1, packets.ethernet(ROUTER.format(1), HOST.format(1), packet)


def transit(lan):
    """What Bora forwards: both families, both directions, several lengths."""
    made = []
    for family in (4, 6):
        for flow in range(COUNT):
            size = (0, 26, 1000, 1492 - (28 if family == 4 else 48))[flow % 4]
            made.append(lan.inside(udp(family, True, flow, size=size)))
            made.append(plain(udp(family, False, flow, size=size)))
    return made


def odd(lan):
    """What is not plain, in and out of the session."""
    packet, long = udp(4, True, 0), udp(4, False, 0, size=1500 - 28)
    hop = {4: "ttl", 6: "hlim"}
    made = [lan.inside(packet, number=lan.number ^ 0x155), lan.inside(packet, source="02:bc:00:00:00:77"), lan.inside(packet, data=0x1101),
            lan.inside(packet, data=0x1200), lan.inside(packet, length=len(packet) - 4), lan.inside(packet, length=len(packet) + 40), lan.inside(packet, length=2),
            lan.inside(packet, length=len(packet) + 2, behind=b"\x55" * 20), lan.inside(packet, length=len(packet) + 22, behind=b"\x55" * 20),
            lan.inside(packet, ppp=0x2145), lan.inside(packet, ppp=PPP[6]), plain(long), plain(udp(6, False, 0, size=1500 - 48))]
    for family in (4, 6):
        made.append(lan.inside(udp(family, True, 1, **{hop[family]: 1})))
        made.append(plain(udp(family, False, 1, **{hop[family]: 1})))
    return made


STEPS = {
    "a session": [],
    "a narrow one": ["ip link set ppp0 mtu 1300"],
    "a wide one again": ["ip link set ppp0 mtu 1492"],
    "a filter at the session": ["tc qdisc add dev ppp0 clsact", "tc filter add dev ppp0 ingress matchall action drop"],
    "no filter": ["tc qdisc del dev ppp0 clsact"],
    "no forwarding from the session": ["sysctl -qw net.ipv4.conf.ppp0.forwarding=0"],
    "forwarding again": ["sysctl -qw net.ipv4.conf.ppp0.forwarding=1"],
}
FULL = ("a session", "a wide one again", "no filter", "forwarding again")  # in these Bora forwards all of transit()


def by_bora(lan):
    return lan.bora.totals()["sent"]


def run_steps(lan, judge):
    """Takes the lan through the steps; `judge` gets each step's name and what came of what is plain and what is odd."""
    for name, commands in STEPS.items():
        for command in commands:
            lan.router.exec(*command.split())
        if lan.bora:
            lan.bora.wait_in_sync(60)
            time.sleep(2)  # Linux tells of no change of a session, which is looked at each second
        before = by_bora(lan) if lan.bora else 0
        frames = transit(lan)
        judge(name, lan.exchange(frames, len(frames)), by_bora(lan) - before if lan.bora else 0)
        judge(f"{name}, odd packets", lan.exchange(odd(lan)), 0)


def check(lan, tier, wanted, say):
    """With Bora frames are as without it, and Bora has sent those that it should."""
    lan.start(tier)
    failed = []

    def judge(name, got, sent):
        least = 4 * COUNT if tier == "express" and name in FULL else 0
        if got != wanted[name]:
            failed.append(name)
            say(f"FAILED {tier}, {name}: {differences(wanted[name], got)}; {lan.state()}")
        elif sent < least:
            failed.append(name)
            say(f"FAILED {tier}, {name}: {sent} of {least} sent by Bora; {lan.state()}; {lan.bora.show('pppoe')}")
        else:
            say(f"{tier}, {name}: {len(got)} frames as with Linux, {sent} sent by Bora")

    run_steps(lan, judge)
    lan.redial()
    lan.bora.wait_in_sync(60)
    time.sleep(2)
    before = by_bora(lan)
    frames = transit(lan)
    judge("a session", lan.exchange(frames, len(frames)), by_bora(lan) - before)
    assert lan.bora.check_conservation(10)
    lan.kill()
    frames = transit(lan)
    assert lan.exchange(frames, len(frames)) == wanted["a session"] and lan.number == lan.read_number(), "after Bora's end"
    return failed


@functools.cache
def conversation(flow, address):
    """Packets of a UDP connection from h1 to the Internet behind the session, with NAT: out, back."""
    server, client = hosts(4, flow)
    return packets.udp4(client, server, sport=7000 + flow, dport=53), packets.udp4(server, address, sport=53, dport=7000 + flow)


def converse(lan, flow):
    """Their frames."""
    out, back = conversation(flow, lan.address)
    return plain(out), lan.inside(back)


def flows(lan):
    """What comes of connections in a flowtable, first words and more; how many of these Bora has sent."""
    got = []
    for _ in range(3):
        for side in (0, 1):
            frames = [converse(lan, flow)[side] for flow in range(COUNT)]
            got.append(lan.exchange(frames, len(frames)))
    before = by_bora(lan) if lan.bora else 0
    for side in (0, 1):
        frames = [converse(lan, flow)[side] for flow in range(COUNT) for _ in range(4)]
        got.append(lan.exchange(frames, len(frames)))
    return got, by_bora(lan) - before if lan.bora else 0


def check_flows(lan, tier, wanted, say):
    """NAT by a flowtable, both directions."""
    forget(lan)
    lan.start(tier)
    lan.wait("flows are forwarded", lambda: tier != "express" or lan.bora.show("sync")["flows"]["forwards"] is True)
    got, sent = flows(lan)
    lan.kill()
    most = 8 * COUNT
    if got != wanted:
        worst = next(number for number, (one, other) in enumerate(zip(wanted, got)) if one != other)
        say(f"FAILED {tier}, flows, part {worst}: {differences(wanted[worst], got[worst])}")
        return ["flows"]
    if tier == "express" and sent < most:
        say(f"FAILED {tier}, flows: {sent} of {most} sent by Bora")
        return ["flows"]
    say(f"{tier}, flows with NAT: frames as with Linux, {sent} of {most} sent by Bora")
    return []


def body(how, say):
    """Linux alone first, then each tier, in a session on a port and in one on a VLAN device."""
    for module in ("ppp_generic", "pppoe", "nf_flow_table", "nf_flow_table_inet", "nft_flow_offload"):
        subprocess.run(["modprobe", module], check=True)
    failed = []
    for vlan_id in (VLAN,) if how == "short" else (0, VLAN):
        lan = Lan(vlan_id)
        try:
            wanted = {}
            run_steps(lan, lambda name, got, _, wanted=wanted: wanted.update({name: got}))
            assert len(wanted["a session"]) == 4 * COUNT, f"Linux alone: {len(wanted['a session'])} frames came"
            say(f"Linux alone, VLAN {vlan_id}: " + ", ".join(f"{name}: {len(got)}" for name, got in wanted.items()))
            for tier in TIERS[:1] if how == "short" else TIERS:
                failed += check(lan, tier, wanted, say)
            lan.router.exec("nft", "-f", "-", input=FLOWTABLE)
            wanted = flows(lan)[0]
            say(f"Linux alone, flows: {[len(part) for part in wanted]} frames came")
            for tier in TIERS[:1] if how == "short" else TIERS:
                failed += check_flows(lan, tier, wanted, say)
        finally:
            lan.close()
    assert not failed, f"failed: {', '.join(failed)}"
