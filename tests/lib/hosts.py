"""Two Linux hosts with a router between them, for tests that need real stacks, such as TCP."""

from lib.bora import Bora
from lib.netns import queue_options
from lib.testbed import Testbed


class Hosts(Testbed):
    """h0 -- r0 [router] r1 -- h1 with addresses on all sides and every offload veth has.

    `backend` "...-generic": ports without driver XDP. `ports`: Bora's ports."""

    def __init__(self, backend, ports=("r0", "r1")):
        super().__init__()
        self.backend = backend
        self.generic = backend.endswith("-generic")
        try:
            self.router = self._router()
            self.hosts = [self._host(link) for link in range(2)]
            if backend != "kernel":
                self.bora = Bora(self.router, list(ports), backend.removesuffix("-generic"))
                self.bora.start()
                mode = "generic" if self.generic else "driver"
                assert {port["xdp"] for port in self.bora.show("ports")} == {mode}
        except BaseException:
            self.close()
            raise

    def _host(self, link):
        host = self._namespace(f"h{link}")
        queues, peer_queues = map(queue_options, (1, 2) if self.generic else (None, None))
        self.router.ip("link", "add", f"r{link}", *queues, "type", "veth",
                       "peer", "name", f"h{link}", *peer_queues, "netns", host.name)
        ends = ((self.router, f"r{link}", 1), (host, f"h{link}", 2))
        for namespace, device, _ in ends:
            namespace.exec("ethtool", "-K", device, "gro", "on", "gso", "on", "tso", "on", "tx", "on")
        for namespace, device, end in ends:  # Linux looks at the peer's GRO when a veth comes up
            namespace.batch([
                f"link set {device} up",
                f"address add {self.address(4, link, end)}/24 dev {device}",
                f"address add {self.address(6, link, end)}/64 dev {device} nodad",
            ])
        host.batch([f"route add default via {self.address(f, link, 1)}" for f in (4, 6)])
        return host

    @staticmethod
    def address(family, link, end=2):
        """Address of the host (end 2) or the router (end 1) on a link."""
        return f"10.0.{link}.{end}" if family == 4 else f"2001:db8:{link}::{end}"
