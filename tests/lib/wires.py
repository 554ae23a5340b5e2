"""What joins the router of the test network (lib.topology) to its hosts where that is no veth: Bora's kinds of port without an
XDP program. The router's interface, r0, r1 or r2, is then a twin that Bora makes."""

import os
import tempfile

from lib.memif_peer import MemifPort
from lib.port import Port


class Tap:
    """A TAP interface that Bora makes, and that moves to the host."""

    def __init__(self, net):
        self.net = net

    def prepare(self, link, host):
        """What the port needs before Bora starts."""

    def port(self, link):
        """What Bora is told."""
        return f"tap:h{link},{self._twin(link)}"

    def reach(self, link, host):
        """The host's end, once Bora runs."""
        self.net.router.ip("link", "set", f"h{link}", "netns", host.name)
        return self._end(link, host)

    def close(self):
        """Removes what the namespaces do not."""

    def _twin(self, link):
        return f"name=r{link},mac={self.net.router_mac(link)}"

    def _end(self, link, host):
        host.set_sysctl(f"net/ipv6/conf/h{link}/disable_ipv6", 1)
        host.ip("link", "set", f"h{link}", "address", self.net.host_mac(link), "arp", "off", "mtu", str(self.net.mtu(link)), "up")
        return Port(host.name, f"h{link}")


class AfPacket(Tap):
    """Packet sockets on a veth, which Linux itself must not use (docs/ports.md)."""

    def prepare(self, link, host):
        router, mac = self.net.router, self.net.router_mac(link)
        router.ip("link", "add", f"v{link}", "address", mac, "type", "veth", "peer", "name", f"h{link}", "netns", host.name)
        router.set_sysctl(f"net/ipv6/conf/v{link}/disable_ipv6", 1)
        router.set_sysctl(f"net/ipv4/conf/v{link}/rp_filter", 1)
        router.set_sysctl(f"net/ipv4/conf/v{link}/forwarding", 0)
        router.ip("link", "set", f"v{link}", "arp", "off", "mtu", str(self.net.mtu(link)), "up")

    def port(self, link):
        return f"af_packet:v{link},{self._twin(link)}"

    def reach(self, link, host):
        return self._end(link, host)


class Memif(Tap):
    """A memif, at whose other end the test is."""

    def __init__(self, net):
        super().__init__(net)
        self.folder = tempfile.TemporaryDirectory(prefix="bora-memif-")

    def _socket(self, link):
        return os.path.join(self.folder.name, f"h{link}")

    def port(self, link):
        return f"memif:{self._socket(link)},role=server,{self._twin(link)}"

    def reach(self, link, host):
        return MemifPort(self._socket(link))

    def close(self):
        self.folder.cleanup()


WIRES = {"tap": Tap, "af_packet": AfPacket, "memif": Memif}

# Conformance tests that are not run over a kind, and why; the beginning of their names.
NO_SENSE = {
    "memif": {
        "test_43_unknown_vlan_dropped_when_the_tag_is_not_in_the_frame": "a memif has no place for a tag beside the frame",
        "test_43_priority_tag_accepted_when_it_is_not_in_the_frame": "a memif has no place for a tag beside the frame",
        "test_61_carrier_lost": "it takes the link of the host's interface down, and there is none",
        "test_62_unrelated_changes_do_no_harm": "the test's ring has too few slots for what comes while `ip` runs",
    },
    "af_packet": {
        "test_inner_checksum_left_to_others": "a difference (docs/differences.md)",
        "test_parameter_problem_about_a_bad_option": "Linux answers on its own account, too (docs/ports.md)",
        "test_61_carrier_lost": "Linux acts on the carrier of a TAP interface, which a twin is, within a second, not at once",
    },
    "tap": {
        "test_61_carrier_lost": "a twin has a carrier as long as Bora runs, because Bora does not see who uses the TAP interface",
    },
}


def why_not(backend, name):
    """Why a test (its name with parameters) makes no sense with a backend; None if it does."""
    kind = backend.partition("-")[2]
    return next((why for test, why in NO_SENSE.get(kind, {}).items() if name.startswith(test)), None)
