"""The chapters of the manual are true: every file in them is one that its program takes, `bora` knows every command, and routers
that are built with nothing but a chapter's text do what it says."""

import contextlib
import functools
import os
import re
import socket
import subprocess
import threading
import time

import pytest

from lib import manual, required, testbed
from lib.bird import Bird
from lib.bora import binary
from lib.dhcp import lease
from lib.frr import Frr
from lib.netns import Namespace, inside, run
from lib.ping import ping
from lib.waiting import until

pytestmark = pytest.mark.bora
SECONDS = 40  # daemons find each other within
wait = functools.partial(until, seconds=SECONDS)
BLOCKS = [block for chapter in manual.CHAPTERS for block in manual.blocks(chapter)]
FILES = [block for block in BLOCKS if block.kind not in ("sh", "text")]
OPTION = re.compile(r"\s(--[\w-]+)")


def has_flowtables():
    """Whether this kernel has nf_flow_table, or a module of it."""
    with namespace("nft") as place:
        return place.exec("nft", "add table inet t; add flowtable inet t f { hook ingress priority 0; }", check=False).returncode == 0


def has_vlans():
    """Whether this kernel has VLAN devices, or a module for them."""
    with namespace("vlan") as place:
        return place.ip("link", "add", "link", "lo", "name", "v", "type", "vlan", "id", "1", check=False).returncode == 0


def without_flowtables(ruleset):
    """A ruleset for a kernel that has none."""
    ruleset = re.sub(r"    flowtable \w+ \{.*?\n    \}\n", "", ruleset, flags=re.DOTALL)
    return re.sub(r".*flow add @\w+\n", "", ruleset)


def ruleset(chapter):
    """/etc/nftables.conf of a chapter, as this kernel can have it."""
    text = manual.file(chapter, "/etc/nftables.conf")
    return text if has_flowtables() else without_flowtables(text)


@contextlib.contextmanager
def namespace(role):
    """A namespace for a block."""
    made = Namespace(role)
    try:
        yield made
    finally:
        made.close()


def check_conf(block, _file):
    """Sysctls of this kernel, or an assignment of a shell for a file that is one."""
    if not (block.path or "").startswith("/etc/sysctl.d/"):
        run("bash", "-n", "-c", block.text)
        return
    for key, value in manual.sysctls(block.text):
        assert value.lstrip("-").isdigit(), key
        parts = key.split("/")
        if "conf" in parts:  # the device may be missing here
            parts[parts.index("conf") + 1] = "lo"
        assert os.path.exists("/proc/sys/" + "/".join(parts)), key


def check_nft(block, file):
    file.write_text(block.text if has_flowtables() else without_flowtables(block.text))
    with namespace("nft") as place:
        for device in ("lan0", "wan0"):
            place.ip("link", "add", device, "type", "dummy", check=False)
        place.exec("nft", "-c", "-f", str(file))


def check_dhcpcd(block, file):
    required.program("dhcpcd", "dhcpcd-base")
    said = run("dhcpcd", "-f", str(file), "-T", "lo", check=False)
    assert "unknown option" not in said.stdout + said.stderr


def check_ppp(block, _file):
    """pppd cannot read a file without the kernel's PPP, so these are words of its manual."""
    known = {"plugin", "wan0", "user", "noipdefault", "defaultroute", "+ipv6", "mtu", "mru", "persist", "maxfail", "noauth", "hide-password"}
    assert {line.split()[0] for line in block.text.splitlines()} <= known


CHECKS = {
    "toml": lambda _block, file: run(binary(), "check", "--elsewhere", str(file)),
    "conf": check_conf,
    "nft": check_nft,
    "frr": lambda _block, file: run("vtysh", "--dryrun", "--inputfile", str(file)),
    "bird": lambda _block, file: run("bird", "-p", "-c", str(file)),
    "dnsmasq": lambda _block, file: run("dnsmasq", "--test", "-C", str(file)),
    "dhcpcd": check_dhcpcd,
    "ppp": check_ppp,
}


