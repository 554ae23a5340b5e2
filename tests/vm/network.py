"""The network in a guest: two hosts, each behind a card, and the router between them.

    h0 [host] ==== r0 [router] r1 ==== h1 [host]        addresses as in lib.topology

The router is the guest's own network namespace, as on a machine with real cards; the hosts are namespaces.
"""

import contextlib
import itertools
import os
import time
from pathlib import Path

from lib.netns import Root, run
from lib.over import Plain
from lib.port import Port
from lib.topology import Network
from vm import machine

LINKS = 2
LINK_SECONDS = 60  # an emulated igb needs four for its link, on a busy machine many more
FORWARDING_SECONDS = 30


class CardNetwork(Network):
    """The network on cards of one kind. `own_namespace`: the router is a namespace too, for tests on veths."""

    def __init__(self, kind, own_namespace=False):
        self.backend = "kernel"
        self.over = Plain()
        self.kind = kind
        self.bora = None
        self.namespaces = []
        self.hosts = []
        self._undo = []
        self._serial = itertools.count(300)
        self._given_back = []
        self._links = [self._cards(link) for link in range(LINKS)]
        try:
            self.router = self._namespace("r") if own_namespace else self._remember(Root())
            self._configure_router()
            for link in range(LINKS):
                self._connect(link)
            self.wait_for_links()
            self.wait_until_forwarding()
        except BaseException:
            self.close()
            raise

    def host_mac(self, link):
        return self._links[link][0][1]

    def router_mac(self, link):
        return self._links[link][1][1]

    def _remember(self, namespace):
        self.namespaces.append(namespace)
        return namespace

    def _cards(self, link):
        """((name, MAC) of the host's card, (name, MAC) of the router's); those of a veth do not exist yet."""
        if self.kind == "veth":
            return tuple((None, f"02:bc:00:00:00:{end}{link}") for end in (1, 2))
        numbers = (0, 1) if link == 0 else (3, 2)
        return tuple((find_card(self.kind, number), machine.mac(self.kind, number)) for number in numbers)

    def _connect(self, link):
        host = self._namespace(f"h{link}")
        if self.kind == "veth":
            self._connect_veth(link, host)
        else:
            self._connect_card(link, host)
        host.set_sysctl(f"net/ipv6/conf/h{link}/disable_ipv6", 1)
        self.silence(link)
        for family in ("ipv4", "ipv6"):  # one request for a neighbour, so that the error comes soon
            self.router.set_sysctl(f"net/{family}/neigh/r{link}/mcast_solicit", 1)
            self.router.set_sysctl(f"net/{family}/neigh/r{link}/retrans_time_ms", 200)
        self.configure_link(link)
        self.hosts.append(Port(host.name, f"h{link}"))

    def _connect_veth(self, link, host):
        queues = f"numtxqueues {machine.CPUS} numrxqueues {machine.CPUS}".split()
        self.router.ip(
            "link", "add", f"r{link}", "address", self.router_mac(link), *queues, "type", "veth",
            "peer", "name", f"h{link}", "address", self.host_mac(link), *queues, "netns", host.name,
        )
        host.exec("ethtool", "-K", f"h{link}", "gro", "on")
        self._given_back.append(["ip", "-n", self.router.name, "link", "del", f"r{link}"])

    def _connect_card(self, link, host):
        outer, inner = self._links[link][0][0], self._links[link][1][0]
        for device in (outer, inner):
            run("ip", "link", "set", device, "down")
        run("ip", "link", "set", outer, "netns", host.name, "name", f"h{link}")
        run("ip", "link", "set", inner, "name", f"r{link}")
        self._given_back.append(["ip", "-n", host.name, "link", "set", f"h{link}", "down"])
        self._given_back.append(["ip", "-n", host.name, "link", "set", f"h{link}", "netns", "1", "name", outer])
        self._given_back.append(["ip", "link", "set", f"r{link}", "down"])
        self._given_back.append(["ip", "address", "flush", "dev", f"r{link}"])
        self._given_back.append(["ip", "link", "set", f"r{link}", "name", inner])

    def silence(self, link):
        """Turns the host's own ARP and ND off, because the test plays the host."""
        self.host(link).ip("link", "set", f"h{link}", "arp", "off", "up")

    def host(self, link):
        """The namespace of a host."""
        return self.namespaces[1 + link]

    def wait_for_links(self):
        deadline = time.monotonic() + LINK_SECONDS
        while True:
            text = self.router.ip("-6", "address", "show", "scope", "link").stdout
            ready = [f"inet6 {self.link_local(self.router_mac(link))}/64" in text for link in range(LINKS)]
            if all(ready) and "tentative" not in text:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"links are not ready after {LINK_SECONDS} s:\n{text}")
            time.sleep(0.05)

    def wait_until_forwarding(self, seconds=FORWARDING_SECONDS):
        super().wait_until_forwarding(seconds)

    def settle(self):
        if self.bora is not None:
            if self._sysctl_changed:
                time.sleep(1.3)
            self.bora.wait_in_sync(20.0)
        self._sysctl_changed = False

    @contextlib.contextmanager
    def linux_hosts(self):
        """Within the block the hosts have addresses and answer, and nothing is captured."""
        for link in range(LINKS):
            self.hosts[link].close()
            host = self.host(link)
            host.set_sysctl(f"net/ipv6/conf/h{link}/disable_ipv6", 0)
            host.batch([
                f"link set h{link} arp on",
                f"address replace {self.host4(link)}/24 dev h{link}",
                f"address replace {self.host6(link)}/64 dev h{link} nodad",
                f"route replace default via {self.router4(link)}",
                f"route replace default via {self.router6(link)}",
            ])
        try:
            yield
        finally:
            for link in range(LINKS):
                self.host(link).ip("address", "flush", "dev", f"h{link}", check=False)
                self.host(link).set_sysctl(f"net/ipv6/conf/h{link}/disable_ipv6", 1)
                self.silence(link)
                self.hosts[link] = Port(self.host(link).name, f"h{link}")
            for link in range(LINKS):
                self.configure_link(link)

    def close(self):
        """Stops Bora, returns the cards and removes the rest, even if a part of that fails."""
        try:
            if self.bora is not None:
                self.bora.kill()
                self.bora.stop()
        finally:
            for port in self.hosts:
                port.close()
            for command in self._given_back:
                run(*command, check=False)
            for namespace in self.namespaces:
                namespace.close()


def find_card(kind, number):
    """Name of the interface of card `number` of a kind; its driver must be the kind's."""
    wanted = machine.mac(kind, number)
    for device in Path("/sys/class/net").iterdir():
        if (device / "address").read_text().strip() == wanted:
            driver = (device / "device/driver").resolve().name
            if driver != machine.CARDS[kind].driver:
                raise RuntimeError(f"{kind}: {device.name} has driver {driver}, not {machine.CARDS[kind].driver}")
            return device.name
    raise RuntimeError(f"{kind}: no card has the address {wanted}: {sorted(os.listdir('/sys/class/net'))}")
