"""Four hosts around a router whose ports are four simulated HERO cards on one bus:

    h0, h1: veth to the namespace `cables`, where the cards' cables end
    h2, h3: a TAP interface that the cable makes

10.0.N.0/24 and 2001:db8:N::/64 are host N's; the router is .1 and ::1, its twins are hero0 to hero3.
"""

import os
from pathlib import Path

from lib.bora import Bora, hero_binary
from lib.testbed import Testbed

ROOT = Path(__file__).resolve().parents[2]
CARDS = 4


def model(build="xbar"):
    """The library with the cards' model: BORA_HERO_MODEL, or the one that `make hero-model` builds."""
    default = ROOT / "target" / "hero" / f"libhero-{build}.so"
    return Path(os.environ.get("BORA_HERO_MODEL", default))


class HeroNetwork(Testbed):
    """`options` are further options of each card's port, `more` of `bora run`."""

    def __init__(self, options="", more=()):
        super().__init__()
        try:
            self.cables = self._namespace("cables")
            self.cables.set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
            self.hosts = [self._namespace(f"h{number}") for number in range(CARDS)]
            self.router = self._router()
            wires = [self._wire(number) for number in range(CARDS)]
            ports = [f"hero:{n},{wire},model={model()}{options}" for n, wire in enumerate(wires)]
            self.bora = Bora(self.router, ports, "engine", more, hero_binary())
            self.bora.start()
            for number in range(CARDS):
                self.configure(number)
            self.bora.wait_in_sync()
        except BaseException:
            self.close()
            raise

    def _wire(self, number):
        host = self.hosts[number]
        if number >= 2:
            return f"wire=tap:eth0,netns={host.name}"
        self.cables.ip("link", "add", f"w{number}", "type", "veth", "peer", "name", "eth0", "netns", host.name)
        self.cables.ip("link", "set", f"w{number}", "arp", "off", "up")
        # a card needs packets as on a cable, with checksums and not larger than the MTU
        host.exec("ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off")
        return f"wire=w{number},netns={self.cables.name}"

    def configure(self, number):
        """Addresses of a host and of the router's side of its cable."""
        for namespace, device, end in ((self.router, f"hero{number}", 1), (self.hosts[number], "eth0", 2)):
            namespace.batch([
                f"link set {device} up",
                f"address replace 10.0.{number}.{end}/24 dev {device}",
                f"address replace 2001:db8:{number}::{end}/64 dev {device} nodad",
            ])
        self.hosts[number].batch([
            f"route replace default via 10.0.{number}.1",
            f"route replace default via 2001:db8:{number}::1",
        ])

    def port(self, number):
        """A card's port as Bora shows it."""
        return next(port for port in self.bora.show("ports") if port["name"] == f"hero{number}")

    def card(self, number, counter):
        """One of the card's own counters."""
        return self.port(number).get("card", {}).get(counter, 0)

    def fast(self):
        """The routes on the fast path: {(input port, destination): output port}."""
        shown = self.bora.show("offload")
        return {(one["port"], one["destination"]): one["out"] for one in shown if one["path"] == "fast"}