@pytest.mark.parametrize("block", FILES, ids=str)
def test_file(block, tmp_path):
    """Its own program takes it."""
    programs = {"frr": ("vtysh", "frr"), "bird": ("bird", "bird2"), "dnsmasq": ("dnsmasq", "dnsmasq-base"), "nft": ("nft", "nftables")}
    if block.kind in programs:
        required.program(*programs[block.kind])
    file = tmp_path / "file"
    file.write_text(block.text)
    CHECKS[block.kind](block, file)


@pytest.mark.parametrize("chapter", manual.CHAPTERS)
def test_commands(chapter):
    """`bora` has each command and each option."""
    for line in manual.commands(chapter):
        run("bash", "-n", "-c", line)
        if line.startswith("bora "):
            words = line.split()[1:]
            command = [word for word in words[:2] if re.fullmatch("[a-z]+", word)] if words[0] in ("show", "test", "set") else words[:1]
            said = run(binary(), *command, "--help").stdout
            assert "Usage: bora " + " ".join(command) in said, line
            assert all(option in said for option in OPTION.findall(line)), line


class Place(testbed.Testbed):
    """A router with the interfaces that a chapter names, each joined to a host: {"eth0": "192.0.2.10/24"}."""

    def __init__(self, hosts):
        super().__init__()
        self.router, self.hosts, self.more = self._namespace("r"), {}, contextlib.ExitStack()
        try:
            for device, address in hosts.items():
                self.hosts[device] = self.host(device, address)
        except BaseException:
            self.close()
            raise

    def host(self, device, address):
        """A host with an address, if there is one, at an interface of the router."""
        host = self._namespace(device.replace(".", "-"))
        self.join(self.router, device, host, "eth0")
        if address:
            host.ip("address", "add", address, "dev", "eth0")
        return host

    @staticmethod
    def join(near, device, far, peer):
        """A veth, the far end of which is up. Linux looks at the peer's GRO when a veth comes up."""
        near.ip("link", "add", device, "type", "veth", "peer", "name", peer, "netns", far.name)
        for side, end in ((near, device), (far, peer)):
            side.exec("ethtool", "-K", end, "gro", "on")
        far.ip("link", "set", peer, "up")

    def run(self, host, *command):
        """Starts a daemon for the test's time."""
        process = host.popen(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.more.callback(lambda: (process.kill(), process.wait(10)))
        return process

    def close(self):
        """Ends all daemons, then the rest."""
        try:
            self.more.close()
        finally:
            super().close()


@pytest.fixture
def build(tmp_path):
    """Makes a place and its operator."""
    made = []

    def build(chapter, hosts):
        place = Place(hosts)
        operator = manual.Operator(place.router, chapter, tmp_path)
        made[:] = [operator, place]
        return place, operator

    yield build
    for thing in made:
        thing.close()


def counted(operator):
    """Packets that Bora has sent, once the counters stand still."""
    return operator.bora.check_conservation()["sent"]


def test_first_router(build):
    """All commands of the chapter, in order."""
    place, operator = build("first-router", {"eth0": "192.0.2.10/24", "eth1": "198.51.100.10/24"})
    host_a, host_b = place.hosts.values()
    said = {}
    for line in manual.commands("first-router"):
        if line == "sysctl --system":
            operator.sysctls("/etc/sysctl.d/60-router.conf")
        elif line.startswith("ping "):
            _, _, count, address = line.split()
            assert len(ping(host_a, address, int(count))) == int(count), line
        elif line == "ip route add 198.51.100.0/24 via 192.0.2.1":
            host_a.exec(*line.split())
            host_b.ip("route", "add", "192.0.2.0/24", "via", "198.51.100.1")
        elif line.startswith("bora trace"):
            late = threading.Timer(1, ping, (host_a, "198.51.100.10", 20))
            late.start()
            said[line] = operator.type(line)
            late.join()
        else:
            said[line] = operator.type(line)
            if line == "systemctl stop bora":
                assert ping(host_a, "198.51.100.10", 3) == {0, 1, 2}, "Linux goes on"
    assert "ok       eth0: express" in said["bora check --port eth0 --port eth1"]
    assert said["bora check /etc/bora/bora.toml"].endswith(": good\n")
    ports = [line.split() for line in said["bora show ports"].splitlines()[1:3]]
    assert [(name, path) for name, _, path, *_ in ports] == [("eth0", "express"), ("eth1", "express")]
    assert all(int(words[-3]) >= 15 for words in ports), ports
    assert "sent by eth1" in said["bora trace -n 2 icmp"]
    assert "via 198.51.100.10" in said["bora show route 203.0.113.7"]
    assert " xdp " not in place.router.ip("link", "show", "eth0").stdout
    operator.bora.log.close()
    operator.bora = None


UPSTREAM = """router id {address};
protocol device {{ }}
protocol static table_of_all {{
    ipv4;
    {routes}
}}
protocol bgp edge {{
    local {address} as {system};
    neighbor {edge} as 65000;
    graceful restart on;
    ttl security on;
    ipv4 {{ import all; export where proto = "table_of_all"; next hop self; }};
}}
"""
UPSTREAMS = {"eth0": ("192.0.2.1", "192.0.2.2", 64500), "eth1": ("198.51.100.1", "198.51.100.2", 64501)}
SHARED, REFUSED = "198.18.0.0/16", ("0.0.0.0/0", "10.1.0.0/16", "203.0.113.128/25", "198.18.9.0/25")


@pytest.mark.parametrize("daemon", [pytest.param("frr", marks=pytest.mark.slow), "bird"])
def test_bgp_edge(build, daemon, tmp_path):
    """Both upstreams' routes come, wrong ones do not, nothing but the own prefix leaves; a restart of the daemon and a lost upstream
    are bridged; the firewall leaves forwarding to Bora."""
    place, operator = build("bgp-edge", {"eth0": "192.0.2.1/24", "eth1": "198.51.100.1/24", "eth2": "203.0.113.10/24"})
    router, inner = place.router, place.hosts["eth2"]
    for device, address in (("eth0", "192.0.2.2"), ("eth1", "198.51.100.2"), ("eth2", "203.0.113.1")):
        router.batch([f"address add {address}/24 dev {device}", f"link set {device} up"])
    inner.ip("route", "add", "default", "via", "203.0.113.1")
    router.set_sysctl("net/ipv4/ip_forward", 1)
    operator.sysctls("/etc/sysctl.d/61-edge.conf")
    for device, (address, edge, system) in UPSTREAMS.items():
        host = place.hosts[device]
        host.batch(["address add 198.18.0.1/16 dev lo"])
        routes = "".join(f"route {prefix} blackhole;" for prefix in (SHARED, *REFUSED))
        upstream = Bird(host, UPSTREAM.format(address=address, edge=edge, system=system, routes=routes), tmp_path, f"upstream-{device}")
        place.more.callback(upstream.close)
        host.ip("route", "add", "203.0.113.0/24", "via", edge)
    operator.type("systemctl start bora")
    operator.type("nft -f /etc/nftables.conf")
    if daemon == "frr":
        options = re.search(r'zebra_options="(.*)"', "".join(block.text for block in BLOCKS if block.kind == "conf"))[1].split()
        speaker = Frr(router, {"bgpd": "", "staticd": ""}, zebra=options)
        speaker.load(operator.path("/etc/frr/frr.conf"))
    else:
        speaker = Bird(router, manual.file("bgp-edge", "/etc/bird/bird.conf"), tmp_path, "edge")
    place.more.callback(speaker.close)

    def routes():
        return router.ip("route", "show").stdout

    wait("two paths", lambda: router.ip("route", "show", SHARED).stdout.count("nexthop") == 2, routes)
    assert not [prefix for prefix in REFUSED if router.ip("route", "show", "exact", prefix).stdout]
    wait("the own prefix", lambda: "203.0.113.0/24" in upstream.ask("show route protocol edge"))
    assert upstream.ask("show route protocol edge count").startswith("bird") and "1 of " in upstream.ask("show route protocol edge count")
    operator.bora.wait_in_sync()
    assert not operator.bora.guard()
    before = counted(operator)
    assert len(ping(inner, "198.18.0.1", 50)) == 50
    assert counted(operator) - before >= 2 * 50 - 2
    if daemon == "frr":
        speaker.restart()
        assert router.ip("route", "show", SHARED).stdout, "zebra has taken the routes out"
        assert "203.0.113.0/24" in upstream.ask("show route protocol edge")
        speaker.load(operator.path("/etc/frr/frr.conf"))
    place.hosts["eth0"].ip("link", "set", "eth0", "down")
    wait("one path", lambda: "192.0.2.1" not in router.ip("route", "show", SHARED).stdout, routes)
    assert len(ping(inner, "198.18.0.1", 10)) == 10


def seen_as(client, server, address):
    """Whom a server takes a client for, by TCP."""
    with inside(server.name):
        listening = socket.create_server((address, 8000))
    with inside(client.name):
        sock = socket.socket()
    with listening, sock:
        listening.settimeout(10)
        sock.settimeout(10)
        sock.connect((address, 8000))
        connection, peer = listening.accept()
        connection.close()
    return peer[0]


@pytest.mark.slow
def test_home_router(build, tmp_path):
    """The router gets its address by DHCP and gives one to a host, whose traffic gets out with the router's address."""
    for program, package in (("dnsmasq", "dnsmasq-base"), ("busybox", "busybox-static"), ("dhcpcd", "dhcpcd-base")):
        required.program(program, package)
    place, operator = build("home-router", {"lan0": None, "wan0": "203.0.113.1/24"})
    host, provider = place.hosts["lan0"], place.hosts["wan0"]
    provider.ip("address", "add", "198.18.0.1/32", "dev", "lo")
    place.run(provider, "dnsmasq", "--keep-in-foreground", "--port=0", "--conf-file=/dev/null", "--user=root", "--no-ping",
              "--dhcp-range=203.0.113.100,203.0.113.110,255.255.255.0,1h", "--dhcp-option=3,203.0.113.1",
              f"--dhcp-leasefile={tmp_path}/provider-leases", f"--pid-file={tmp_path}/provider")
    operator.sysctls("/etc/sysctl.d/60-router.conf")
    for line in manual.command("home-router", "ip address add") + manual.command("home-router", "ip link set"):
        operator.type(line)
    # not the leases of this machine, nor its resolv.conf
    client = f"mount -t tmpfs none /var/lib/dhcpcd; exec dhcpcd -f {operator.path('/etc/dhcpcd.conf')} -B -4 -C resolv.conf wan0"
    # its helpers outlive a kill -9 of it, but not of their process namespace
    place.run(place.router, "unshare", "--pid", "--fork", "--kill-child", "sh", "-c", client)
    rules = tmp_path / "rules"
    rules.write_text(ruleset("home-router"))
    place.router.exec("nft", "-f", str(rules))
    operator.type("systemctl start bora")
    place.run(place.router, "dnsmasq", "--keep-in-foreground", "--user=root", f"--conf-file={operator.path('/etc/dnsmasq.d/home.conf')}",
              f"--dhcp-leasefile={tmp_path}/leases", f"--pid-file={tmp_path}/home", "--no-resolv")
    network, _, last = lease(host, "eth0", tmp_path).rpartition(".")
    assert network == "192.168.1" and 100 <= int(last) <= 200  # the range of the chapter
    wait("the uplink", lambda: "default via 203.0.113.1" in place.router.ip("route", "show").stdout)
    own = re.search(r"inet (203\.0\.113\.1\d\d)/", place.router.ip("address", "show", "dev", "wan0").stdout)[1]
    assert seen_as(host, provider, "198.18.0.1") == own
    assert len(ping(host, "198.18.0.1", 3)) == 3
    provider.ip("route", "add", "192.168.1.0/24", "via", own)
    host_address = re.search(r"inet (192\.168\.1\.\d+)", host.ip("address", "show", "dev", "eth0").stdout)[1]
    assert not ping(provider, host_address, 2, patience=0.3), "the Internet gets in"
    assert any("conntrack" in line for line in operator.bora.guard())
    operator.bora.check_conservation()


@pytest.mark.slow
def test_exchange(build, tmp_path):
    """Members exchange routes by the route server, with their own next hops; the peering LAN is no way out."""
    vlans = has_vlans()
    place, operator = build("exchange", {"eth0": None, "eth1": "198.51.100.1/24"})
    switch, router = place.hosts["eth0"], place.router
    if not vlans:  # a veth for each device that this kernel cannot have
        for device in ("eth0.100", "eth0.10"):
            place.join(router, device, switch, device)
    switch.batch(["link add name lan type bridge", "link set lan up", f"link set {'eth0' if vlans else 'eth0.100'} master lan"])
    members = {}
    for number in (1, 2):
        member = members[number] = place._namespace(f"m{number}")
        place.join(switch, f"m{number}", member, "eth0")
        switch.batch([f"link set m{number} master lan", f"link set m{number} up"])
        lan = "eth0"
        if vlans:
            lan = "eth0.100"
            member.batch(["link add link eth0 name eth0.100 type vlan id 100", "link set eth0.100 up"])
        member.batch([f"address add 192.0.2.1{number}/24 dev {lan}", "route add 198.51.100.0/24 via 192.0.2.1"])
    router.set_sysctl("net/ipv4/ip_forward", 1)
    for line in manual.command("exchange", "ip "):
        if vlans or " type vlan " not in line and "link del" not in line:
            operator.type(line)
        if line.startswith("ip route add default"):
            break
    operator.sysctls("/etc/sysctl.d/61-exchange.conf")
    operator.type("systemctl start bora")
    operator.type("nft -f /etc/nftables.conf")
    config = manual.file("exchange", "/etc/bird/bird-member.conf")
    second = config.replace("192.0.2.11", "192.0.2.12").replace("64496", "64497").replace("198.18.0.0", "198.19.0.0")
    daemons = [Bird(router, manual.file("exchange", "/etc/bird/bird.conf"), tmp_path, "server"),
               Bird(members[1], config, tmp_path, "member1"), Bird(members[2], second, tmp_path, "member2")]
    for daemon in daemons:
        place.more.callback(daemon.close)
    wait("a route", lambda: "via 192.0.2.12" in members[1].ip("route", "show", "198.19.0.0/16").stdout, lambda: daemons[0].ask("show protocols all"))
    wait("a route", lambda: "via 192.0.2.11" in members[2].ip("route", "show", "198.18.0.0/16").stdout)
    assert "198.1" not in router.ip("route", "show", "proto", "bird").stdout
    daemons[0].ask("graceful restart")
    daemons[0].process.wait(10)
    time.sleep(0.5)
    assert members[1].ip("route", "show", "198.19.0.0/16").stdout, "members do not keep routes"
    place.hosts["eth1"].ip("route", "add", "192.0.2.0/24", "via", "198.51.100.2")
    assert ping(router, "198.51.100.1"), "the uplink"
    assert not ping(members[1], "198.51.100.1", 2, patience=0.3), "the peering LAN is a way out"
    assert not operator.bora.guard()
    if vlans:
        assert {entry["name"] for entry in operator.bora.show("vlans")} >= {"eth0.100", "eth0.10"}
    operator.bora.check_conservation()
