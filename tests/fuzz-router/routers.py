"""Two routers that get the same commands and the same packets: one runs Bora, the other is Linux alone.

Each has four links: r0 to r3 are the router's ends, h0 to h3 the hosts'. A router's namespace, that of its hosts, and a spare
one, to which interfaces can be moved, are all there is.
"""

import collections
import contextlib
import os
import re
import signal
import time

from frames import is_noise, is_redirect, normal, redirects_vary, says_host_is_dead, source_of
from hosts import Hosts
from lib.bora import Bora
from lib.netns import Namespace, inside, run
from lib.port import Port, wait_readable

LINKS = 4
SEED = 12345  # the multipath hash
QUIET, LONGEST = 0.03, 2.5  # seconds without a frame; for all of them
DEAD_SECONDS = 0.4  # after which Linux gives a neighbour up
PROVED, ASKED = "bora prove finds:", "Bora itself finds:"  # so begin the texts of what Linux was asked for
PROGRAMS = ("ip", "bridge", "tc")  # which take many commands at once
_PROGRAM = re.compile(r"(\w+) (?:-n \{(\w+)\} )?(-[46] )?")
SETTINGS = {
    "net/ipv4/ip_forward": 1, "net/ipv6/conf/all/forwarding": 1, "net/ipv6/conf/default/forwarding": 1,
    "net/ipv4/conf/all/rp_filter": 0, "net/ipv4/conf/default/rp_filter": 0,
    "net/ipv6/conf/default/accept_dad": 0, "net/ipv6/conf/all/accept_dad": 0, "net/ipv6/conf/default/router_solicitations": 0,
    "net/ipv4/icmp_ratelimit": 0, "net/ipv6/icmp/ratelimit": 0, "net/ipv4/icmp_msgs_per_sec": 100_000,
    "net/ipv4/icmp_msgs_burst": 10_000, "net/ipv6/auto_flowlabels": 0, "net/ipv4/fib_multipath_hash_seed": SEED,
    "net/ipv4/conf/all/drop_gratuitous_arp": 0, "net/ipv6/conf/default/mldv1_unsolicited_report_interval": 60000,
}
# Neighbours fail soon, and are confirmed by nothing but what the test sends.
NEIGHBOUR = {"mcast_solicit": 4, "ucast_solicit": 3, "retrans_time_ms": 70, "delay_first_probe_time": 600, "base_reachable_time_ms": 600_000,
             "gc_stale_time": 600}
NEIGHBOUR4 = {"locktime": 0, "anycast_delay": 0, "proxy_delay": 0}


def be_patient(factor):
    """Makes all waiting longer."""
    global QUIET, LONGEST, DEAD_SECONDS
    QUIET, LONGEST, DEAD_SECONDS = (factor * seconds for seconds in (QUIET, LONGEST, DEAD_SECONDS))
    NEIGHBOUR["retrans_time_ms"] *= factor


def host_mac(link):
    """The MAC of a link's far end."""
    return f"02:bc:00:00:00:1{link}"


def router_mac(link):
    """The MAC of a router's port."""
    return f"02:bc:00:00:00:2{link}"


