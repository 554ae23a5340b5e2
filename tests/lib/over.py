"""What the router's side of the test network (lib.topology) is made of. The interface with the addresses is always r0, r1 or r2;
Bora's ports are below it, or the same.

    plain   r0 is a veth
    vlan    r0 is VLAN 100 on the veth v0; hosts send and get frames with its tag
    bond    r0 and r1 are bonds of two veths, r2 is one of one; hosts have bonds of the same size
    vrf     r0 is a veth in the VRF `red`
    hero    r0 is a HERO card of a guest, whose cable ends at another card of the guest (hero/guest/conformance_guest.py)
"""

import re
import struct
import time

from lib.netns import Namespace, Root, interfaces_of, queue_options
from lib.port import Port

VLAN = 100
TABLE = 10
BOND = "type bond mode balance-xor xmit_hash_policy layer3+4 miimon 20"


class Plain:
    """Veths. The others are kinds of it."""

    name = "plain"
    router_kind = Namespace
    port_kind = Port
    words = ""  # what `ip route` needs to find the routes
    patience = 1  # times the time that a frame may take

    def prepare(self, router):
        """Before the first link."""

    def ports(self, link):
        """The router's interfaces on a link, which are Bora's ports."""
        return [f"r{link}"]

    def hosts_ends(self, link):
        """The host's interfaces on a link."""
        return [f"h{link}"]

    def connect(self, net, link, host):
        """Makes the ends of a link, in the router and in the host."""
        # without driver XDP if the peer has more
        queues, peer_queues = map(queue_options, (1, 2) if net.generic else (net.queues, net.queues))
        for number, (port, end) in enumerate(zip(self.ports(link), self.hosts_ends(link))):
            macs = (net.router_mac(link), net.host_mac(link)) if number == 0 else ()
            ours, theirs = (["address", mac] for mac in macs) if macs else ([], [])
            net.router.ip("link", "add", port, *ours, *queues, "type", "veth", "peer", "name", end, *theirs, *peer_queues, "netns", host.name)
            host.set_sysctl(f"net/ipv6/conf/{end}/disable_ipv6", 1)
            # A veth takes redirected XDP frames only while its peer polls, which GRO turns on.
            host.exec("ethtool", "-K", end, "gro", "on")

    def join(self, net, link, host):
        """Makes what has the addresses of the veths; sets the host's end up."""

    def discarded(self, net):
        """Packets that were malformed, and that Linux did not see."""
        return 0


class TaggedPort(Port):
    """A port whose frames have the tag; the test sees them without."""

    TAG = struct.pack("!HH", 0x8100, VLAN)
    MISSING = b"\xff\xffno tag"

    def send(self, frame):
        super().send(frame[:12] + self.TAG + frame[12:])

    def send_with_checksum_left(self, frame, start, place):
        super().send_with_checksum_left(frame, start + len(self.TAG), place)

    def receive_now(self):
        frame = super().receive_now()
        if frame is None:
            return None
        without = frame[16:] if frame[12:16] == self.TAG else self.MISSING + frame[12:]
        return frame[:12] + without


class Vlan(Plain):
    """VLAN devices."""

    name = "vlan"
    port_kind = TaggedPort

    def ports(self, link):
        return [f"v{link}"]

    def join(self, net, link, host):
        net.router.batch([f"link set v{link} addrgenmode none", f"link set v{link} mtu {net.mtu(link)} up",
                          f"link add link v{link} name r{link} type vlan id {VLAN}"])


class Bond(Plain):
    """Bonds."""

    name = "bond"

    def ports(self, link):
        return [f"v{link}", f"w{link}"] if link < 2 else [f"v{link}"]

    def hosts_ends(self, link):
        return [f"g{link}", f"i{link}"] if link < 2 else [f"h{link}"]

    def join(self, net, link, host):
        self._bond(net.router, f"r{link}", net.router_mac(link), self.ports(link))
        if link < 2:
            host.set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
            self._bond(host, f"h{link}", net.host_mac(link), self.hosts_ends(link))

    @staticmethod
    def _bond(place, name, mac, ports):
        place.batch([f"link add {name} address {mac} {BOND}",
                     *(line for port in ports for line in (f"link set {port} down", f"link set {port} master {name}"))])


class VrfNamespace(Namespace):
    """A namespace whose routes are those of the VRF."""

    @staticmethod
    def _translated(words):
        words = list(words)
        if words[1 if words[0] in ("-4", "-6") else 0] == "route":
            end = words.index("nexthop") if "nexthop" in words else len(words)
            words[end:end] = ["vrf", "red"]
        return words

    def ip(self, *arguments, check=True):
        return super().ip(*self._translated(arguments), check=check)

    def batch(self, lines, timeout=60):
        super().batch([" ".join(self._translated(line.split())) for line in lines], timeout)


class Vrf(Plain):
    """Interfaces in a VRF."""

    name = "vrf"
    router_kind = VrfNamespace
    words = " vrf red"

    def prepare(self, router):
        router.batch([f"link add red type vrf table {TABLE}", "link set red up"])

    def join(self, net, link, host):
        net.router.ip("link", "set", f"r{link}", "master", "red")


class Hero(Plain):
    """HERO's cards, which forward by themselves only in the namespace that the guest began with."""

    name = "hero"
    router_kind = Root
    patience = 10  # they are simulated

    def connect(self, net, link, host):
        port, end = interfaces_of("hero")[link], self._end(link)
        net.router.batch([f"link set {port} down", f"link set {port} name r{link} address {net.router_mac(link)}",
                          f"link set {end} down", f"link set {end} name h{link} address {net.host_mac(link)} netns {host.name}"])
        host.set_sysctl(f"net/ipv6/conf/h{link}/disable_ipv6", 1)

    def discarded(self, net):
        texts = [net.router.exec("ethtool", "-S", name).stdout for name in interfaces_of("hero")]
        return sum(int(re.search(r"bad_checksum: (\d+)", text)[1]) for text in texts)

    @staticmethod
    def _end(link):
        """The interface at the other end of a card's cable: the first, as those of the links before are with their hosts."""
        wanted = len(interfaces_of("hero")) - link
        for _ in range(200):  # others may still be on their way back from hosts that are gone
            found = interfaces_of("virtio_net")
            if len(found) == wanted:
                return found[0]
            time.sleep(0.1)
        raise RuntimeError(f"{found} are the ends of cables, of which there should be {wanted}")


KINDS = {kind.name: kind for kind in (Plain, Vlan, Bond, Vrf, Hero)}

# Conformance tests that are not run over a kind, and why; the name of a test, perhaps with the beginning of its parameters.
NO_SENSE = {
    "vlan": {
        "test_43_unknown_vlan_dropped_when_the_tag_is_not_in_the_frame": "the VLAN's own tag has the one place beside the frame",
        "test_43_priority_tag_accepted_when_it_is_not_in_the_frame": "the VLAN's own tag has the one place beside the frame",
    },
    "bond": {},
    "vrf": {},
    "hero": dict.fromkeys(("test_06_ethernet_padding_trimmed[kernel", "test_06_long_padding_trimmed[kernel"),
                          "a card forwards a frame with the padding that it came with"),
}


def why_not(over, name):
    """Why a test (its name with parameters) makes no sense over a kind; None if it does."""
    return next((why for test, why in NO_SENSE.get(over, {}).items() if name.startswith(test)), None)
