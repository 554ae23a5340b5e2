"""Runs in a guest: WireGuard with the rules of wg-quick. Linux is the tunnel's end; Bora sends the same packets as Linux alone.

    h0 ==== r0 [router] r1 ==== h1      10.0.1.2, the far end of the tunnel, and what is behind it
                        r2 ==== h2      behind r0 and r2: 198.18.0.0/16, 198.20.0.0/16, 2001:db8:f0::/48, 2001:db8:f2::/48

All that has no route of its own goes into the tunnel: two rules, a table, and chains that keep a mark of the tunnel's own packets.
"""

import subprocess
import time
from pathlib import Path

from lib import packets
from lib.netns import run
from lib.port import Port
from vm import topic_guest
from vm.topic_guest import HOST, ROUTER, addressing, differences

LINKS = 3
FAR = 1  # the link behind which the tunnel's far end is
LISTEN = 51820  # also wg-quick's mark and its table
MTU = 1420
SIZES = (26, MTU - 28, MTU - 48)  # octets of data: small, and as much as the tunnel has room for with IPv4 and with IPv6
TURNS = 3
CONFIGURATION = Path("/run/wg0.conf")

# Shell commands in the router's namespace. Each step goes on from the one before.
STEPS = {
    "wg-quick": f"wg-quick up {CONFIGURATION}",
    "strict source checks": "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 > $each; done",
    "without its chains": "nft flush ruleset",
    "no source checks": "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $each; done",
    "a network behind it that has a route of its own": "ip route add 203.0.113.0/25 via 10.0.2.2; ip -6 route add 2001:db8:e::/64 via 2001:db8:2::2",
    "a route in its table that is not the tunnel's": f"ip route add 203.0.113.128/25 via 10.0.2.2 table {LISTEN}; "
                                                     f"ip -6 route add 2001:db8:e:1::/64 via 2001:db8:2::2 table {LISTEN}",
    "without it": f"wg-quick down {CONFIGURATION}; ip route del 203.0.113.0/25; ip -6 route del 2001:db8:e::/64",
}
SHORT = 3  # steps of a short run


class TunnelEnd(Port):
    """The far end's WireGuard device. Its packets have no Ethernet header; here they get one."""

    HEADER = packets.ethernet("02:bc:00:00:00:ff", "02:bc:00:00:00:fe", b"\x45")[:12]

    def send(self, frame):
        """Without the header."""
        super().send(frame[14:])

    def receive_now(self):
        """With a header."""
        packet = super().receive_now()
        return packet and self.HEADER + (b"\x86\xdd" if packets.version(packet) == 6 else b"\x08\0") + packet


