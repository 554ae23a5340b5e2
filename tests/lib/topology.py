"""The test network: a router namespace with veths r0, r1, r2 and a silent host at the end of each.

    h0 ---- r0 [ router ] r1 ---- h1        10.0.N.0/24 and 2001:db8:N::/64 on link N,
                          r2 ---- h2        router .1 / ::1, host .2 / ::2, link 2 has an MTU of 1280

The hosts have no addresses: the test plays the host, and sends and captures every frame itself. Behind each host are
networks (`BEHIND4`, `BEHIND6`) that the router reaches through it. Sources are taken from there, a new one each time,
because Linux limits some ICMP errors for each destination.
"""

import ipaddress
import itertools
import time

from lib import packets
from lib.bora import Bora
from lib.netns import Namespace
from lib.over import KINDS
from lib.port import wait_readable
from lib.wires import WIRES

LINKS = 3
SMALL_MTU = 1280
BEHIND4 = [ipaddress.ip_network(f"198.{18 + n}.0.0/16") for n in range(LINKS)]
BEHIND6 = [ipaddress.ip_network(f"2001:db8:f{n}::/48") for n in range(LINKS)]
_MLD = packets.mac("33:33:00:00:00:16")  # the router may send MLD reports at any time
IPV4_SYSCTLS = {"rp_filter": 0, "accept_local": 0, "send_redirects": 1, "arp_ignore": 0}
IPV6_SYSCTLS = {"forwarding": 1, "accept_dad": 0, "accept_ra": 0, "router_solicitations": 0}


