"""A router between two Linux hosts that exchange UDP: for tests about interfaces and their queues."""

import contextlib
import socket
import time

from lib.bora import Bora
from lib.netns import Namespace, inside

PORT = 9


class UdpNetwork:
    """Host a - r0 [router] r1 - host b. `queues` is the number of queues of r0 and of host a's end."""

    def __init__(self, queues=1):
        self.namespaces = []
        self.bora = None
        try:
            self.router, *self.hosts = (self._namespace(role) for role in ("router", "a", "b"))
            self.router.set_sysctl("net/ipv4/ip_forward", 1)
            for link, count in enumerate((queues, 1)):
                self.connect(link, count)
        except BaseException:
            self.close()
            raise

    def _namespace(self, role):
        namespace = Namespace(role)
        self.namespaces.append(namespace)
        return namespace

    def connect(self, link, queues=1):
        """Makes the cable of a host, or makes it again."""
        host, many = self.hosts[link], ("numtxqueues", str(queues), "numrxqueues", str(queues))
        self.router.ip("link", "add", f"r{link}", *many, "type", "veth",
                       "peer", "name", "e0", *many, "netns", host.name)
        host.exec("ethtool", "-K", "e0", "gro", "on")
        for namespace, device, end in ((self.router, f"r{link}", 1), (host, "e0", 2)):
            namespace.ip("address", "add", f"10.7.{link}.{end}/24", "dev", device)
            namespace.ip("link", "set", device, "up")
        host.ip("route", "replace", "default", "via", f"10.7.{link}.1")

    def start(self, path, *options):
        """Starts Bora on both ports."""
        self.bora = Bora(self.router, ["r0", "r1"], path, options)
        self.bora.start()

    def port(self, link):
        """A port as Bora shows it."""
        return next(port for port in self.bora.show("ports") if port["name"] == f"r{link}")

    def wait_for(self, link, seconds=15.0, **wanted):
        """Waits until the port shows these values."""
        deadline = time.monotonic() + seconds
        while True:
            port = self.port(link)
            if all(port[key] == value for key, value in wanted.items()):
                return port
            assert time.monotonic() < deadline, f"not {wanted} after {seconds} s: {port}\n{self.bora.output()}"
            time.sleep(0.05)

    def exchange(self, flows, size=18, seconds=10.0):
        """Sends one packet in each of `flows` flows from host a to host b; returns how many arrived."""
        with contextlib.ExitStack() as stack:
            with inside(self.hosts[1].name):
                receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            receiver.bind(("10.7.1.2", PORT))
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            receiver.settimeout(0.2)
            seen, deadline = set(), time.monotonic() + seconds
            for flow in range(flows):
                with inside(self.hosts[0].name), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                    sender.sendto(flow.to_bytes(4, "big").ljust(size, b"x"), ("10.7.1.2", PORT))
                if flow % 32 == 31:
                    time.sleep(0.01)  # so that short rings do not overflow
            while len(seen) < flows and time.monotonic() < deadline:
                with contextlib.suppress(TimeoutError):
                    seen.add(receiver.recv(4096)[:4])
            return len(seen)

    def wait_until_forwarding(self, seconds=15.0):
        """Sends packets until one arrives, which also resolves the neighbours."""
        deadline = time.monotonic() + seconds
        while not self.exchange(1, seconds=0.5):
            assert time.monotonic() < deadline, f"nothing arrives after {seconds} s"

    def close(self):
        """Stops Bora and removes everything."""
        try:
            if self.bora is not None:
                self.bora.stop()
        finally:
            for namespace in self.namespaces:
                namespace.close()