class Router:
    """One router with its hosts. `taps`: links that are TAP interfaces of Bora, which then runs from the beginning; its hosts see
    whole checksums there, so Linux alone must write them, too."""

    def __init__(self, role, tier=None, taps=()):
        self.spaces = {}
        self.bora = self.hosts = None
        self.ports = []
        for name, short in (("router", "r"), ("hosts", "h"), ("spare", "s")):
            self.spaces[name] = Namespace(f"{role}{short}")
        self.router = self.spaces["router"]
        for key, value in SETTINGS.items():
            if os.path.exists(f"/proc/sys/{key}"):
                self.router.set_sysctl(key, value)
        hosts = self.spaces["hosts"]
        hosts.set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
        self.router.batch(
            f"link add r{link} address {router_mac(link)} type veth peer name h{link} address {host_mac(link)} netns {hosts.name}"
            for link in sorted(range(LINKS), key=taps.__contains__) if not (tier and link in taps))  # the order decides between source addresses
        hosts.batch(f"link set h{link} arp off mtu 3400 up" for link in range(LINKS) if link not in (taps if tier else ()))
        if taps and tier:
            self.start(tier, taps)
        for link in taps if tier else ():
            self.router.ip("link", "set", f"h{link}", "netns", hosts.name)
            hosts.ip("link", "set", f"h{link}", "address", host_mac(link), "arp", "off", "up")
        self.router.batch(f"link set r{link} up" for link in range(LINKS))
        for link in taps:
            self.router.exec("ethtool", "-K", f"r{link}", "tx", "off", check=False)  # what a TAP interface cannot is off
        for link in range(LINKS):
            hosts.exec("ethtool", "-K", f"h{link}", "gro", "on")  # Linux takes no frames of express otherwise
        names = [f"h{link}" for link in range(LINKS)]
        self.ports = [Port(hosts.name, name) for name in names]
        self.hosts = Hosts(hosts.name, names)
        self.hurry_neighbours()

    def start(self, tier, taps=()):
        """Starts Bora, if it does not run yet."""
        if self.bora is None:
            ports = [f"tap:h{link},name=r{link},mac={router_mac(link)}" if link in taps else f"r{link}" for link in range(LINKS)]
            self.bora = Bora(self.router, ports, tier)
            self.bora.start()

    def hurry_neighbours(self):
        """Sets the times of neighbours again, because devices come and go, and lose them in another namespace."""
        with inside(self.router.name):
            for version, more in (("ipv4", NEIGHBOUR4), ("ipv6", {})):
                folder = f"/proc/sys/net/{version}/neigh"
                for device in set(os.listdir(folder)) - {"default", "lo"}:
                    for key, value in {**NEIGHBOUR, **more}.items():
                        with contextlib.suppress(OSError), open(f"{folder}/{device}/{key}", "w") as file:
                            file.write(str(value))

    def do(self, lines):
        """Runs commands as an operator would type them; returns those that failed, and why."""
        failed, at = [], 0
        while at < len(lines):
            match = _PROGRAM.match(lines[at])
            end = at + 1
            while match[1] in PROGRAMS and end < len(lines) and _PROGRAM.match(lines[end])[0] == match[0]:
                end += 1
            failed += self._run(match, lines[at:end])
            at = end
        self.hurry_neighbours()
        return failed

    def _run(self, match, lines):
        """Commands with the same program, namespace and options."""
        space = self.spaces[match[2] or "router"]
        rests = [line[match.end():] for line in lines]
        for name, other in self.spaces.items():
            rests = [rest.replace("{%s}" % name, other.name) for rest in rests]
        if match[1] == "sysctl":
            key, _, value = rests[0].removeprefix("-w ").partition("=")
            try:
                space.set_sysctl(key.replace(".", "/"), value)
            except OSError as error:
                return [(lines[0], error.strerror)]
            return []
        text = "".join(f"{rest}\n" for rest in rests)
        if match[1] == "nft":
            done = run("ip", "netns", "exec", space.name, "nft", "-f", "-", input=text, check=False)
            return [(lines[0], done.stderr.splitlines()[0])] if done.returncode else []
        done = run(match[1], "-n", space.name, *(match[3] or "").split(), "-force", "-batch", "-", input=text, check=False)
        # `ip neigh flush` gives up if Bora has asked for a gateway again in each of its ten rounds
        numbers = [int(number) for number in re.findall(r"^Command failed -:(\d+)", done.stderr, re.M)]
        return [(lines[number - 1], "") for number in numbers if " neigh flush " not in lines[number - 1]]

    def routes(self):
        """Lines of all routes; how long they hold is told in seconds, and these pass."""
        return [re.sub(r"expires \d+sec", "expires", line) for family in ("-4", "-6") for line in self.router.ip(family, "route", "show", "table", "all").stdout.splitlines()]

    def send(self, link, frame):
        """Sends a frame, which is lost if the link is down or the frame too large for it."""
        with contextlib.suppress(OSError):
            self.ports[link].socket.send(frame)

    def close(self):
        """Stops Bora and removes everything; raises if Bora did not end well."""
        try:
            if self.bora is not None:
                self.bora.stop()
        finally:
            if self.hosts:
                self.hosts.close()
            for port in self.ports:
                port.close()
            for space in self.spaces.values():
                space.close()


