"""What the guests of topic.py and dpdk.py share: how they report, and a router of veths whose hosts answer nothing."""

import sys
import time
import traceback

import lib.bora
from lib import packets
from lib.bora import Bora
from lib.netns import Namespace
from lib.port import Port, wait_readable
from lib.vlans import tag
from vm.guest import START_SECONDS, prepare
from vm.vlan import normalized

HOST, ROUTER = "02:bc:00:00:00:1{}", "02:bc:00:00:00:2{}"  # addresses of a link's ends
FOLLOW_SECONDS = 60  # Bora follows Linux within them
_COME_SECONDS, _QUIET = 3.0, 0.4
_SYSCTLS = {"ipv4/conf/{}/rp_filter": 0, "ipv4/conf/{}/send_redirects": 0, "ipv6/conf/{}/accept_dad": 0,
            "ipv6/conf/{}/router_solicitations": 0, "ipv6/conf/{}/keep_addr_on_down": 1}
_ROUTER_SYSCTLS = {"ipv4/ip_forward": 1, "ipv6/conf/all/forwarding": 1, "ipv4/icmp_ratemask": 0, "ipv6/icmp/ratemask": "128-255"}


def main(body):
    """Runs `body` with the program's first argument and a function that takes a line of results. Writes the lines
    to the file of the second argument; the last one is `done` if all went well."""
    how, results = sys.argv[1:]
    lib.bora.START_SECONDS, lib.bora.STOP_SECONDS = START_SECONDS, 60
    prepare()
    with open(results, "w") as out:
        def say(line):
            out.write(f"{line}\n")
            out.flush()

        try:
            body(how, say)
            say("done")
        except BaseException:
            say(traceback.format_exc())


def is_traffic(frame):
    """No ARP, and none of what IPv6 says by itself to groups."""
    tagged = frame[12:14] == b"\x81\0"
    kind = frame[16:18] if tagged else frame[12:14]
    return kind in (b"\x08\0", b"\x86\xdd") and not frame.startswith(b"\x33\x33")


class Lan:
    """A router in a namespace, with a host in one of its own on each link: h0 ==== r0 [router] r1 ==== h1 ..."""

    is_traffic = staticmethod(is_traffic)
    normalized = staticmethod(normalized)

    def __init__(self, links):
        self.links = links
        self.spaces, self.ports, self.bora = [], [], None
        self.router = self._space("r")
        for key, value in _SYSCTLS.items():
            for scope in ("all", "default"):
                self.router.set_sysctl("net/" + key.format(scope), value)
        for key, value in _ROUTER_SYSCTLS.items():
            self.router.set_sysctl("net/" + key, value)
        self.hosts = [self._space(f"h{link}") for link in range(links)]

    def _space(self, role):
        self.spaces.append(Namespace(role))
        return self.spaces[-1]

    def connect(self, link, up=True):
        """A veth to the host of a link, which answers nothing. `up`: or what puts it up is still to come."""
        host = self.hosts[link]
        self.router.ip("link", "add", f"r{link}", "address", ROUTER.format(link), "numrxqueues", "2", "numtxqueues", "2", "type", "veth",
                       "peer", "name", f"h{link}", "address", HOST.format(link), "numrxqueues", "2", "numtxqueues", "2", "netns", host.name)
        host.set_sysctl(f"net/ipv6/conf/h{link}/disable_ipv6", 1)
        host.exec("ethtool", "-K", f"h{link}", "gro", "on")
        host.ip("link", "set", f"h{link}", "arp", "off", *(["up"] if up else []))
        self.router.ip("link", "set", f"r{link}", *(["up"] if up else []))

    def open_ports(self):
        """The tests' ends of the links."""
        self.ports = [Port(host.name, f"h{link}") for link, host in enumerate(self.hosts)]

    def start(self, path):
        """Starts Bora on all links."""
        self.bora = Bora(self.router, [f"r{link}" for link in range(self.links)], path, ["--workers", "2"])
        self.bora.start()

    def kill(self):
        """Ends Bora, and takes away what it leaves."""
        if self.bora is not None:
            self.bora.kill()
            self.bora.stop()
        self.bora = None

    def wait(self, what, condition, seconds=FOLLOW_SECONDS):
        """Fails after so long."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s; {self.state()}"
            time.sleep(0.1)

    def state(self):
        """For messages."""
        return (self.bora.show("drops"), self.bora.output()[-1500:]) if self.bora else ""

    def exchange(self, sends, least=0):
        """Sends (link, frame)s; returns what comes out, sorted: (link, frame). Ends when nothing comes any more, and not
        before `least` have come, if they do within 3 s."""
        for port in self.ports:
            port.drain()
        for link, frame in sends:
            self.ports[link].send(frame)
        got, last = [], time.monotonic() + _COME_SECONDS
        while time.monotonic() < last:
            ready = wait_readable(self.ports, _QUIET)
            for port in ready:
                frame = port.receive_now()
                if frame is not None and self.is_traffic(frame):
                    got.append((self.ports.index(port), self.normalized(frame)))
            if not ready and len(got) >= least:
                break
        return sorted(got)

    def close(self):
        """Removes everything."""
        self.kill()
        for port in self.ports:
            port.close()
        for space in self.spaces:
            space.close()


def addressing(device, number, mac):
    """Commands: the router's addresses on a device, 10.0.NUMBER.1 and 2001:db8:NUMBER::1, its host, and what is behind that."""
    made = []
    for address, host, behind in ((f"10.0.{number}.1/24", f"10.0.{number}.2", f"198.{18 + number}.0.0/16"),
                                  (f"2001:db8:{number}::1/64", f"2001:db8:{number}::2", f"2001:db8:f{number}::/48")):
        made += [f"address replace {address} dev {device}" + (" nodad" if ":" in address else ""),
                 f"neighbour replace {host} lladdr {mac} dev {device}", f"route replace {behind} via {host}"]
    return made