class Lan(topic_guest.Lan):
    """Router and hosts, of which one ends the tunnel."""

    def __init__(self):
        super().__init__(LINKS)
        try:
            for link in range(LINKS):
                self.connect(link)
                self.router.ip("address", "add", f"10.0.{link}.1/24", "dev", f"r{link}")
            self.router.batch(line for link in (0, 2) for line in addressing(f"r{link}", link, HOST.format(link)))
            self.router.batch([f"neighbour replace 10.0.{FAR}.2 lladdr {HOST.format(FAR)} dev r{FAR}", f"route add default via 10.0.{FAR}.2",
                               f"address add 2001:db8:{FAR}::1/64 dev r{FAR} nodad",
                               f"neighbour replace 2001:db8:{FAR}::2 lladdr {HOST.format(FAR)} dev r{FAR}",
                               f"route add ::/0 via 2001:db8:{FAR}::2"])
            self._make_far_end()
            self.ports = [TunnelEnd(host.name, "wg0") if link == FAR else Port(host.name, f"h{link}") for link, host in enumerate(self.hosts)]
        except BaseException:
            self.close()
            raise

    def _make_far_end(self):
        """The far end's tunnel, and the file for the router's."""
        keys = [run("wg", "genkey").stdout.strip() for _ in range(2)]
        public = [run("wg", "pubkey", input=key).stdout.strip() for key in keys]
        host = self.hosts[FAR]
        host.batch([f"link set h{FAR} arp on", f"address add 10.0.{FAR}.2/24 dev h{FAR}", f"link add wg0 mtu {MTU} type wireguard"])
        host.exec("wg", "set", "wg0", "listen-port", str(LISTEN), "private-key", "/dev/stdin", "peer", public[0],
                  "endpoint", f"10.0.{FAR}.1:{LISTEN}", "allowed-ips", "0.0.0.0/0,::/0", input=keys[1])
        host.ip("link", "set", "wg0", "up")
        CONFIGURATION.touch(0o600)
        CONFIGURATION.write_text(f"[Interface]\nPrivateKey = {keys[0]}\nListenPort = {LISTEN}\nMTU = {MTU}\n"
                                 f"Address = 10.99.0.1/32, 2001:db8:99::1/128\n"
                                 f"[Peer]\nPublicKey = {public[1]}\nEndpoint = 10.0.{FAR}.2:{LISTEN}\nAllowedIPs = 0.0.0.0/0, ::/0\n")

    def step(self, command):
        """Changes the router's configuration; Bora has followed when this returns."""
        self.router.exec("sh", "-c", command)
        if self.bora is not None:
            self.bora.wait_in_sync(topic_guest.FOLLOW_SECONDS)
            time.sleep(1.2)  # hooks that have no events are looked at once a second


def traffic():
    """Packets of each size: from hosts to what is behind the tunnel and to each other, and back; always the same packets."""
    sends = []
    for size in SIZES:
        for family, udp in ((4, packets.udp4), (6, packets.udp6)):
            behind = {0: ("198.18.0.9", "2001:db8:f0::9"), 2: ("198.20.0.9", "2001:db8:f2::9")}
            beyond = ("203.0.113.9", "2001:db8:e::9"), ("203.0.113.200", "2001:db8:e:1::9"), ("192.0.2.9", "2001:db8:d::9")
            of = lambda pair: pair[family == 6]  # noqa: B023, E731
            for link, host in behind.items():
                for far in beyond:
                    sends.append((link, packets.ethernet(ROUTER.format(link), HOST.format(link), udp(of(host), of(far), size=size))))
                    if size < MTU - 28 or family == 4:  # the far end's Linux sends nothing longer
                        sends.append((FAR, packets.ethernet(ROUTER.format(FAR), HOST.format(FAR), udp(of(far), of(host), size=size))))
                other = behind[2 - link]
                sends.append((link, packets.ethernet(ROUTER.format(link), HOST.format(link), udp(of(host), of(other), size=size))))
    return sends


def exchange(lan, sends):
    """A packet to wake the tunnel, then all of them, and again."""
    lan.exchange(sends[:1])
    return [lan.exchange(sends, len(sends)) for _ in range(TURNS)]


def body(how, say):
    """Linux alone, then express and the engine."""
    subprocess.run(["modprobe", "wireguard"], check=True)
    steps = dict(list(STEPS.items())[:SHORT]) if how == "short" else STEPS
    sends, wanted, failed = traffic(), {}, []
    for path in (None, "express", "engine"):
        lan = Lan()
        try:
            if path:
                lan.start(path)
            for name, command in steps.items():
                lan.step(command)
                before = lan.bora.totals() if path else {}
                got = exchange(lan, sends)
                if not path:
                    wanted[name] = got
                    say(f"Linux alone, {name}: {[len(one) for one in got]} of {len(sends)} packets came")
                    continue
                after = lan.bora.check_conservation(10)
                what = f"{path}, {name}: {[len(one) for one in got]} packets came, {after['sent'] - before['sent']} sent by Bora"
                wrong = [differences(one, other) for one, other in zip(wanted[name], got) if one != other]
                failed += [f"{path}, {name}"] * bool(wrong)
                say(f"{what}: {wrong[0]}; {lan.state()}" if wrong else f"{what}, as with Linux")
        finally:
            lan.close()
    assert not failed, failed
