"""Runs in a guest: bonds of veths. Bora sends each packet by the port that Linux alone sends it by, and the same frames.

    h0 ==== r0 [router] r1 ==== h1        10.0.0.0/24 on r0, 10.0.1.0/24 on bond0, 10.0.100.0/24 on its VLAN 100,
                        r2 ==== h2        the same with 2001:db8:N::/64; r1 and r2 are ports of bond0
"""

import tempfile

from scapy.layers.inet import ICMP, IP, TCP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6

from lib import packets
from lib.bora import Bora
from vm import topic_guest
from vm.topic_guest import HOST, ROUTER, addressing, differences, tagged

LINKS = 3
PORTS = (1, 2)  # links of the bond
BOND_MAC, FAR = ROUTER.format(1), HOST.format(9)  # addresses of bond0, and of the host behind it
VLAN = 100
MODES = [("balance-xor", hash_) for hash_ in ("layer2", "layer2+3", "layer3+4")] + [("active-backup", "layer2"), ("802.3ad", "layer3+4")]
SHORT_MODES = [("balance-xor", "layer3+4")]


class Lan(topic_guest.Lan):
    """Router, hosts and the bond."""

    def __init__(self, mode, policy):
        self.mode = mode
        super().__init__(LINKS)
        try:
            if mode == "802.3ad":  # it needs a partner, which is one system with both links
                self.hosts[2] = self.hosts[1]
            for link in range(LINKS):
                self.connect(link, link not in PORTS)
            self._bond(policy, self.hosts[1])
            self.open_ports()
            self.wait_for_bond()
        except BaseException:
            self.close()
            raise

    def _bond(self, policy, partner):
        options = f"type bond mode {self.mode} miimon 50 " + (f"xmit_hash_policy {policy}" if self.mode != "active-backup" else "")
        fast = " lacp_rate fast" if self.mode == "802.3ad" else ""
        self.router.batch([
            f"link add bond0 address {BOND_MAC} {options}{fast}",
            *(f"link set r{link} master bond0" for link in PORTS), "link set r0 up", "link set bond0 up",
            f"link add link bond0 name bond0.{VLAN} type vlan id {VLAN}", f"link set bond0.{VLAN} up",
            *addressing("r0", 0, HOST.format(0)), *addressing("bond0", 1, FAR),
            *addressing(f"bond0.{VLAN}", VLAN, FAR),
        ])
        if self.mode != "802.3ad":
            self.hosts[1].ip("link", "set", "h1", "up")
            self.hosts[2].ip("link", "set", "h2", "up")
        else:
            partner.batch([f"link add bond0 {options}{fast}", *(f"link set h{link} master bond0" for link in PORTS),
                           "link set bond0 up arp off"])

    def wait_for_bond(self):
        """Until all ports that should send do."""
        wanted = 1 if self.mode == "active-backup" else 2
        self.wait("the bond's ports", lambda: self.active() == wanted, 60)

    def active(self):
        """How many ports of the bond are active."""
        text = self.router.ip("-d", "link", "show", "master", "bond0").stdout
        return text.count("bond_slave state ACTIVE mii_status UP")

    def state(self):
        """For messages."""
        text = self.router.ip("-d", "link", "show", "type", "bond_slave", check=False).stdout
        return (self.bora.show("bonds"), self.bora.output()[-800:]) if self.bora else text

    def start(self, path):
        """Starts Bora; it knows the bond when this returns."""
        super().start(path)
        sending = 1 if self.mode == "active-backup" else 2
        self.wait("Bora knows the bond", lambda: any(len(bond["sending"]) == sending for bond in self.bora.show("bonds")["bonds"]))
        self.bora.wait_in_sync(topic_guest.FOLLOW_SECONDS)


def flows(number, source):
    """Packets of many flows from a network to another: (what, packet)."""
    made = []
    for at in range(24):
        src4, dst4 = f"198.{18 + source}.1.{at + 1}", f"198.{18 + number}.{at}.{7 * at + 3}"
        src6, dst6 = f"2001:db8:f{source}::{at + 1:x}", f"2001:db8:f{number}:{at:x}::{5 * at + 1:x}"
        ports = {"sport": 1024 + 37 * at, "dport": 53 + at % 3}
        made += [packets.udp4(src4, dst4, **ports), packets.udp6(src6, dst6, **ports),
                 bytes(IP(src=src4, dst=dst4) / TCP(**ports) / packets.payload())]
        if at % 4 == 0:
            made += [bytes(IP(src=src4, dst=dst4) / ICMP(id=at * 257) / packets.payload()),
                     bytes(IPv6(src=src6, dst=dst6) / ICMPv6EchoRequest(id=at * 259, data=packets.payload())),
                     bytes(IP(src=src4, dst=dst4, proto=17, frag=100, id=at) / packets.payload()),
                     bytes(IP(src=src4, dst=dst4, proto=50) / packets.payload())]
    return made


def traffic():
    """What is sent in each mode: to the bond, to its VLAN, from both by each port."""
    sends = []
    for number in (1, VLAN):
        sends += [(0, packets.ethernet(ROUTER.format(0), HOST.format(0), packet)) for packet in flows(number, 0)]
    for link in PORTS:
        for number, vlan in ((1, 0), (VLAN, VLAN)):
            for packet in (packets.udp4(f"198.{18 + number}.0.{link}", "198.18.0.9"), packets.udp6(f"2001:db8:f{number}::{link}", "2001:db8:f0::9")):
                sends.append((link, tagged(packets.ethernet(BOND_MAC, FAR, packet), vlan)))
    return sends