class Pair:
    """Both routers."""

    def __init__(self, tier, taps=()):
        self.tier = tier
        self.routers, self.commands, self.refused = [], 0, 0
        try:
            self.linux = self._router("l", None, taps)
            self.other = self._router("b", tier, taps)
        except BaseException:
            self.close(quietly=True)
            raise

    def _router(self, *which):
        router = Router(*which)
        self.routers.append(router)
        return router

    def start(self):
        """Starts Bora on one of them."""
        self.other.start(self.tier)

    def pause(self):
        """Stops Bora's process until the next packets are sent: what the XDP program must see by itself. Its lease ends after 0.5 s."""
        if self.other.bora is not None:
            self.other.bora.process.send_signal(signal.SIGSTOP)

    def resume(self):
        """The reverse of `pause`."""
        if self.other.bora is not None and self.other.bora.alive():
            self.other.bora.process.send_signal(signal.SIGCONT)

    def do(self, lines):
        """Runs commands on both; returns those that only one of them refused."""
        failed = [router.do(lines) for router in self.routers]
        self.commands += len(lines)
        self.refused += len(failed[0])
        return None if failed[0] == failed[1] else f"commands: Linux alone refuses {failed[0]}, with Bora {failed[1]}"

    def settle(self, how):
        """Waits until Bora has followed. `how`: "sync" asks whether it has; "second" waits for what is read once a second;
        "verify" makes it read all that has no event; "paused": not at all."""
        if how == "paused":
            return None
        problem = self._same_routes()
        bora = self.other.bora
        if problem or bora is None:
            return problem
        time.sleep({"second": 1.3}.get(how, QUIET + 0.01))
        deadline = time.monotonic() + 4 * LONGEST
        while not (report := bora.show("sync", *(["--verify"] if how == "verify" else [])))["in_sync"]:
            if not bora.alive():
                return f"Bora ended: {bora.output()[-1500:]}"
            if report["linux"]["distrusted"]:
                return f"{ASKED} {self._log('leaves it to Linux')}"
            if time.monotonic() > deadline:
                return f"Bora is not in sync after {4 * LONGEST} s: {report}"
            time.sleep(0.05)
        return None

    def _same_routes(self):
        """Linux adds the routes of new IPv6 addresses a little later; returns what remains different."""
        deadline = time.monotonic() + LONGEST
        while True:
            tables = [collections.Counter(router.routes()) for router in self.routers]
            if tables[0] == tables[1]:
                return None
            if time.monotonic() > deadline:
                only = [sorted(one - other) for one, other in (tables, tables[::-1])]
                return f"routes: only Linux alone has {only[0]}, only the router with Bora {only[1]}"
            time.sleep(0.02)

    def exchange(self, sends):
        """Sends (link, frame)s to both; returns what came out of each, by link."""
        for router in self.routers:
            for port in router.ports:
                port.drain()
            router.asked_before = router.hosts.unanswered
        got = [collections.Counter(), collections.Counter()]
        ports = {port: (which, link) for which, router in enumerate(self.routers) for link, port in enumerate(router.ports)}
        sources = {source_of(frame) for _, frame in sends}
        begin = time.monotonic()
        for link, frame in sends:
            for router in self.routers:
                router.hosts.heard(frame)
                router.send(link, frame)
        time.sleep(QUIET)
        self.resume()
        while time.monotonic() - begin < LONGEST:
            ready = wait_readable(list(ports), QUIET)
            for port in ready:
                which, link = ports[port]
                while (frame := port.receive_now()) is not None:
                    if not is_noise(frame):
                        got[which][link, normal(frame, sources)] += 1
            if not ready and got[0] == got[1] and time.monotonic() - begin > self._patience():
                break
        for is_chance, happens in ((says_host_is_dead, self._waits), (is_redirect, lambda: redirects_vary(got))):
            if got[0] != got[1] and happens():
                got = [collections.Counter({one: count for one, count in half.items() if not is_chance(one[1])}) for half in got]
        return got

    def _waits(self):
        """Whether a router has asked for a host that does not exist."""
        return any(router.hosts.unanswered > router.asked_before for router in self.routers)

    def _patience(self):
        return DEAD_SECONDS if self._waits() else QUIET

    def check(self):
        """What is wrong with Bora itself, or None."""
        bora = self.other.bora
        if bora is None:
            return None
        if not bora.alive():
            return f"Bora ended: {bora.output()[-1500:]}"
        if "panicked" in bora.output():
            return f"Bora panicked: {bora.output()[-1500:]}"
        try:
            bora.check_conservation(4)
        except AssertionError as error:
            return f"counters: {error}"
        return None

    def prove(self):
        """What `bora prove` finds that Linux itself does otherwise, or None."""
        bora = self.other.bora
        if bora is None or not bora.alive():
            return None
        proof = bora.prove()
        found = [" ".join(f"{name}: {value}" for name, value in one.items() if value is not None) for one in proof["differences"][:4]]
        return "\n".join([PROVED, *found, proof["why"] or ""]) if found or proof["why"] else None

    def _log(self, words):
        """The last lines of Bora's log with some words."""
        return "\n".join([line for line in self.other.bora.output().splitlines() if words in line][-4:])

    def close(self, quietly=False):
        """Removes both; returns what was wrong at the end."""
        wrong = None
        if len(self.routers) == 2:
            self.resume()
        for router in self.routers:
            try:
                router.close()
            except (AssertionError, RuntimeError) as error:
                wrong = f"at the end: {error}"
        assert quietly or wrong is None or isinstance(wrong, str)
        return wrong