class Network:
    """Router and hosts. `bora` is None for the plain kernel; backends "...-generic" have ports without driver XDP, and
    "engine-tap" and others ports of another kind (lib.wires). `queues`
    is the number of queues of each end of a link; None: Linux's default. `over`: what the router's side is made of (lib.over)."""

    def __init__(self, backend="kernel", queues=None, over="plain"):
        self.backend = backend
        self.over = KINDS[over]()
        self.queues = queues
        path, _, kind = backend.partition("-")
        self.generic = kind == "generic"
        self.wire = WIRES[kind](self) if kind in WIRES else None
        self.bora = None
        self.namespaces = []
        self.hosts = []
        self._undo = []
        self._serial = itertools.count(300)
        try:
            self.router = self._namespace("r", self.over.router_kind)
            self._configure_router()
            self.over.prepare(self.router)
            if self.wire is not None:
                self._connect_by_wire(path)
            else:
                for link in range(LINKS):
                    self._connect(link)
                self.wait_for_links()
            if backend != "kernel" and self.wire is None:
                self.bora = Bora(self.router, [name for n in range(LINKS) for name in self.over.ports(n)], path)
                self.bora.start()
                mode = "generic" if self.generic else "driver"
                assert {port["xdp"] for port in self.bora.show("ports")} == {mode}
            self.wait_until_forwarding()
        except BaseException:
            self.close()
            raise

    # Addresses.

    @staticmethod
    def host_mac(link):
        return f"02:bc:00:00:00:1{link}"

    @staticmethod
    def router_mac(link):
        return f"02:bc:00:00:00:2{link}"

    @staticmethod
    def host4(link):
        return f"10.0.{link}.2"

    @staticmethod
    def router4(link):
        return f"10.0.{link}.1"

    @staticmethod
    def host6(link):
        return f"2001:db8:{link}::2"

    @staticmethod
    def router6(link):
        return f"2001:db8:{link}::1"

    @staticmethod
    def link_local(address):
        """The link-local address that Linux makes of a MAC (RFC 4291 appendix A)."""
        raw = packets.mac(address)
        identifier = bytes([raw[0] ^ 2]) + raw[1:3] + b"\xff\xfe" + raw[3:]
        return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + identifier))

    def behind4(self, link):
        """A fresh IPv4 address behind host `link`."""
        return str(BEHIND4[link][next(self._serial) % 65000])

    def behind6(self, link):
        """A fresh IPv6 address behind host `link`."""
        return str(BEHIND6[link][next(self._serial)])

    def begin_behind(self, first):
        """Fresh addresses now start from `first`."""
        self._serial = itertools.count(first)

    def host_name(self, link):
        """Name of the namespace of host `link`."""
        return self.namespaces[1 + link].name

    # Set-up.

    def _namespace(self, role, kind=Namespace):
        namespace = kind(role)
        self.namespaces.append(namespace)
        return namespace

    def _configure_router(self):
        for family, settings in (("ipv4", IPV4_SYSCTLS), ("ipv6", IPV6_SYSCTLS)):
            for scope in ("all", "default"):
                for key, value in settings.items():
                    self.router.set_sysctl(f"net/{family}/conf/{scope}/{key}", value)
        # no limits of errors, because most tests need every error
        for key, value in {
            "ipv4/ip_forward": 1, "ipv4/icmp_ratelimit": 0, "ipv6/icmp/ratelimit": 0,
            "ipv6/auto_flowlabels": 0, "ipv4/icmp_msgs_per_sec": 100_000, "ipv4/icmp_msgs_burst": 10_000,
        }.items():
            self.router.set_sysctl(f"net/{key}", value)

    def _connect(self, link):
        host = self._namespace(f"h{link}")
        self.over.connect(self, link, host)
        self.over.join(self, link, host)
        host.ip("link", "set", f"h{link}", "arp", "off", "mtu", str(self.mtu(link)), "up")
        self.configure_link(link)
        self.hosts.append(self.over.port_kind(host.name, f"h{link}"))

    def _connect_by_wire(self, path):
        """Starts Bora, which makes the router's interfaces, and configures them as an operator does."""
        hosts = [self._namespace(f"h{link}") for link in range(LINKS)]
        for link, host in enumerate(hosts):
            self.wire.prepare(link, host)
        self.bora = Bora(self.router, [self.wire.port(link) for link in range(LINKS)], path)
        self.bora.start()
        for link, host in enumerate(hosts):
            self.configure_link(link)
            self.hosts.append(self.wire.reach(link, host))
        self.wait_for_links()
        self.bora.wait_in_sync()

    @staticmethod
    def mtu(link):
        """MTU of a link."""
        return SMALL_MTU if link == 2 else 1500

    def configure_link(self, link):
        """Configures the router's side of a link, perhaps again: up, addresses, permanent neighbours, routes."""
        device, host = f"dev r{link}", f"lladdr {self.host_mac(link)} dev r{link}"
        self.router.batch([
            f"link set r{link} mtu {self.mtu(link)} up",
            f"address replace {self.router4(link)}/24 {device}",
            f"address replace {self.router6(link)}/64 {device} nodad",
            f"neighbour replace {self.link_local(self.host_mac(link))} {host}",
            f"neighbour replace {self.host4(link)} {host}",
            f"neighbour replace {self.host6(link)} {host}",
            f"route replace {BEHIND4[link]} via {self.host4(link)}",
            f"route replace {BEHIND6[link]} via {self.host6(link)}",
        ])

    def wait_for_links(self):
        """Waits until every link is up and has its link-local address."""
        for _ in range(200 * self.over.patience):
            text = self.router.ip("-6", "address", "show", "scope", "link").stdout
            if text.count("inet6 fe80") == len(self.hosts) and "tentative" not in text:
                return
            time.sleep(0.02)
        raise RuntimeError(f"links are not ready:\n{text}")

    def wait_until_forwarding(self, seconds=5.0):
        """Sends probes until one arrives for each family, then drains."""
        seconds *= self.over.patience
        deadline = time.monotonic() + seconds
        while not (self.probe(4, 0.1) and self.probe(6, 0.1)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.backend}: nothing is forwarded after {seconds} s")
        for port in self.hosts:
            port.drain()

    def close(self):
        """Stops Bora and removes everything, even if a part of that fails."""
        try:
            if self.bora is not None:
                self.bora.stop()
        finally:
            for port in self.hosts:
                port.close()
            for namespace in self.namespaces:
                namespace.close()
            if self.wire is not None:
                self.wire.close()

    # Configuration of one test, undone after it.

    def ip(self, command, undo=None):
        """`ip COMMAND` in the router; `undo` is run after the test."""
        self.router.ip(*command.split())
        if undo:
            self._undo.append(lambda: self.router.ip(*undo.split(), check=False))

    def route(self, prefix, how, family=4):
        """Adds a route for this test: route("0.0.0.0/0", "via 10.0.1.2")."""
        self.ip(f"-{family} route add {how} {prefix}" if how in ("blackhole", "unreachable", "prohibit")
                else f"-{family} route add {prefix} {how}", f"-{family} route del {prefix}")

    def sysctl(self, key, value):
        """Sets a net sysctl of the router for this test."""
        before = self.router.get_sysctl(f"net/{key}")
        self.router.set_sysctl(f"net/{key}", value)
        self._undo.append(lambda: self.router.set_sysctl(f"net/{key}", before))
        self._sysctl_changed = True

    def later(self, action):
        """Runs `action` after the test."""
        self._undo.append(action)

    _sysctl_changed = False

    def settle(self):
        """Waits until Bora has followed changes in the kernel: routes by comparison, sysctls by time."""
        if self.bora is not None:
            if self._sysctl_changed:
                time.sleep(1.3)  # sysctls without an event are read once a second
            self.bora.wait_in_sync(5.0 * self.over.patience)
        self._sysctl_changed = False

    def undo(self):
        """Reverts what the test has configured, newest first."""
        changed = bool(self._undo)
        while self._undo:
            self._undo.pop()()
        if changed:
            self.settle()

    # Traffic.

    def frame(self, packet, link=0, kind=None):
        """The packet as host `link` sends it to the router."""
        return packets.ethernet(self.router_mac(link), self.host_mac(link), packet, kind)

    def out(self, packet, link):
        """The frame in which the router delivers `packet` to host `link`."""
        return packets.ethernet(self.host_mac(link), self.router_mac(link), packet)

    def forwarded(self, packet, link):
        """The frame that host `link` gets when the router forwards `packet`."""
        return self.out(packets.hop(packet), link)

    def path_of(self, packet, link=0, timeout=1.0):
        """Sends the packet and returns the number of the host that got it, or None; it must be intact."""
        for port in self.hosts:
            port.drain()
        self.hosts[link].send(self.frame(packet, link))
        got = [item for item in self.collect(1, timeout, quiet=0) if self._is_hop_of(packet, item[1])]
        assert len(got) <= 1, "the packet came twice"
        return got[0][0] if got else None

    @staticmethod
    def _is_hop_of(packet, frame):
        return packets.same(frame[:14] + packets.hop(packet), frame)

    def probe(self, family=4, timeout=1.0, link=0, to=1):
        """Sends a good packet and waits for it; frames before it stay unread in `self.extra`."""
        make, address = (packets.udp4, self.behind4) if family == 4 else (packets.udp6, self.behind6)
        packet = make(address(link), address(to), dport=9)
        self.hosts[link].send(self.frame(packet, link))
        wanted = self.forwarded(packet, to)
        self.extra = []
        deadline = time.monotonic() + timeout * self.over.patience
        while time.monotonic() < deadline:
            for port in wait_readable(self.hosts, deadline - time.monotonic()):
                got = port.receive_now()
                if got is not None and packets.same(wanted, got):
                    return True
                if got is not None and not got.startswith(_MLD):
                    self.extra.append((self.hosts.index(port), got))
        return False

    def collect(self, count=None, timeout=1.0, quiet=None):
        """Captures on all hosts until `count` frames have come (or `timeout`), then until no more come for `quiet` seconds.

        Returns a list of (host number, frame) in the order of arrival."""
        quiet = (quiet if quiet is not None else (0.02 if self.bora is None else 0.05)) * self.over.patience
        got = []
        deadline = time.monotonic() + timeout * self.over.patience
        while True:
            enough = count is not None and len(got) >= count
            wait = quiet if enough or count is None else deadline - time.monotonic()
            readable = wait_readable(self.hosts, wait)
            for port in readable:
                frame = port.receive_now()
                if frame is not None and not frame.startswith(_MLD):
                    got.append((self.hosts.index(port), frame))
            if not readable and (enough or count is None or time.monotonic() >= deadline):
                return got
            if time.monotonic() > deadline + 10:
                raise AssertionError(f"frames do not stop arriving: {packets.describe(got[-1][1])}")

    def exchange(self, frames, expect=None, link=0, timeout=1.0):
        """Sends frames from host `link`, or calls `frames` to do so; exactly the expected frames must arrive on all hosts.

        `expect` maps a host number to a list of whole frames, or of functions from the received IP
        packet to the one expected (see packets.icmp4_error). When nothing is expected, a good packet
        sent afterwards proves that the router is alive. Returns the received frames."""
        expect = expect or {}
        wanted = [(host, item) for host, items in expect.items() for item in items]
        for port in self.hosts:
            port.drain()
        if callable(frames):
            frames()
        else:
            for frame in [frames] if isinstance(frames, bytes) else frames:
                self.hosts[link].send(frame)
        got = self.collect(len(wanted), timeout) if wanted else self._after_probe()
        self._compare(wanted, list(got))
        return got

    def _after_probe(self):
        assert self.probe(), f"{self.backend}: the good packet sent after the test's packets did not arrive"
        return self.extra + self.collect()

    def _compare(self, wanted, left):
        problems = []
        for host, item in wanted:
            candidates = [frame for number, frame in left if number == host]
            for frame in candidates:
                if packets.same(self._expected(host, item, frame), frame):
                    left.remove((host, frame))
                    break
            else:
                what = getattr(item, "text", None) or packets.describe(item)
                problems.append(f"h{host} did not get: {what}")
                if candidates:
                    problems.append(packets.difference(self._expected(host, item, candidates[0]), candidates[0]))
        problems += [f"h{host} got, unexpected: {packets.describe(frame)}\n  {frame.hex()}" for host, frame in left]
        assert not problems, f"backend {self.backend}\n" + "\n".join(problems)

    def _expected(self, host, item, frame):
        return self.out(item(frame[14:]), host) if callable(item) else item