def tagged(frame, vlan):
    """The frame with an IEEE 802.1Q tag; 0: as it is."""
    return tag(frame, [(0x8100, vlan)] if vlan else [])


def record_linux(lan, steps, exchange, say):
    """Takes the lan, whose router runs no Bora, through the steps {name: commands}; returns {name: what came}.
    `exchange` gets the lan and the name of a step."""
    record = {}
    try:
        for name, commands in steps.items():
            lan.step(commands)
            record[name] = exchange(lan, name)
            say(f"Linux alone, {name}: {len(record[name])} frames came")
        same = [one for one, other in zip(steps, list(steps)[1:]) if record[one] == record[other]]
        assert same == [], f"steps that change nothing: {same}"
    finally:
        lan.close()
    return record


def count_different(lan, path, record, steps, exchange, check, say):
    """Takes another lan through the steps with Bora; returns in how many of them other frames came than with Linux alone.
    `check` gets the lan, the name of the step, what came, and how many packets Bora has sent."""
    different = 0
    try:
        lan.start(path)
        for name, commands in steps.items():
            lan.step(commands)
            before = lan.bora.totals()["sent"]
            got = exchange(lan, name)
            by_bora = lan.bora.check_conservation(10)["sent"] - before
            if got != record[name]:
                different += 1
                say(f"FAILED {path}, {name}: {differences(record[name], got)}; {lan.state()}")
                continue
            proof = lan.bora.prove()
            if proof["progress"]["differ"]:
                different += 1
                say(f"FAILED {path}, {name}: answers differ: {proof['differences'][:3]}")
                continue
            same = proof["progress"]["same"]
            say(f"{path}, {name}: {len(got)} frames as with Linux, {by_bora} sent by Bora; {same} answers as of Linux")
            check(lan, name, got, by_bora)
    finally:
        lan.close()
    return different


def differences(wanted, got):
    """The first ones, as text."""
    missing = [one for one in wanted if one not in got]
    extra = [one for one in got if one not in wanted]
    show = lambda some: [(link, packets.describe(frame)) for link, frame in some[:6]]  # noqa: E731
    text = f"{len(wanted)} wanted, {len(got)} came; {len(missing)} missing: {show(missing)}; {len(extra)} unexpected: {show(extra)}"
    alike = lambda one, other: one[0] == other[0] and one[1][-20:] == other[1][-20:]  # noqa: E731
    pairs = [(one, other) for one in missing for other in extra if alike(one, other)]
    return "\n".join([text, *(packets.difference(one[1], other[1]) for one, other in pairs[:3])])