def one_mode(mode, policy, tiers, say):
    """Linux alone, then Bora in each tier, with all ports and with one that has failed."""
    lan = Lan(mode, policy)
    try:
        sends = traffic()
        wanted = lan.exchange(sends, len(sends))
        spread = {link: sum(1 for one, _ in wanted if one == link) for link in range(LINKS)}
        say(f"{mode} {policy}: Linux alone: {len(sends)} sent, came by link {spread}")
        assert len(wanted) >= len(sends) - 8 and (mode == "active-backup" or min(spread.values()) > 4), spread
        for path in tiers:
            lan.start(path)
            # a packet that the program hands to Linux while it starts may come by Linux
            got = lan.exchange(sends, len(sends))
            assert got == wanted, f"{mode} {policy} {path}: {differences(wanted, got)}; {lan.state()}"
            counted(lan, mode, sends, path)
            failed_port(lan, mode, sends, path)
            lan.kill()
            say(f"{mode} {policy} {path}: {len(got)} frames as with Linux")
    finally:
        lan.close()


def counted(lan, mode, sends, path):
    """Bora, not Linux, has forwarded: all that came by ports that receive."""
    inactive = 4 if mode == "active-backup" else 0  # what comes by the port that does not receive is Linux's
    totals = lan.bora.check_conservation(10)
    assert totals["sent"] >= len(sends) - inactive, f"{path}: {totals}; {lan.bora.show('drops')}"
    [bond] = lan.bora.show("bonds")["bonds"]
    [vlan] = lan.bora.show("vlans")["devices"]
    assert vlan["port"] == "bond0" and vlan["tx_packets"] > 50 and vlan["rx_packets"] >= 2, vlan
    assert bond["tx_packets"] > 50 and bond["rx_packets"] >= 2, bond


def failed_port(lan, mode, sends, path):
    """All leaves by the other port when one has no carrier, and comes back."""
    lan.hosts[1].ip("link", "set", "h1", "down")
    lan.wait("the port has failed", lambda: lan.bora.show("bonds")["bonds"][0]["sending"] == ["r2"])
    sends = [(link, frame) for link, frame in sends if link == 0]
    got = lan.exchange(sends, len(sends))
    assert len(got) == len(sends) and {link for link, _ in got} == {2}, f"{mode} {path}: {len(got)} of {len(sends)}, {lan.state()}"
    lan.hosts[1].ip("link", "set", "h1", "up")
    ports = 1 if mode == "active-backup" else 2
    lan.wait("the port is back", lambda: len(lan.bora.show("bonds")["bonds"][0]["sending"]) == ports, 60)
    if mode == "active-backup":  # the other one stays active
        lan.router.ip("link", "set", "bond0", "type", "bond", "active_slave", "r1")
        lan.wait("the first port is active again", lambda: lan.bora.show("bonds")["bonds"][0]["sending"] == ["r1"])


def left_to_linux(say):
    """A bond that Bora cannot follow is Linux's, with the reason; one that changes its mode becomes Bora's."""
    lan = Lan("balance-rr", "layer2")
    try:
        topic_guest.Lan.start(lan, "express")
        frames = [(link, frame) for link, frame in traffic() if link != 0][:4] + [one for one in traffic() if one[0] == 0][:20]
        got = lan.exchange(frames, len(frames))
        assert len(got) == len(frames), f"{len(got)} of {len(frames)}: {lan.state()}"
        left = lan.bora.show("bonds")["left_to_linux"]
        assert [one["name"] for one in left] == ["bond0"] and "mode" in left[0]["why"], left
        vlans = lan.bora.show("vlans")
        assert vlans["devices"] == [], vlans
        lan.router.ip("link", "set", "r2", "nomaster")
        lan.router.ip("link", "set", "r1", "nomaster")
        lan.router.ip("link", "set", "bond0", "down")
        lan.router.ip("link", "set", "bond0", "type", "bond", "mode", "balance-xor")
        for link in PORTS:
            lan.router.ip("link", "set", f"r{link}", "down")
            lan.router.ip("link", "set", f"r{link}", "master", "bond0")
        lan.router.ip("link", "set", "bond0", "up")
        lan.wait("the bond is Bora's", lambda: any(len(bond["sending"]) == 2 for bond in lan.bora.show("bonds")["bonds"]))
        say("balance-rr: left to Linux; balance-xor afterwards: Bora's")
    finally:
        lan.close()


def rules(say):
    """Rules for what comes in by the bond, by its VLAN device, and by one of its ports, which nothing comes in by."""
    inputs = ["bond0", f"bond0.{VLAN}", "r1", "nowhere"]
    lan = Lan("balance-xor", "layer2")
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('path = "engine"\n' + "".join(f'[[port]]\nname = "r{link}"\n' for link in range(LINKS))
                       + "".join(f'[[rule]]\nin_port = "{name}"\n' for name in inputs))
            file.flush()
            lan.bora = Bora(lan.router, [], None, ["--config", file.name])
            lan.bora.start()
        lan.wait("Bora knows the devices", lambda: [rule["why_nothing"] for rule in lan.bora.show("rules")]
                 == [None, None, None, "nowhere does not exist"])
        lan.bora.wait_in_sync(topic_guest.FOLLOW_SECONDS)
        sends = [(link, frame) for link, frame in traffic() if link != 0]
        got = lan.exchange(sends, len(sends))
        assert len(got) == len(sends), f"{len(got)} of {len(sends)}: {lan.state()}"
        lan.wait("the rules count", lambda: [rule["packets"] for rule in lan.bora.show("rules")] == [4, 4, 0, 0], 10)
        say("rules: what comes in by the bond and by its VLAN device")
    finally:
        lan.close()


def body(how, say):
    """All modes, or one."""
    for mode, policy in SHORT_MODES if how == "short" else MODES:
        one_mode(mode, policy, ("express", "engine"), say)
    rules(say)
    if how != "short":
        left_to_linux(say)
